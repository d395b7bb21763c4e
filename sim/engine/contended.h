// Tier 2: operations that share links, in time order.
//
// Units (split.h) run ahead on their own until something they need has not
// ended. Operations on shared links begin as flows (flow_port.h, flows.h) in the
// order (time, key); when every unit waits, the clock goes to the next begin or
// end of a flow. Before the clock leaves a time, everything that happens at it is
// in, so rates are solved once a time and the oracle, which follows the same
// rule, meets the same sets and the same bits.
//
// Going on while a flow is open: what does not depend on it is evaluated at
// once. A unit stops when its compute stream waits, unless its program issues
// operations that do not follow the compute stream (gathers ahead of a layer);
// then it goes on to the step's end. A step ends for a unit when all of it has
// ended; lockstep lets the streams dp and copy run on.
//
// Not thread-safe; runs share nothing. Run sampled steps in parallel.
#pragma once

#include "sim/base/error.h"
#include "sim/engine/conditions.h"
#include "sim/engine/delays.h"
#include "sim/engine/flows.h"
#include "sim/engine/lockstep.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// Whether anything of the program loads links that others load.
[[nodiscard]] inline bool shares_links(const Program& program) { return !program.link_capacity.empty(); }

struct ContendedRun {
  RunResult result;
  Delays delays;  // with Conditions::delays set to them, lockstep gives the same times
  FlowStats flows;
};

// options.sink and conditions.delays are ignored. Errors as of run_lockstep.
[[nodiscard]] Result<ContendedRun> run_contended(const Program& program, const Conditions& conditions,
                                                 const RunOptions& options);

}  // namespace stepcast::sim
