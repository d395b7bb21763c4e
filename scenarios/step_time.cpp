#include "scenarios/step_time.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "parallelism/lower.h"
#include "scenarios/samples.h"

namespace stepcast::scenarios {

Result<double> forecast_step_time(const Scenario& scenario, bool representative) {
  const auto lowered = parallelism::lower(scenario.spec);
  if (!lowered) return lowered.errors();
  Simulated simulated;
  choose_program(scenario.spec, *lowered, representative, simulated);
  const auto samples = run_samples(scenario.spec, *lowered, simulated, {});
  if (!samples) return samples.errors();
  const auto& seconds = samples->seconds;
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

}  // namespace stepcast::scenarios
