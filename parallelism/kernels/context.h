// What the kernel lists of one cohort need to know, and the few helpers they share.
//
// A kernel list turns one module of one layer (shapes from models/, split by the
// layout) into instructions whose times come from topology/. Forward, the
// repeated forward of recomputation, input gradient and weight gradient are
// passes over the same lists, so that memory kept by one is freed by another.
#pragma once

#include <string>
#include <string_view>

#include "models/ledger.h"
#include "parallelism/kernels/builder.h"
#include "parallelism/layout.h"
#include "parallelism/step_spec.h"
#include "topology/collective_cost.h"
#include "topology/fabric.h"

namespace stepcast::parallelism {

enum class Pass : unsigned char { forward, recompute, backward, dgrad, wgrad };
// What a product multiplies: the recipe's precision, 16 bits whatever the recipe, or 16 bits forward and fp32 backward.
enum class Operands : unsigned char { recipe, half, single_backward };

[[nodiscard]] constexpr bool has_dgrad(Pass p) { return p == Pass::backward || p == Pass::dgrad; }
[[nodiscard]] constexpr bool has_wgrad(Pass p) { return p == Pass::backward || p == Pass::wgrad; }
[[nodiscard]] constexpr bool is_forward(Pass p) { return p == Pass::forward || p == Pass::recompute; }

// A group class of the cohort with its place on the fabric. `index` is -1 for groups of one.
struct CommGroup {
  int index = -1;
  int size = 1;
  topology::GroupSpan span;
  BytesPerSecond cross_domain;
  bool join = false;  // spans two cohorts: `index` is a join class of the program
};

struct StageContext {
  const StepSpec& spec;
  const Layout& layout;
  CohortBuilder& out;
  CommGroup tp, cp, etp, ep, dp, edp;  // dp: dp x cp together
  models::Documents documents;         // of one microbatch of one pipeline, sum over its sequences
  double tokens = 0;                   // per rank and microbatch in attention: micro_batch x s / cp
  double tokens_sp = 0;                // the same where sequence parallelism splits it: tokens / tp
  double tokens_moe = 0;               // entering the router: tokens / tp
  double padded_vocab = 0;
  int layer = -1;      // being lowered
  int load = -1;       // routing load of the layer
  std::string suffix;  // ".mtp" in MTP modules

  [[nodiscard]] const topology::Device& device() const { return spec.cluster.device; }
  [[nodiscard]] const SoftwareProfile& software() const { return spec.software; }
  [[nodiscard]] const models::Model& model() const { return spec.model; }
  [[nodiscard]] bool quantised() const {
    return spec.recipe.gemm != topology::Precision::bf16 && spec.recipe.gemm != topology::Precision::fp16;
  }
  bool repeat_layer = true;  // full recompute by block repeats the first layers of a piece only

  // Expert weight gradients run beside the exchange that leaves their layer, not before it.
  [[nodiscard]] bool delays_wgrad(Pass pass) const { return spec.overlap.delay_wgrad && pass == Pass::backward; }

  [[nodiscard]] bool full_recompute() const { return spec.recompute.mode == RecomputeMode::full && repeat_layer; }
  [[nodiscard]] bool recomputes(std::string_view module) const;

  // Of the expert activation's and quantisation's traffic: graphs of whole iterations come with experts whose
  // element-wise parts run inside the products, unless experts have biases, which those products do not add.
  [[nodiscard]] double expert_traffic() const {
    const bool fused =
        quantised() && spec.runtime.cuda_graphs == CudaGraphs::full_iteration && !model().moe.expert_bias;
    return fused ? software().full_graph_expert_traffic : 1;
  }

  // An elementwise kernel that moves `bytes` (before the profile's unfused factor).
  void elementwise(Pass pass, std::string name, sim::Category category, double bytes, double kernels = 1);
  // The same over routed rows.
  void elementwise_rows(Pass pass, std::string name, sim::Category category, double bytes_per_row, double kernels = 1);

  // Time of the host alone, in kernel launches: of a fraction, whole ones as they come together in a body.
  void host_work(const std::string& name, double launches);
  // Whether block scales take a kernel of their own before each product.
  [[nodiscard]] bool swizzles() const;
  // y[m,n] = x[m,k] w[k,n]. Emits what `pass` has of it, with quantise kernels of its input (forward) and output
  // gradient (backward), or the casts to fp32 and back.
  void linear(Pass pass, const std::string& name, double m, double n, double k, Operands operands = Operands::recipe);
  // Backward of the product whose input entered a tensor-parallel region: its input gradient leaves the region, beside
  // the weight's product where the profile has it so (tp_gradients_beside_wgrad).
  void linear_of_region(Pass pass, const std::string& name, double m, double n, double k, const std::string& region,
                        Operands operands = Operands::recipe);
  // The grouped product over the rank's local experts.
  void grouped_linear(Pass pass, const std::string& name, double n, double k);

  // Tensor-parallel collective over activations of `bytes` (whole buffer); the next kernel waits for it, less the share
  // that the profile overlaps with that kernel, or (not `awaited`) whoever says so later.
  void tp_collective(topology::Collective kind, const std::string& name, double bytes, bool awaited = true);
  // Entry and exit of a tensor-parallel region, forward or backward.
  void enter_tp(Pass pass, const std::string& name, bool awaited = true);
  void leave_tp(Pass pass, const std::string& name);

  // Activation kept from forward to backward, or made again by the recomputation of `module` ("": always kept).
  // Attaches to the instruction written last.
  void save(Pass pass, std::string_view part, std::string_view module, double bytes, double bytes_per_row = 0);
  void release(std::string_view part, double bytes, double bytes_per_row = 0);
};

// While it lives, kernels are launched by a CUDA graph if one covers the module (Megatron's scopes: attn, mamba, mlp,
// moe_router, moe_preprocess, moe); the graph itself costs the host one launch.
class GraphScope {
 public:
  GraphScope(StageContext& ctx, std::string_view module);
  ~GraphScope();
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;

 private:
  StageContext& ctx_;
  bool before_;
};

// Collective on its own group and stream that the compute stream has to wait for (wait_next), or not.
void blocking_collective(StageContext& ctx, const CommGroup& group, sim::Stream stream, topology::Collective kind,
                         const std::string& name, double bytes);

// One decoder layer. `load` is its index among MoE layers, -1 for dense ones.
void lower_layer(StageContext& ctx, const models::Layer& layer, Pass pass);

// Modules.
void lower_attention(StageContext& ctx, const models::Layer& layer, Pass pass);
void lower_attention_core(StageContext& ctx, models::AttentionKind kind, Pass pass, double sequence);
void lower_mixer(StageContext& ctx, const models::Layer& layer, Pass pass);  // linear attention and Mamba-2
void lower_mlp(StageContext& ctx, Pass pass, double ffn, const std::string& name, std::string_view recompute_module);
void lower_moe(StageContext& ctx, Pass pass);
// `output_bytes`: of each element of its output kept for backward; negative: the recipe's input of a product.
void lower_norm(StageContext& ctx, Pass pass, const std::string& name, double output_bytes = -1);
void lower_embedding(StageContext& ctx, Pass pass);
void lower_loss(StageContext& ctx, Pass pass);
void lower_mtp(StageContext& ctx, Pass pass);

}  // namespace stepcast::parallelism
