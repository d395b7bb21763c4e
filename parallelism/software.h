// A software profile: what a framework generation does with the same layout.
//
// Named, explicit input: a scenario or a measured row names it, or the forecast
// says which it assumed. Each value carries its source in the catalogue
// (parallelism/catalog/software.json); explicit scenario keys win.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/json_fields.h"
#include "topology/collective_cost.h"

namespace stepcast::parallelism {

enum class CudaGraphs : unsigned char { none, partial, full_iteration };

// Names in scenarios and profiles: none, partial, full_iteration; allgather, alltoall, deepep, hybridep.
[[nodiscard]] std::string_view name(CudaGraphs graphs);
[[nodiscard]] std::string_view name(topology::Dispatcher dispatcher);
[[nodiscard]] const std::vector<std::string>& cuda_graphs_names();
[[nodiscard]] const std::vector<std::string>& dispatcher_names();  // in the order of the enum

struct SoftwareProfile {
  std::string name;  // "megatron-core-2025"
  std::string summary;
  // Elementwise kernels: passes over an activation tensor (each 2 bytes an element), forward and backward, per block.
  double norm_passes_forward = 3, norm_passes_backward = 5;  // norm + residual of one block, over hidden
  double activation_passes_forward = 3,
         activation_passes_backward = 5;                     // SwiGLU over its output width (2 in, 1 out; 3 in, 2 out)
  double rope_passes_forward = 2, rope_passes_backward = 2;  // over q and k
  double mla_passes_forward = 2, mla_passes_backward = 2;    // rotary part, split and concatenation over q, k and v
  double unfused_factor = 1;                                 // more traffic of elementwise kernels when not fused
  double moe_unfused_factor = 1;         // the same for router, permutation and expert activation, on top
  double full_graph_expert_traffic = 1;  // of expert activation and quantisation, where one graph holds the iteration
  double permute_passes = 2;             // over routed rows x hidden, each direction of permute and of unpermute
  bool permute_fusion = true;            // else exchanged rows are put in order chunk by chunk, one a rank and expert
  double permute_chunk_us = 0;           // of the host for each, x86
  double router_passes = 6;              // fp32 passes over tokens x experts
  bool fused_swizzle = true;             // block scales are made in the layout of the products; else by more kernels
  double loss_bytes_per_logit = 16;
  double accumulate_bytes_per_weight = 8;        // gradient accumulation: read and write fp32 in wgrad
  bool fused_accumulation = true;                // in the GEMM's epilogue; else a kernel of its own
  std::map<std::string, std::string> attention;  // device name -> generation; "default"
  double attention_scale = 1;                    // on the kernel's rate
  topology::Dispatcher dispatcher = topology::Dispatcher::all_to_all;
  int dispatcher_sms = 0;              // 0: the dispatcher's default
  int deepep_sms = 0;                  // the same of DeepEP alone, where dispatcher_sms is 0
  bool fp8_dispatch = false;           // FP8 recipes send dispatched tokens in FP8 (1 byte and block scales)
  bool overlap_shared_expert = false;  // shared expert runs beside dispatch and combine
  CudaGraphs cuda_graphs = CudaGraphs::none;
  std::vector<std::string> graph_modules;  // when partial
  bool graphs_shared_expert = false;       // a graph of moe_router holds the shared expert where that is not overlapped
  double host_launch_us = 4;               // per kernel
  double host_sync_us = 30;                // after a device-to-host copy of token counts
  double host_sync_per_expert_us = 0;      // more of it for each local expert
  double tp_gap_us = 0;                    // added to each tensor-parallel collective, times log2 of the group
  double kernel_gap_us = 0;                // device idle before each launched kernel of this model; less inside graphs
  double host_step_us = 0;                 // once a step: data, logging, optimizer bookkeeping
  bool host_binding = false;
  std::map<std::string, double> host_binding_factor;  // on host_launch_us when bound, by device
  // Host speed by device, on host_launch_us and host_sync_us: device name -> factor; "default" for the others.
  std::map<std::string, double> host_factor;
  // Rate of 8- and 4-bit expert products over the device's level for them, by device; 1 where none is given.
  std::map<std::string, double> expert_fp8_level;
  // Overlaps.
  bool overlap_gradients = true, overlap_parameters = true, overlap_tp = false, overlap_ep = false, overlap_p2p = true;
  bool p2p_host_sync = false;   // without overlap_p2p the host waits for the device at each batch of messages
  double tp_overlap_share = 0;  // share of TP communication that hides when overlap_tp
  // Else, whether the input gradient that leaves a TP region is reduced beside the product that makes the weight's.
  bool tp_gradients_beside_wgrad = false;
  double gradient_bucket_bytes = 0;  // 0: one bucket a chunk
  double prefetch = 1;               // FSDP: layers gathered ahead
  double dp_network_share = 1;       // of the rate across boxes that data-parallel collectives reach
  double fsdp_overlap = 1;           // share of a gather or reduction that runs beside compute
  // Time of kernels issued beside an expert exchange, or a reduction, over their time alone: its share of SMs and HBM.
  double kernel_slowdown_ep = 1, kernel_slowdown_dp = 1;
  double optimizer_bytes_per_parameter = 38;   // traffic of the update for each owned parameter
  double padded_vocab_multiple = 128;          // x tp
  bool pads_vocab_alone = true;                // also where one rank holds all of the vocabulary (tp 1)
  std::string sharding = "zero1";              // what the framework's users run when they do not say
  bool sequence_parallel = true;               // with tp > 1
  std::string gradients = "fp32";              // of the accumulation buffer and its reduction: fp32 | bf16
  std::string optimizer_state = "fp32";        // of the moments beside fp32 master weights: fp32 | bf16 | fp8
  double context_bytes = 0;                    // CUDA context, NCCL buffers, per device
  double fragmentation = 0;                    // share of the dynamic peak
  double bucket_bytes = 0;                     // flat buffers of reductions and gathers that live for the whole step
  double loss_peak_bytes_per_logit = 10;       // at the loss's peak; 6 of them (logits, fp32 softmax) until backward
  bool placeholder_gradients = false;          // an empty weight gradient of each shape is kept beside the fused one
  bool bf16_gradients_stay = false;            // autograd's BF16 gradients stay beside the fp32 accumulation buffer
  bool fp32_gradient_copy = false;             // 16-bit gradients of a rank's share are copied to fp32 and that is kept
  bool keeps_stage_outputs = false;            // what a stage sent on stays until its backward
  bool fp32_parameters = false;                // sharded parameters are the fp32 masters; BF16 ones exist gathered only
  bool mla_values_stay = false;                // recomputing MLA's up-projection leaves the values that attention saved
  std::string memory_report = "device";        // what the framework's log calls memory: allocated | reserved | device
  std::map<std::string, std::string> sources;  // key -> source
};

// Of factors by device name: the device's, else that of "default", else 1.
[[nodiscard]] double factor_of(const std::map<std::string, double>& factors, const std::string& device);

// Rows of the embedding and the head over all ranks of a tp group.
[[nodiscard]] double padded_vocabulary(const SoftwareProfile& software, double vocabulary, int tp);

// Profiles by name, aliases left out.
[[nodiscard]] Result<std::vector<std::string>> list_software(const std::filesystem::path& catalog_root);
// The same with aliases.
[[nodiscard]] Result<std::vector<std::string>> software_names(const std::filesystem::path& catalog_root);
// By name or alias; the profile carries its own name. Errors: unknown name (nearest named), a catalogue that is
// missing or malformed.
[[nodiscard]] Result<SoftwareProfile> load_software(const std::filesystem::path& catalog_root, const std::string& name);

// Replaces values by those of an object {"norm_passes_forward": 3, ...}: what scenarios and calibrations say of
// single keys. `source` becomes their source. Unknown keys stay for the caller's refuse_unknown.
void read_software_values(JsonFields& fields, const std::string& source, SoftwareProfile& profile);

// Keys whose values are given by device name.
[[nodiscard]] std::vector<std::string> software_keys_by_device();

// One line of `explain`.
struct SoftwareFact {
  std::string key;
  std::string value;   // JSON text
  std::string source;  // empty: the product's default
  bool assumption = false;
};
[[nodiscard]] std::vector<SoftwareFact> describe(const SoftwareProfile& profile);

}  // namespace stepcast::parallelism
