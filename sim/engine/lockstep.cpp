#include "sim/engine/lockstep.h"

#include <algorithm>

#include "sim/engine/machine.h"
#include "sim/engine/split.h"

namespace stepcast::sim {

Result<RunResult> run_lockstep(const Program& program, const Conditions& conditions, const RunOptions& options) {
  if (options.sink != nullptr) return run_recorded(program, conditions, options);
  const bool units =
      std::any_of(program.cohorts.begin(), program.cohorts.end(), [](const Cohort& c) { return c.units > 1; });
  if (options.threads > 1 && units && conditions.delays == nullptr && separable(program)) {
    if (Errors errors = check_run(program, conditions, options); !errors.empty()) return errors;
    const SplitProgram split = split_units(program);
    const UnitLoads loads(program, split, conditions.loads);
    Conditions own = conditions;
    if (conditions.loads != nullptr) own.loads = &loads;
    return run_silent(split.program, own, options, kernels());
  }
  return run_silent(program, conditions, options, kernels());
}

Result<RunResult> run_silent(const Program& program, const Conditions& conditions, const RunOptions& options,
                             const Kernels& kernels) {
  if (Errors errors = check_run(program, conditions, options); !errors.empty()) return errors;
  Machine machine(program, conditions, kernels, options.threads);
  RunResult result;
  for (int i = 0; i < options.steps; ++i) {
    const Status status = machine.run_step(options.first_step + static_cast<std::uint64_t>(i), false);
    if (!status) return status.errors();
    add_step(program, machine, result);
  }
  return result;
}

void add_step(const Program& program, const Machine& machine, RunResult& result) {
  result.rank_end.resize(static_cast<std::size_t>(program.ranks));
  Ticks last = 0;
  std::vector<Ticks> end;
  for (const CohortState& cohort : machine.cohorts()) {
    end.resize(cohort.lanes);
    cohort.step_end(end);
    for (std::size_t i = 0; i < cohort.lanes; ++i) {
      result.rank_end[static_cast<std::size_t>(cohort.cohort->ranks[i].value)] = end[i];
      last = std::max(last, end[i]);
    }
  }
  result.step_end.push_back(last);
  result.rank_ops += program.rank_ops();
}

}  // namespace stepcast::sim
