// What a GPU kernel is, by its name: the families of libraries and frameworks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/program/program.h"

namespace stepcast::scenarios {

enum class GroupKind : std::uint8_t { tp, cp, ep, pp, dp, unknown };
[[nodiscard]] std::string_view name(GroupKind kind);

struct KernelClass {
  bool communication = false;
  sim::Category category = sim::Category::memory_bound;  // of a kernel that computes
  std::string collective;                                // of one that communicates: "all_reduce", ...
  GroupKind group = GroupKind::unknown;                  // as far as the name says
  bool recognised = false;                               // a pattern matched; else memory_bound for want of better
};

// NCCL and RCCL of both naming generations (ncclKernel_AllReduce_RING_LL_Sum_float, ncclAllReduceRingLLKernel_...,
// ncclDevKernel_AllReduce_Sum_f32_RING_LL), DeepEP, HybridEP, NVSHMEM, user buffers; GEMMs of cuBLAS, CUTLASS,
// DeepGEMM, rocBLAS; attention of FlashAttention, cuDNN, CK.
[[nodiscard]] KernelClass classify_kernel(std::string_view kernel);

// The kind of a process group from its description or name ("EXPERT_MODEL_PARALLEL_GROUP", "mesh_tp", "dp_cp").
[[nodiscard]] GroupKind group_kind(std::string_view description);

// The collective behind "Collective name" of the profiler ("_allgather_base", "reduce_scatter_tensor_coalesced").
[[nodiscard]] std::string collective_name(std::string_view text);

// Where neither name nor description tells the group: all-to-all is expert, send and receive pipeline parallelism, the
// others data parallelism.
[[nodiscard]] GroupKind usual_group(std::string_view collective);

}  // namespace stepcast::scenarios
