// One survivor simulated: the same lowering, engine and seed as `simulate`.
//
// All ranks, or one lane a stage where nothing differs by rank (the same ticks, sim/engine/representative.h).
#pragma once

#include "parallelism/step_spec.h"
#include "scenarios/forecast.h"
#include "sim/base/error.h"

namespace stepcast::scenarios::plan {

struct Exact {
  double seconds = 0;  // of sampled step 0: what `simulate` gives with workload.steps 1
  MemoryAccount memory;
};

// Memory follows the order of issue, so it is known before any time is. Above `memory_limit` bytes the step is not
// simulated: its account alone comes back, with 0 seconds. Fails where the lowering refuses or the schedule cannot
// complete. `representative` false: all ranks in any case.
[[nodiscard]] Result<Exact> simulate_layout(const parallelism::StepSpec& spec, double memory_limit,
                                            bool representative = true);

// Mean over the sampled steps 0 .. steps - 1.
[[nodiscard]] Result<double> mean_seconds(const parallelism::StepSpec& spec, int steps);

// The smallest factor on any kernel's duration: the fastest device, the luckiest draw.
[[nodiscard]] double smallest_speed(const parallelism::StepSpec& spec);

}  // namespace stepcast::scenarios::plan
