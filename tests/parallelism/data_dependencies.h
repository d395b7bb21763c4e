// No operation of a recorded step begins before what it consumes is there.
//
// Independent of the waits that the lowering writes: who consumes what is said here by names, streams and the schedule.
// A body is one or two lists (the instances of a co-scheduled call), each a chain that hands one value on; beside the
// chain run only the shared expert (while tokens travel), the hidden part of a tensor-parallel collective (beside one
// kernel), ring hops, gradients, parameters and copies to the host.
#pragma once

#include <string>
#include <vector>

#include "parallelism/lower.h"
#include "sim/engine/conditions.h"

namespace stepcast::parallelism::testing {

// Faults in words, of the second step, on one lane of every stage. Empty when sound.
[[nodiscard]] std::vector<std::string> dependency_faults(const LoweredStep& step, const sim::Conditions& conditions);

}  // namespace stepcast::parallelism::testing
