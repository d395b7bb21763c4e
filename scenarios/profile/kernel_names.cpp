#include "scenarios/profile/kernel_names.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "sim/base/text.h"

namespace stepcast::scenarios {
namespace {

using sim::Category;

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return has(text, part); });
}

// The text without what is no letter: "ALL_GATHER_INTO" and "AllGather" alike.
std::string letters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

KernelClass communication(std::string collective, GroupKind group) {
  KernelClass k;
  k.communication = k.recognised = true;
  k.category = Category::other;
  k.collective = std::move(collective);
  k.group = group;
  return k;
}

KernelClass computes(Category category) {
  KernelClass k;
  k.category = category;
  k.recognised = true;
  return k;
}

// Dispatch and combine of expert-parallel libraries; their layout kernels only count and sort.
bool expert_library(std::string_view k, KernelClass& out) {
  const bool deep_ep =
      any(k, {"deep_ep", "ep::internode", "ep::intranode", "internode::", "intranode::", "internode_ll"});
  const bool hybrid_ep = any(k, {"hybrid_ep", "hybridep"});
  if (!deep_ep && !hybrid_ep && !any(k, {"nvshmem", "pplx", "ncclep", "nccl_ep"})) return false;
  if (any(k, {"layout", "scan", "preprocess", "permute", "metadata"})) {
    out = computes(Category::permute);
  } else if (has(k, "combine")) {
    out = communication("combine", GroupKind::ep);
  } else if (has(k, "dispatch")) {
    out = communication("dispatch", GroupKind::ep);
  } else {
    out = communication("notify", GroupKind::ep);
  }
  return true;
}

}  // namespace

std::string_view name(GroupKind kind) {
  static constexpr std::string_view names[] = {"tp", "cp", "ep", "pp", "dp", "unknown"};
  return names[static_cast<std::size_t>(kind)];
}

KernelClass classify_kernel(std::string_view kernel) {
  const std::string k = lower_case(kernel);
  KernelClass library;
  if (expert_library(k, library)) return library;
  if (any(k, {"ncclkernel", "nccldevkernel", "nccldev", "rccl"}) || k.starts_with("nccl")) {
    return communication(collective_name(k), GroupKind::unknown);
  }
  if (any(k, {"userbuffers", "multimem_", "one_shot_all_reduce", "two_shot_all_reduce", "symm_mem"})) {
    return communication(collective_name(k), GroupKind::tp);
  }
  if (any(k, {"flash", "fmha", "sdpa", "attention", "attn_", "_attn", "mha_fwd", "mha_bwd"})) {
    return computes(Category::attention);
  }
  const bool product = any(k, {"gemm", "nvjet", "cutlass", "xmma", "cublas", "cijk_", "s16816", "wgmma", "gemv",
                               "splitkreduce", "hipblaslt"});
  if (any(k, {"multi_tensor", "adam", "lamb_", "fusedlamb", "l2norm", "sgd_"})) return computes(Category::optimizer);
  if (product) {
    const bool grouped = any(k, {"grouped", "groupproblem", "group_gemm", "groupgemm", "moe_gemm", "moe::", "ptr_array",
                                 "ptrarray", "expert"});
    return computes(grouped ? Category::grouped_gemm : Category::gemm);
  }
  if (any(k, {"permut", "sort_chunks", "row_id_map", "moe_align", "moe_sum", "token_sort"})) {
    return computes(Category::permute);
  }
  if (any(k, {"quantiz", "cast_transpose", "per_token_cast", "per_block_cast", "mxfp8", "nvfp4", "amax", "fp8",
              "swizzle_scal", "compute_scale"})) {
    return computes(Category::quantise);
  }
  KernelClass k_class = computes(Category::memory_bound);
  k_class.recognised =
      any(k, {"elementwise", "norm", "softmax", "reduce", "triton",   "rope",    "rotary",    "swiglu",
              "silu",        "gelu", "copy",    "fill",   "catarray", "index",   "embedding", "cross_entropy",
              "transpose",   "topk", "sort",    "gather", "scatter",  "dropout", "conv1d",    "scan"});
  return k_class;
}

std::string collective_name(std::string_view text) {
  const std::string t = letters(text);
  if (any(t, {"alltoall", "alltoallv"})) return "all_to_all";
  if (has(t, "allreduce")) return "all_reduce";
  if (has(t, "allgather")) return "all_gather";
  if (has(t, "reducescatter")) return "reduce_scatter";
  if (any(t, {"sendrecv", "send", "recv"})) return "send_receive";
  if (has(t, "broadcast")) return "broadcast";
  if (has(t, "barrier")) return "barrier";
  if (has(t, "reduce")) return "reduce";
  return "unknown";
}

GroupKind group_kind(std::string_view description) {
  const std::string d = lower_case(description);
  const std::string t = letters(description);
  // Whole words between separators: "mesh_tp", "dp_cp"; two of them are read as data parallelism if one is.
  const auto word = [&](std::string_view w) {
    for (std::size_t at = d.find(w); at != std::string::npos; at = d.find(w, at + 1)) {
      const auto edge = [&](std::size_t i) {
        return i >= d.size() || std::isalpha(static_cast<unsigned char>(d[i])) == 0;
      };
      if ((at == 0 || edge(at - 1)) && edge(at + w.size())) return true;
    }
    return false;
  };
  if (any(t, {"dataparallel", "fsdp", "hsdp", "optimizer"}) || word("dp") || word("edp") || word("ddp")) {
    return GroupKind::dp;
  }
  if (any(t, {"expertmodelparallel", "expertparallel"}) || word("ep")) return GroupKind::ep;
  if (any(t, {"tensormodelparallel", "tensorparallel", "sequenceparallel"}) || word("tp") || word("etp")) {
    return GroupKind::tp;
  }
  if (has(t, "contextparallel") || word("cp")) return GroupKind::cp;
  if (has(t, "pipeline") || word("pp")) return GroupKind::pp;
  return GroupKind::unknown;
}

GroupKind usual_group(std::string_view collective) {
  if (collective == "all_to_all" || collective == "dispatch" || collective == "combine" || collective == "notify") {
    return GroupKind::ep;
  }
  return collective == "send_receive" ? GroupKind::pp : GroupKind::dp;
}

}  // namespace stepcast::scenarios
