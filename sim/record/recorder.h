// Turns a recorded step into a StepReport: partition, exposure, memory, critical path.
//
// Every rank's step is partitioned exactly, by the rules in sim/record/partition.h;
// memory peaks, communication accounts and the critical path stand beside it.
// Steps are never stored: the step is evaluated again with recorders listening.
#pragma once

#include <vector>

#include "sim/base/error.h"
#include "sim/engine/conditions.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/sink.h"
#include "sim/record/report.h"

namespace stepcast::sim {

struct RecordOptions {
  std::uint64_t step = 0;  // the step to replay: the last that the fast pass simulated, first_step + steps - 1
  int warm_steps = 1;      // consecutive steps before it, as many as there are
  bool critical_path = true;
};

// Replays one sampled step with recording on; the same bits as the fast pass.
[[nodiscard]] Result<StepReport> record_step(const Program& program, const Conditions& conditions,
                                             const RecordOptions& options);

// One op of a chosen rank, for traces and the op DAG.
struct TimelineOp {
  RankId rank;
  std::int32_t cohort = 0, call = 0, pc = 0, instance = -1;
  std::uint64_t ordinal = 0;
  float rows = 0;  // of the instruction's load
  Ticks host = 0, ready = 0, begin = 0, end = 0;
};
struct Timeline {
  std::uint64_t step = 0;
  Ticks step_begin = 0, step_end = 0;
  std::vector<RankId> ranks;
  std::vector<TimelineOp> ops;  // rank by rank, in issue order
};
[[nodiscard]] Result<Timeline> record_timeline(const Program& program, const Conditions& conditions,
                                               const RecordOptions& options, const std::vector<RankId>& ranks);

}  // namespace stepcast::sim
