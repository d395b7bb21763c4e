// What transfers take from kernels of their own rank: a pass over lowered programs.
#pragma once

#include <vector>

#include "parallelism/lowering/stage.h"

namespace stepcast::parallelism {

// Expert exchanges run on SMs of their own (DeepEP, HybridEP, NCCL): kernels beside one have the others, so they go on
// at (SMs - its SMs) / SMs of their rate for as long as it takes at mean rows, and at full rate after. The profile's
// kernel_slowdown_ep comes on top; kernels beside a reduction take kernel_slowdown_dp.
void slow_kernels_beside_transfers(Lowering& low);

// The same of one list: by instruction, the factor on its time. `routed_tokens`: entering the router of one rank, a
// microbatch. Empty where nothing is slowed.
[[nodiscard]] std::vector<double> slowed_beside_transfers(const StepSpec& spec, const Layout& layout,
                                                          double routed_tokens, const sim::Cohort& cohort,
                                                          const std::vector<sim::Instruction>& list);

}  // namespace stepcast::parallelism
