// A software profile: what a framework generation does with the same layout.
//
// Named, explicit input: a scenario or a measured row names it, or the forecast
// says which it assumed. Each value carries its source in the catalogue
// (parallelism/catalog/software.json); explicit scenario keys win.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "topology/collective_cost.h"

namespace stepcast::parallelism {

enum class CudaGraphs : unsigned char { none, partial, full_iteration };

struct SoftwareProfile {
  std::string name;       // "megatron-core-2025"
  std::string summary;
  // Elementwise kernels: passes over an activation tensor (each 2 bytes an element), forward and backward, per block.
  double norm_passes_forward = 3, norm_passes_backward = 5;      // norm + residual of one block, over hidden
  double activation_passes_forward = 3, activation_passes_backward = 5;  // SwiGLU over its output width (2 in, 1 out; 3 in, 2 out)
  double rope_passes_forward = 2, rope_passes_backward = 2;      // over q and k
  double unfused_factor = 1;       // more traffic of elementwise kernels when not fused
  double permute_passes = 2;       // over routed rows x hidden, each direction of permute and of unpermute
  double router_passes = 6;        // fp32 passes over tokens x experts
  double loss_bytes_per_logit = 16;
  double accumulate_bytes_per_weight = 8;  // gradient accumulation: read and write fp32 in wgrad
  bool fused_accumulation = true;          // in the GEMM's epilogue; else a kernel of its own
  std::map<std::string, std::string> attention;  // device name -> generation; "default"
  double attention_scale = 1;      // on the kernel's rate
  topology::Dispatcher dispatcher = topology::Dispatcher::all_to_all;
  int dispatcher_sms = 0;          // 0: the dispatcher's default
  CudaGraphs cuda_graphs = CudaGraphs::none;
  double host_launch_us = 4;       // per kernel
  double host_sync_us = 30;        // after a device-to-host copy of token counts
  double host_step_us = 0;         // once a step: data, logging, optimizer bookkeeping
  bool host_binding = false;
  double host_binding_factor = 1;  // on host_launch_us when bound
  // Overlaps.
  bool overlap_gradients = true, overlap_parameters = true, overlap_tp = false, overlap_ep = false, overlap_p2p = true;
  double tp_overlap_share = 0;     // share of TP communication that hides when overlap_tp
  double gradient_bucket_bytes = 0;  // 0: one bucket a chunk
  double prefetch = 1;             // FSDP: layers gathered ahead
  double fsdp_overlap = 1;         // share of the shorter of (compute, gather) that hides
  double optimizer_bytes_per_parameter = 38;  // traffic of the update for each owned parameter
  double padded_vocab_multiple = 128;         // x tp
  double context_bytes = 0;        // CUDA context, NCCL buffers, per device
  double fragmentation = 0;        // share of the dynamic peak
  std::map<std::string, std::string> sources;  // key -> source
};

[[nodiscard]] Result<std::vector<std::string>> list_software(const std::filesystem::path& catalog_root);
[[nodiscard]] Result<SoftwareProfile> load_software(const std::filesystem::path& catalog_root, const std::string& name);

}  // namespace stepcast::parallelism
