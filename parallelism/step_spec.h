// Everything that determines one training step, resolved: what the lowering reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/transformer.h"
#include "parallelism/layout.h"
#include "parallelism/routing.h"
#include "parallelism/schedule.h"
#include "parallelism/software.h"
#include "parallelism/stage_split.h"
#include "sim/program/program.h"
#include "topology/cluster.h"

namespace stepcast::parallelism {

enum class Sharding : unsigned char { none, zero1, zero2, zero3, hsdp };
enum class CpKind : unsigned char { ring, all_gather, all_to_all, all_to_all_ring };
enum class RecomputeMode : unsigned char { none, full, selective };
enum class Packing : unsigned char { packed, padded };
// Of the router: mixed multiplies 16-bit operands into fp32 logits, bf16 keeps 16-bit logits, fp32 also multiplies fp32
// operands in backward (Transformer Engine under --moe-router-dtype fp32).
enum class RouterDtype : unsigned char { mixed, bf16, fp32 };

struct Recipe {
  std::string name = "bf16";                             // bf16 | fp16 | fp8-tensorwise | fp8-blockwise | mxfp8 | nvfp4
  topology::Precision gemm = topology::Precision::bf16;  // of the linear layers; attention, router, logits stay BF16
  double gradient_bytes = 4;                             // accumulation buffer, per parameter
  double reduce_bytes = 4;                               // on the wire
  double parameter_bytes = 2;                            // model copy and its gather
  double optimizer_bytes = 12;                           // master weights and moments, per owned parameter
  double activation_bytes = 2;                           // kept for backward, inputs of quantised GEMMs
  double function_input_bytes = 2;  // kept inputs of SwiGLU and its like: 2 unless activations are stored in FP8
  double attention_output_bytes =
      2;  // kept output of the attention core: 1.5 (E5M6) when activations are stored in FP8
  RouterDtype router_dtype = RouterDtype::mixed;
};

struct Recompute {
  RecomputeMode mode = RecomputeMode::none;
  std::vector<std::string> modules;  // selective
  std::string method = "uniform";    // full: uniform | block
  int block_layers = 0;              // full, block: layers a stage; 0: all
};

struct Workload {
  int sequence_length = 0;
  int global_batch = 0;  // sequences a step
  int micro_batch = 1;
  Packing packing = Packing::packed;
  std::vector<double> document_lengths;  // tokens; empty: one document a sequence
  int steps = 1;                         // sampled
};

struct Overlap {
  bool gradients = true, parameters = true, tp = false, ep = false, p2p = true;
  bool p2p_warmup_flush = true;            // p2p: also where forwards or backwards follow each other alone
  bool p2p_batched = false;                // not p2p: a slot pair's sends and receives are one group, waited for whole
  bool parameters_with_optimizer = false;  // parameters: the first chunk's are gathered beside the others' update
  bool delay_wgrad = false;                // ep: weight gradients run beside the exchange that their layer leaves
  bool shared_expert = false;              // it runs beside the exchanges of its layer
  double gradient_bucket_bytes = 0;
  double prefetch = 1;
};

struct Runtime {
  CudaGraphs cuda_graphs = CudaGraphs::none;
  std::vector<std::string> graph_modules;  // partial: attn, router, mlp, ...
  topology::Dispatcher dispatcher = topology::Dispatcher::all_to_all;
  bool host_binding = false;
  double host_launch_us = 0;
  double host_sync_us = 0;
  int dispatcher_sms = 0;
};

// A share of devices, nodes or NICs that takes `factor` times the time.
struct Strike {
  double share = 0, factor = 1;
};

// Host time lost at a step's begin.
struct Stall {
  double probability = 0;  // of each step
  double mean_s = 0;
};

// Independent noise averages out; what is below the sigmas is correlated and makes the tail (parallelism/tails.h).
struct Noise {
  double device_sigma = 0;
  double kernel_sigma = 0;
  bool redraw = true;  // each sampled step meets devices and links of its own; false: all meet the same
  Strike slow_devices, node_epochs, degraded_links;
  Stall data_stalls, gc_stalls, checkpoint_stalls;
};

// How the fabric is shared.
struct FabricUse {
  bool contention = false;              // transfers that overlap on links slow each other; off: each has them to itself
  double background = 0;                // share of leaf and spine links that another job takes
  std::optional<sim::FlowLevel> level;  // of flows; none: as fine as it matters (sim/engine/flows.h)
};

struct Offload {
  bool optimizer = false;
  double optimizer_fraction = 1;  // of its state, with `optimizer`
  bool activations = false;
  int activation_layers = 0;  // of each piece, the first ones; 0: all
};

struct StepSpec {
  models::Model model;
  topology::Cluster cluster;
  Degrees degrees;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int schedule_group = 0;
  Sharding sharding = Sharding::zero1;
  int shard_group = 0;                // hsdp
  bool reshard_after_forward = true;  // zero3, hsdp: parameters are dropped after each pass; else gathered once a step
  bool sequence_parallel = false;
  CpKind cp_kind = CpKind::ring;
  std::vector<int> stage_layers;
  std::string pipeline_layout;
  Workload workload;
  Recipe recipe;
  Recompute recompute;
  RoutingSpec routing;
  int node_limit = 0;  // domains a token may reach; 0: none
  SoftwareProfile software;
  Overlap overlap;
  Runtime runtime;
  Noise noise;
  FabricUse fabric;
  Offload offload;
  std::uint64_t seed = 1;
};

// SMs of an exchange as the scenario states them, else as its software profile does for the dispatcher; 0: neither.
[[nodiscard]] inline int stated_sms(const StepSpec& spec) {
  if (spec.runtime.dispatcher_sms > 0) return spec.runtime.dispatcher_sms;
  if (spec.software.dispatcher_sms > 0) return spec.software.dispatcher_sms;
  return spec.runtime.dispatcher == topology::Dispatcher::deepep ? spec.software.deepep_sms : 0;
}

}  // namespace stepcast::parallelism
