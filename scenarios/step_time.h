// The step time alone, of the lowering and engine of forecast().
//
// No replay, so no account of memory, exposure or critical path, and memory is not judged. For fits and searches,
// where most of a forecast's cost would be thrown away.
#pragma once

#include "scenarios/scenario.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

// Mean over the sampled steps, seconds, on one thread. `representative` as in ForecastOptions.
[[nodiscard]] Result<double> forecast_step_time(const Scenario& scenario, bool representative);

}  // namespace stepcast::scenarios
