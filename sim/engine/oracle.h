// Tier 3: a plain exact discrete-event engine over a stored graph.
//
// Slow and obviously right: every rank's every op is a node; events are taken
// from a queue in the order (time, kind, id), and the one kind here is the end
// of an op. It shares with the lockstep tier only the definitions of duration
// and noise (conditions.h). Every test program runs on it too.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/error.h"
#include "sim/engine/conditions.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/op_graph.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// All ops of `options.steps` consecutive steps. Ops of one instruction are numbered lane by lane, instructions in issue
// order, cohort by cohort, step by step.
struct Expansion {
  OpGraph graph;
  std::vector<std::uint32_t> host_start;          // by cohort: op of lane 0 at which its host begins
  std::vector<std::vector<std::uint32_t>> first;  // by step and cohort: op of lane 0 of the first instruction
};
[[nodiscard]] Result<Expansion> expand(const Program& program, const Conditions& conditions, const RunOptions& options);

// Expands the program and runs it. The sink is told the same events as by the lockstep tier, in the same order, so that
// the two can be compared op by op.
[[nodiscard]] Result<RunResult> run_oracle(const Program& program, const Conditions& conditions,
                                           const RunOptions& options);

}  // namespace stepcast::sim
