// Counter-based random numbers: no state, so any order and any thread count
// give the same bits.
//
// A draw is a hash of logical coordinates (seed, sampled step, purpose, and
// then what the purpose needs: layer, microbatch, expert; or device and op),
// never of a layout or of a loop's order, so that two layouts meet the same
// routing and the same slow device.
#pragma once

#include <cmath>
#include <cstdint>

namespace stepcast {

enum class Purpose : std::uint32_t {
  routing_hot = 1,    // persistent expert popularity: (layer, expert)
  routing_fresh = 2,  // per microbatch: (layer, microbatch, expert)
  device_speed = 3,   // (device)
  kernel_noise = 4,   // (device, op ordinal)
  node_epoch = 5,     // (node)
  link_quality = 6,   // (link)
  stall = 7,          // (device, event)
  documents = 8,      // (microbatch, document)
  program_test = 9,   // tests
};

// Full-avalanche 64-bit mix (the finaliser of SplitMix64, Steele et al. 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Key of a stream of draws. Extend it coordinate by coordinate.
struct RngKey {
  std::uint64_t bits = 0;

  constexpr RngKey() = default;
  constexpr RngKey(std::uint64_t seed, std::uint64_t step, Purpose purpose)
      : bits(mix64(mix64(mix64(seed) ^ step) ^ static_cast<std::uint64_t>(purpose))) {}
  [[nodiscard]] constexpr RngKey with(std::uint64_t coordinate) const {
    RngKey k;
    k.bits = mix64(bits ^ (coordinate * 0xd6e8feb86659fd93ULL + 0x2545f4914f6cdd1dULL));
    return k;
  }
};

// Uniform in (0, 1), 53 bits, never 0 or 1.
constexpr double uniform(RngKey key) { return (static_cast<double>(key.bits >> 11) + 0.5) * 0x1.0p-53; }

// Standard normal by Box-Muller from two draws under the key.
inline double normal(RngKey key) {
  const double u = uniform(key.with(1));
  const double v = uniform(key.with(2));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

}  // namespace stepcast
