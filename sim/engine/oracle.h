// Tier 3: a plain exact discrete-event engine over a stored graph.
//
// Slow and obviously right: every rank's every op is a node; events are taken
// from a queue in the order (time, kind, id). Every test program runs on it too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/engine/conditions.h"
#include "sim/engine/lockstep.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// A stored graph of operations. Edges point from an op to those that wait for its end.
struct OpGraph {
  struct Op {
    Ticks duration = 0;
    std::int32_t rank = 0;
    std::uint32_t group = 0xffffffff;  // ops of a group begin together, at the last one's ready time
    bool largest = false;              // group: everybody ends with the longest duration
  };
  std::vector<Op> ops;
  std::vector<std::uint32_t> successors;        // concatenated
  std::vector<std::uint64_t> successor_offset;  // ops.size() + 1
  std::vector<std::uint32_t> group_size;
};

// Every op of `options.steps` consecutive steps. `op_of[...]` order: see expand() in oracle.cpp; names for tests.
struct OpTimes {
  std::vector<Ticks> ready, begin, end;  // by op
};

[[nodiscard]] Result<OpTimes> run_graph(const OpGraph& graph);

// Expands the program and runs it. The sink is told the same events as by the lockstep tier, so that the two can be
// compared op by op; order of events across cohorts is not specified.
[[nodiscard]] Result<RunResult> run_oracle(const Program& program, const Conditions& conditions,
                                           const RunOptions& options);

}  // namespace stepcast::sim
