// What differs by rank and by sampled step: routed rows, device speed, noise.
//
// All of it is a pure function of logical coordinates, so that engines may ask
// in any order and from any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "sim/base/rng.h"
#include "sim/base/units.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// Rows that each lane of a cohort receives for one load (MoE layer) and microbatch. Implemented by parallelism/routing.
class LoadSource {
 public:
  virtual ~LoadSource() = default;
  // Fills rows[lane]. Thread-safe, deterministic. `instance` is the call's microbatch.
  virtual void rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const = 0;
  // The same for some lanes of a cohort of `all` lanes; override where that is cheaper.
  virtual void rows_of(std::uint64_t step, int load, int cohort, int instance, std::size_t all,
                       std::span<const std::int32_t> lanes, std::span<float> rows) const;
};

class Delays;

struct Conditions {
  std::uint64_t seed = 1;
  std::span<const float> slow_by_rank;       // duration factor of each rank's kernels; empty: all 1
  double kernel_sigma = 0;                   // independent noise of each kernel, relative
  const LoadSource* loads = nullptr;         // required when the program has loads
  std::span<const float> link_slow_by_rank;  // duration factor of each rank's transfers over its NIC; empty: all 1
  // Host time that each rank loses once, before the first call of step `stall_step`; empty: none.
  std::span<const Ticks> stall_by_rank;
  std::uint64_t stall_step = 0;
  const Delays* delays = nullptr;  // by which sharing links lengthened operations, from run_contended; null: none
};

// Noise factor of one kernel: uniform with mean 1 and standard deviation sigma, 52 random bits.
// `ordinal` counts the instructions of the rank's step in issue order.
// Shaped for vectors: the bits become the fraction of a double in [1, 2), without a conversion from integer.
inline double noise_factor(RngKey rank_key, std::uint64_t ordinal, double sigma) {
  constexpr double two_sqrt3 = 3.4641016151377544;
  const double d = std::bit_cast<double>((rank_key.with(ordinal).bits >> 12) | 0x3ff0000000000000ULL);
  return 1.0 + (sigma * two_sqrt3) * (d - 1.5);
}
inline constexpr double largest_kernel_sigma = 0.57;  // below 1/sqrt(3), so that no duration is negative

// Key of a rank's kernel noise in one step.
constexpr RngKey noise_key(std::uint64_t seed, std::uint64_t step, RankId rank) {
  return RngKey(seed, step, Purpose::kernel_noise).with(static_cast<std::uint64_t>(rank.value));
}

// Nearest tick, ties to even, for 0 <= t < 2^51 (26 days). Adding 2^52 leaves the integer in the low bits of the
// sum, so no instruction set needs a conversion, and every one gives the same bits.
inline constexpr double tick_magic = 0x1.0p52;
constexpr Ticks nearest_tick(double t) {
  return std::bit_cast<std::int64_t>(t + tick_magic) - std::bit_cast<std::int64_t>(tick_magic);
}

// The one definition of an instruction's duration on a lane; every engine uses it or reproduces it to the tick.
// Without contraction to fused multiply-add (the target is compiled with -ffp-contract=off).
inline Ticks duration_ticks(const Cost& cost, double rows, double slow, double noise, double link_slow = 1) {
  double t = cost.base_ticks + cost.per_row_ticks * rows;
  if (t < cost.floor_ticks) t = cost.floor_ticks;
  if (cost.noise == NoiseKind::kernel) t = t * (slow * noise);
  if (cost.noise == NoiseKind::link) t = t * link_slow;
  return nearest_tick(t);
}

// A rank's factor in one of the spans above.
inline double factor_of(std::span<const float> by_rank, RankId rank) {
  return by_rank.empty() ? 1.0 : static_cast<double>(by_rank[static_cast<std::size_t>(rank.value)]);
}

}  // namespace stepcast::sim
