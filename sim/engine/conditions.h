// What differs by rank and by sampled step: routed rows, device speed, noise.
//
// All of it is a pure function of logical coordinates, so that engines may ask
// in any order and from any thread.
#pragma once

#include <cmath>
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
};

struct Conditions {
  std::uint64_t seed = 1;
  std::span<const float> slow_by_rank;  // duration factor of each rank's kernels; empty: all 1
  double kernel_sigma = 0;              // independent noise of each kernel, relative
  const LoadSource* loads = nullptr;    // required when the program has loads
};

// Noise factor of one kernel: uniform with mean 1 and standard deviation sigma.
// `ordinal` counts the instructions of the rank's step in issue order.
inline double noise_factor(RngKey rank_key, std::uint64_t ordinal, double sigma) {
  constexpr double sqrt3 = 1.7320508075688772;
  return 1.0 + sigma * sqrt3 * (2.0 * uniform(rank_key.with(ordinal)) - 1.0);
}

// The one definition of an instruction's duration on a lane; every engine uses it or reproduces it to the tick.
inline Ticks duration_ticks(const Cost& cost, double rows, double slow, double noise) {
  double t = cost.base_ticks + cost.per_row_ticks * rows;
  if (t < cost.floor_ticks) t = cost.floor_ticks;
  if (cost.noise == NoiseKind::kernel) t = t * (slow * noise);
  return static_cast<Ticks>(t + 0.5);
}

}  // namespace stepcast::sim
