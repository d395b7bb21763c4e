// What the length of a step consisted of, walked back from its end.
//
// Each op's begin is the latest of its inputs: the op before it on its stream,
// those of the streams and the slot it waits for, the host's issue, and for
// collectives the slowest member. The walk goes from an op to the input that
// was last, jumps from a receive to its send and from a collective to its
// slowest member, and so tiles [begin, end) of the step without a hole. Of
// several inputs that were last it takes the op's own stream first, then the
// slot, then waited streams in their order, then the host.
//
// Ops are not stored: single calls are evaluated again where the path passes,
// and a few of them kept.
#pragma once

#include <vector>

#include "sim/base/error.h"
#include "sim/engine/replay.h"
#include "sim/record/labels.h"
#include "sim/record/report.h"

namespace stepcast::sim {

struct CriticalPath {
  std::vector<CriticalHop> hops;  // in time order; begin of the first to end of the last is the step
  Partition by_category{};        // adds up to the step exactly
};

// `step_begin`: when the step before ended. Hops are cut at it.
[[nodiscard]] CriticalPath critical_path(const Program& program, const Labels& labels, const Replay& replay,
                                         Ticks step_begin);

}  // namespace stepcast::sim
