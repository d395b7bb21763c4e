// Does the peak of the simulated timeline fit the device, and if not, what holds it.
#pragma once

#include "parallelism/step_spec.h"
#include "scenarios/forecast.h"
#include "sim/base/error.h"
#include "sim/record/report.h"

namespace stepcast::scenarios {

// Adds what no op declares: fragmentation of the dynamic part (software profile).
[[nodiscard]] MemoryAccount memory_account(const sim::MemoryPeak& peak, const parallelism::StepSpec& spec);

// `infeasible`, naming the rank, the limit and the largest parts, then `advice`.
[[nodiscard]] Error memory_error(const MemoryAccount& account, const parallelism::StepSpec& spec,
                                 const std::string& advice = {});

}  // namespace stepcast::scenarios
