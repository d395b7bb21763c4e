// How often to write a checkpoint.
//
// With failures exponential in wall time at mean M, a blocking cost C a snapshot, restart R:
//   Young (1974)   tau = sqrt(2 C M)
//   Daly (2006)    tau = sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C   for C < 2M, else M
//   both minimise  E[wall] / work = M e^(R/M) (e^((tau+C)/M) - 1) / tau
// to first and to third order. They know no background write, no rollback past
// the last snapshot and no minimum; sampled_interval() does.
#pragma once

#include "scenarios/reliability/run_plan.h"

namespace stepcast::scenarios {

[[nodiscard]] double young_interval(double cost_s, double mtbf_s);
[[nodiscard]] double daly_interval(double cost_s, double mtbf_s);

// E[wall] / work by the formula above; infinite where it overflows.
[[nodiscard]] double expected_stretch(double interval_s, double cost_s, double restart_s, double mtbf_s);

struct SampledInterval {
  double optimum_s = 0;
  double stretch = 1;            // wall over work there
  double stretch_at_rule = 1;    // and at the interval that was asked about
  bool at_the_shortest = false;  // the background write leaves no shorter one
};

// The interval with the least wall time: runs are simulated at intervals around `around_s` with the same failures, and
// a / tau + b + c tau + d tau^2 is fitted to their wall times. Planned stops and waiting for nodes are left out: they
// do not depend on the interval. Needs failures and a finite `around_s`.
[[nodiscard]] SampledInterval sampled_interval(const RunPlan& plan, double around_s);

}  // namespace stepcast::scenarios
