// One whole run, event by event: failures, checkpoints, restarts.
//
// Between two failures everything is arithmetic, so that a run costs about 100 ns a failure whatever its length.
// Draws are keyed by (seed, replica, failure), so that replicas may run in any order and on any thread.
#pragma once

#include <cstdint>

#include "scenarios/reliability/run_plan.h"

namespace stepcast::scenarios {

struct RunOutcome {
  double wall_s = 0;
  double productive_s = 0;                                         // work that was kept
  std::array<std::array<double, part_count>, cause_count> lost{};  // seconds, by cause and part
  std::array<std::int64_t, cause_count> events{};                  // interruptions; checkpoint: snapshots
  bool finished = true;                                            // false: given up after too many failures

  [[nodiscard]] double lost_s() const;
  [[nodiscard]] double goodput() const { return wall_s > 0 ? productive_s / wall_s : 1; }
};

// productive + lost = wall, to rounding.
[[nodiscard]] RunOutcome simulate_run(const RunPlan& plan, std::uint64_t replica);

}  // namespace stepcast::scenarios
