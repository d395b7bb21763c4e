// Eight lanes at a time: the vector types of the lockstep tier.
//
// GCC and clang lower these generic vectors to whatever the enclosing function's
// target has (AVX-512: one register, AVX2: two, baseline: four), with the same
// bits. Everything is always_inline, so that it takes the caller's target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/units.h"

#define STEPCAST_INLINE inline __attribute__((always_inline))

namespace stepcast::sim {

inline constexpr std::size_t block_lanes = 8;
inline constexpr std::size_t line_bytes = 64;

typedef Ticks TickBlock __attribute__((vector_size(64), may_alias));
typedef std::uint64_t BitBlock __attribute__((vector_size(64), may_alias));
typedef double RealBlock __attribute__((vector_size(64), may_alias));
typedef float RowBlock __attribute__((vector_size(32), may_alias));

// Memory for lanes: whole cache lines, so that every block is aligned.
struct alignas(line_bytes) Line {
  std::byte bytes[line_bytes];
};
template <class T>
class LaneBuffer {
 public:
  LaneBuffer() = default;
  explicit LaneBuffer(std::size_t count) : lines_((count * sizeof(T) + line_bytes - 1) / line_bytes, Line{}) {}
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(lines_.data()); }
  [[nodiscard]] const T* data() const { return reinterpret_cast<const T*>(lines_.data()); }
  [[nodiscard]] bool empty() const { return lines_.empty(); }
  [[nodiscard]] std::size_t bytes() const { return lines_.size() * line_bytes; }

 private:
  std::vector<Line> lines_;
};

constexpr std::size_t padded_lanes(std::size_t lanes) { return (lanes + block_lanes - 1) / block_lanes * block_lanes; }

STEPCAST_INLINE TickBlock& block(Ticks* p, std::size_t b) { return *reinterpret_cast<TickBlock*>(p + b * block_lanes); }
STEPCAST_INLINE const TickBlock& block(const Ticks* p, std::size_t b) {
  return *reinterpret_cast<const TickBlock*>(p + b * block_lanes);
}
STEPCAST_INLINE const RealBlock& block(const double* p, std::size_t b) {
  return *reinterpret_cast<const RealBlock*>(p + b * block_lanes);
}
STEPCAST_INLINE const BitBlock& block(const std::uint64_t* p, std::size_t b) {
  return *reinterpret_cast<const BitBlock*>(p + b * block_lanes);
}
STEPCAST_INLINE const RowBlock& block(const float* p, std::size_t b) {
  return *reinterpret_cast<const RowBlock*>(p + b * block_lanes);
}

}  // namespace stepcast::sim
