// Tier 1: ranks evaluated in lockstep from their cohort's program, without a queue.
//
// Time is max-plus, so any order of evaluation that respects messages gives the
// same bits. A cohort runs until a receive or join lacks its peers' part.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/engine/conditions.h"
#include "sim/engine/sink.h"
#include "sim/program/program.h"

namespace stepcast::sim {

struct RunOptions {
  std::uint64_t first_step = 0;  // index of the first simulated step, a coordinate of every draw
  int steps = 1;                 // consecutive steps, streams and host carried over
  // Told about the last step only, cohort after cohort, each in issue order; the step is evaluated a second time for
  // it.
  Sink* sink = nullptr;
  // Within one step, without a sink: units (split.h) that exchange no messages run beside each other. The same bits.
  int threads = 1;
};

struct RunResult {
  std::vector<Ticks> step_end;  // by simulated step: when the last rank finished it
  std::vector<Ticks> rank_end;  // by rank: the end of its last step
  std::int64_t rank_ops = 0;    // evaluated, over all simulated steps
  // Duration of the last simulated step.
  [[nodiscard]] Ticks last_step() const {
    const std::size_t n = step_end.size();
    return n > 1 ? step_end[n - 1] - step_end[n - 2] : step_end[0];
  }
};

// The end of a lane's step is the largest tail of its streams except dp (parameter gathers run into the next step)
// and copy, and of its host. Messages and joins are waited for by whole cohorts: lanes that could go on while others of
// their cohort wait do not, which changes no time, but a program that only completes that way is refused. Fails with
// `invalid` when ranks wait for each other for ever, naming the cohorts and what they wait for.
[[nodiscard]] Result<RunResult> run_lockstep(const Program& program, const Conditions& conditions,
                                             const RunOptions& options);

}  // namespace stepcast::sim
