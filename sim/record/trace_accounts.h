// What a trace tells beside the ops of its ranks, so that their partition can be read back from it.
//
// Found by evaluating the step again: when the messages that a rank receives
// began to be sent, which communication of the step before runs into this one,
// and when each rank's stage ended.
#pragma once

#include <vector>

#include "sim/base/error.h"
#include "sim/engine/conditions.h"
#include "sim/record/recorder.h"

namespace stepcast::sim {

struct CarriedOp {
  RankId rank;
  std::int32_t cohort = 0, call = 0, pc = 0;
  Ticks ready = 0, begin = 0, end = 0;
};

struct TraceAccounts {
  std::vector<Ticks> sent;         // by op of the timeline; only of receives
  std::vector<Ticks> stage_end;    // by rank of the timeline, not after the step's end
  std::vector<CarriedOp> carried;  // on dp and copy, over the step's begin
};

// For a timeline that was recorded with these conditions and at most one warm step; else without any account.
[[nodiscard]] Result<TraceAccounts> trace_accounts(const Program& program, const Conditions& conditions,
                                                   const Timeline& timeline);

}  // namespace stepcast::sim
