// What transfers take from kernels of their own rank: a pass over lowered programs.
#pragma once

#include "parallelism/lowering/stage.h"

namespace stepcast::parallelism {

// Expert exchanges run on SMs of their own (DeepEP, HybridEP, NCCL): kernels beside one have the others, so they go on
// at (SMs - its SMs) / SMs of their rate for as long as it takes at mean rows, and at full rate after. The profile's
// kernel_slowdown_ep comes on top; kernels beside a reduction take kernel_slowdown_dp.
void slow_kernels_beside_transfers(Lowering& low);

}  // namespace stepcast::parallelism
