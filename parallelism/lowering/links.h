// What a lowered program does to links that are shared: the last passes of lower().
#pragma once

#include "parallelism/lowering/stage.h"

namespace stepcast::parallelism {

// Lanes that exchange every layer (tp, cp, ep, etp) form units, of eight lanes or more. All cohorts alike.
void mark_units(sim::Program& program);

// Transfers over the NIC take the rank's link factor (noise.degraded_links).
void mark_network_transfers(sim::Program& program);

// fabric.contention: which operations meet which others on which links. Links that cannot be overloaded are dropped and
// links with the same users merged, so the engine sees few; operations that meet nobody stay with the lockstep tier.
void attach_links(Lowering& low);

}  // namespace stepcast::parallelism
