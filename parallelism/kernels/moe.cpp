// The MoE block: router, permutation, dispatch, grouped experts, combine, shared expert.
//
// A rank routes tokens / (cp tp) tokens; how many rows it receives is the load of
// its layer, sampled per microbatch. Dispatch ends on each rank when its own rows
// are in; combine ends with the slowest rank, since every rank's experts hold
// tokens of all others. Waits on the expert stream go through slots, one for
// forward and one for backward, so that two microbatches can be interleaved.
// The shared expert runs beside its layer's exchanges only where it is
// overlapped; else it stands before dispatch, in backward behind dispatch.backward.
#include <algorithm>
#include <optional>

#include "parallelism/kernels/context.h"

namespace stepcast::parallelism {

using sim::Category;
using topology::Collective;
using topology::Dispatcher;
using topology::DispatchPhase;

namespace {

constexpr double bf16_bytes = 2;
constexpr const char* part_experts = "activations.experts";
// Of the copies into expert order what HybridEP leaves to kernels of their own (pilot M1.3: 1 pass to DeepEP's 2).
constexpr double hybridep_copies = 0.5;
constexpr double origin_bytes = 8;  // row of origin and probability of a routed row

// Kept of each token and expert: the logits, fp32 probabilities (the softmax is fp32 in either case), the map.
double router_bytes(const StageContext& ctx) {
  return (ctx.spec.recipe.router_dtype == RouterDtype::bf16 ? 2 : 4) + 4 + 1;
}

double dispatched_bytes(const StageContext& ctx) {
  const double width = ctx.model().moe.latent > 0 ? ctx.model().moe.latent : ctx.model().hidden;
  const bool fp8 = ctx.quantised() && ctx.software().fp8_dispatch;
  return width * (fp8 ? topology::element_bytes(topology::Precision::fp8_blockwise) : bf16_bytes);
}

double expert_width(const StageContext& ctx) {
  return ctx.model().moe.latent > 0 ? ctx.model().moe.latent : ctx.model().hidden;
}

// Frameworks run this block as many small kernels: probabilities, masks, copies and casts that no list names.
double moe_traffic(const StageContext& ctx) { return ctx.software().moe_unfused_factor; }

// Passes over rows x hidden to order rows by expert, on the token's side and on the expert's side. An all-to-all brings
// rows by sender, which a rank with one expert leaves so; DeepEP and HybridEP bring tokens, which are copied into rows.
double token_side_passes(const StageContext& ctx) {
  return ctx.spec.runtime.dispatcher == Dispatcher::all_to_all || ctx.ep.index < 0 ? ctx.software().permute_passes : 0;
}
double expert_side_passes(const StageContext& ctx) {
  if (ctx.ep.index < 0) return 0;
  const bool ordered =
      ctx.spec.runtime.dispatcher == Dispatcher::all_to_all && ctx.model().moe.experts == ctx.layout.ep;
  if (ordered) return 0;
  return ctx.software().permute_passes * (ctx.spec.runtime.dispatcher == Dispatcher::hybridep ? hybridep_copies : 1.0);
}

const char* slot_name(Pass pass) { return pass == Pass::forward ? "ep_forward" : "ep_backward"; }

// `to_experts`: tokens travel to the ranks of their experts, each rank is done when its rows are in.
void exchange(StageContext& ctx, Pass pass, const std::string& name, bool to_experts, double bytes_per_token) {
  if (ctx.ep.index < 0) return;
  topology::DispatchCall call;
  call.dispatcher = ctx.spec.runtime.dispatcher;
  call.phase = to_experts ? DispatchPhase::dispatch : DispatchPhase::combine;
  call.tokens = ctx.tokens_moe;
  call.bytes_per_token = bytes_per_token;
  call.top_k = ctx.model().moe.top_k;
  call.expert_parallel = ctx.layout.ep;
  call.node_limit = ctx.spec.node_limit;
  call.sms = stated_sms(ctx.spec);
  const auto t = topology::dispatch_time(ctx.spec.cluster, call, ctx.ep.span, ctx.ep.cross_domain);
  CommSpec op;
  op.name = name + ctx.suffix;
  op.collective = to_experts ? "dispatch" : "combine";
  op.stream = sim::Stream::ep;
  // The load counts the rows of all ranks of the etp group; each of them exchanges its share.
  const double share = 1.0 / ctx.layout.etp;
  op.time = {t.fixed, t.per_row * share, Seconds(0)};
  op.target = ctx.ep.index;
  op.largest = !to_experts;
  op.payload_per_row = bytes_per_token * share;
  const double wire = t.nic_per_rank.value + t.nvlink_per_rank.value;
  op.wire_per_row = t.mean_rows > 0 ? wire / t.mean_rows * share : 0;
  op.nic_share = wire > 0 ? t.nic_per_rank.value / wire : 0;
  op.load = ctx.load;
  op.layer = ctx.layer;
  op.record_slot = ctx.out.shared_slot(slot_name(pass));
  ctx.out.collective(op);
  ctx.out.transient("communication", 0, bytes_per_token * share);
}

void wait_exchange(StageContext& ctx, Pass pass) {
  if (ctx.ep.index >= 0) ctx.out.wait_next(0, ctx.out.shared_slot(slot_name(pass)));
}

// Expert tensor parallelism: rows are gathered over the etp group before the experts, summed after.
void exchange_etp(StageContext& ctx, Collective kind, const std::string& name) {
  if (ctx.etp.index < 0) return;
  const double mean_rows = ctx.tokens_moe * ctx.model().moe.top_k;
  const double row = expert_width(ctx) * bf16_bytes;
  const auto t = topology::collective_time(ctx.spec.cluster, kind, Bytes(mean_rows * ctx.layout.etp * row),
                                           ctx.etp.span, ctx.etp.cross_domain);
  CommSpec op;
  op.name = name + ctx.suffix;
  op.collective = std::string(topology::name(kind));
  op.time = {t.latency, (t.time - t.latency) / (mean_rows * ctx.layout.etp), Seconds(0)};
  op.target = ctx.etp.index;
  op.payload_per_row = row;
  op.wire_per_row = t.wire_per_rank.value / (mean_rows * ctx.layout.etp);
  op.nic_share = t.wire_per_rank.value > 0 ? t.nic_per_rank / t.wire_per_rank : 0;
  op.load = ctx.load;
  op.layer = ctx.layer;
  ctx.out.collective(op);
  ctx.out.wait_next(sim::bit(sim::Stream::tp));
}

bool synchronises(const StageContext& ctx) {
  return ctx.spec.routing.drop != DropPolicy::pad && ctx.spec.runtime.cuda_graphs != CudaGraphs::full_iteration;
}

void router(StageContext& ctx, Pass pass) {
  const GraphScope graph(ctx, "moe_router");
  const auto& moe = ctx.model().moe;
  const double t = ctx.tokens_moe;
  const double scores = t * moe.experts;
  const double passes = ctx.software().router_passes;
  const Operands operands =
      ctx.spec.recipe.router_dtype == RouterDtype::fp32 ? Operands::single_backward : Operands::half;
  if (is_forward(pass)) {
    ctx.linear(pass, "router", t, moe.experts, ctx.model().hidden, operands);
    ctx.elementwise(pass, "router_top_k", Category::memory_bound, passes * moe_traffic(ctx) * scores * 4, 4);
    ctx.save(pass, "activations.router", "moe", scores * router_bytes(ctx));
  } else {
    if (has_dgrad(pass)) {
      ctx.elementwise(pass, "router_top_k.backward", Category::memory_bound,
                      passes * moe_traffic(ctx) * 0.6 * scores * 4, 2);
      ctx.release("activations.router", scores * router_bytes(ctx));
    }
    ctx.linear(pass, "router", t, moe.experts, ctx.model().hidden, operands);
  }
}

void shared_expert(StageContext& ctx, Pass pass) {
  const auto& moe = ctx.model().moe;
  if (moe.shared_ffn <= 0) return;
  const std::string_view module = ctx.recomputes("moe") ? "moe" : "shared_experts";
  std::optional<GraphScope> graph;
  if (ctx.software().graphs_shared_expert && !ctx.spec.overlap.shared_expert) graph.emplace(ctx, "moe_router");
  lower_mlp(ctx, pass, moe.shared_ffn, "shared_expert", module);
}

// Without fusion the rows of an all-to-all, which stand by sender and then by expert, are split into as many tensors as
// the layer has experts, times the ranks that share one, and put together again: host time for each.
void order_chunks(StageContext& ctx, const std::string& name) {
  const SoftwareProfile& software = ctx.software();
  if (software.permute_fusion || ctx.spec.runtime.dispatcher != Dispatcher::all_to_all) return;
  const double chunks = static_cast<double>(ctx.model().moe.experts) * ctx.layout.etp;
  ctx.host_work(name + ".chunks", chunks * software.permute_chunk_us / std::max(software.host_launch_us, 1.0));
}

void permute(StageContext& ctx, Pass pass, const std::string& name, bool token_side) {
  const double passes = token_side ? token_side_passes(ctx) : expert_side_passes(ctx);
  if (passes <= 0) return;
  const GraphScope graph(ctx, token_side ? "moe_preprocess" : "moe_experts");
  const double row = passes * moe_traffic(ctx) * expert_width(ctx) * bf16_bytes;
  if (token_side) {
    ctx.elementwise(pass, name, Category::permute, row * ctx.tokens_moe * ctx.model().moe.top_k, 1);
  } else {
    order_chunks(ctx, name);
    ctx.elementwise_rows(pass, name, Category::permute, row, 1);
  }
}

struct ExpertShape {
  double width, in_ffn, ffn;  // hidden (or latent), first GEMM's output, activation's output; per etp rank
};

ExpertShape expert_shape(const StageContext& ctx) {
  const double f = static_cast<double>(ctx.model().moe.expert_ffn) / ctx.layout.etp;
  return {expert_width(ctx), ctx.model().gated_ffn ? 2 * f : f, f};
}

void expert_activation(StageContext& ctx, Pass pass) {
  const ExpertShape s = expert_shape(ctx);
  const double gating = ctx.model().gated_ffn ? 1.0 : 2.0 / 3.0;
  const bool backward = !is_forward(pass);
  const double passes = backward ? ctx.software().activation_passes_backward : ctx.software().activation_passes_forward;
  ctx.elementwise_rows(pass, backward ? "expert_activation.backward" : "expert_activation", Category::memory_bound,
                       passes * moe_traffic(ctx) * ctx.expert_traffic() * gating * s.ffn * bf16_bytes, 1);
}

// Experts with biases (gpt-oss) add them in a kernel of their own: one read and one write of the product's rows; the
// bias's gradient reads them once more.
void expert_bias(StageContext& ctx, Pass pass, const std::string& name, double width) {
  if (!ctx.model().moe.expert_bias) return;
  ctx.elementwise_rows(pass, name, Category::memory_bound,
                       (is_forward(pass) ? 2 : 1) * moe_traffic(ctx) * ctx.expert_traffic() * width * bf16_bytes, 1);
}

std::string_view activation_module(const StageContext& ctx) {
  return ctx.recomputes("moe_act") && !ctx.recomputes("moe") ? "moe_act" : "moe";
}

void latent(StageContext& ctx, Pass pass, const std::string& name, bool down) {
  const double l = ctx.model().moe.latent;
  if (l <= 0) return;
  const double h = ctx.model().hidden;
  const double input = ctx.tokens_moe * (down ? h : l) * ctx.spec.recipe.activation_bytes;
  ctx.linear(pass, name, ctx.tokens_moe, down ? l : h, down ? h : l);
  if (is_forward(pass)) ctx.save(pass, "activations.latent", "moe", input);
  if (has_wgrad(pass)) ctx.release("activations.latent", input);
}

void forward(StageContext& ctx, Pass pass) {
  const ExpertShape s = expert_shape(ctx);
  const double act = ctx.spec.recipe.activation_bytes;
  const bool overlap_shared = ctx.spec.overlap.shared_expert;
  router(ctx, pass);
  latent(ctx, pass, "latent_down", true);
  permute(ctx, pass, "permute", true);
  if (synchronises(ctx)) ctx.out.host_sync("token_counts", sim::bit(sim::Stream::compute));
  if (!overlap_shared) shared_expert(ctx, pass);
  exchange(ctx, pass, "dispatch", true, dispatched_bytes(ctx));
  if (overlap_shared) shared_expert(ctx, pass);
  wait_exchange(ctx, pass);
  exchange_etp(ctx, Collective::all_gather, "etp_gather");
  permute(ctx, pass, "sort_rows", false);
  ctx.grouped_linear(pass, "expert_fc1", s.in_ffn, s.width);
  ctx.save(pass, part_experts, "moe", 0,
           s.width * act + s.in_ffn * ctx.spec.recipe.function_input_bytes + origin_bytes);
  expert_bias(ctx, pass, "expert_fc1_bias", s.in_ffn);
  expert_activation(ctx, pass);
  ctx.save(pass, part_experts, activation_module(ctx), 0, s.ffn * act);
  if (pass == Pass::recompute && !ctx.full_recompute() && ctx.model().moe.latent <= 0) return;
  ctx.grouped_linear(pass, "expert_fc2", s.width, s.ffn);
  expert_bias(ctx, pass, "expert_fc2_bias", s.width);
  permute(ctx, pass, "unsort_rows", false);
  exchange_etp(ctx, Collective::reduce_scatter, "etp_reduce");
  exchange(ctx, pass, "combine", false, s.width * bf16_bytes);
  wait_exchange(ctx, pass);
  permute(ctx, pass, "unpermute", true);
  latent(ctx, pass, "latent_up", false);
}

// Back to the gradients of the rows that arrived.
void experts_backward(StageContext& ctx, Pass pass) {
  const ExpertShape s = expert_shape(ctx);
  const double act = ctx.spec.recipe.activation_bytes;
  const bool overlap_shared = ctx.spec.overlap.shared_expert;
  const bool dgrad = has_dgrad(pass);
  latent(ctx, pass, "latent_up", false);
  if (dgrad) {
    permute(ctx, pass, "unpermute.backward", true);
    exchange(ctx, pass, "combine.backward", true, s.width * bf16_bytes);
    if (overlap_shared) shared_expert(ctx, pass);
    wait_exchange(ctx, pass);
    exchange_etp(ctx, Collective::all_gather, "etp_gather.backward");
    permute(ctx, pass, "unsort_rows.backward", false);
  } else if (overlap_shared) {
    shared_expert(ctx, pass);
  }
  if (dgrad) expert_bias(ctx, pass, "expert_fc2_bias.backward", s.width);
  ctx.grouped_linear(pass, "expert_fc2", s.width, s.ffn);
  if (has_wgrad(pass)) ctx.release(part_experts, 0, s.ffn * act);
  if (dgrad) {
    expert_bias(ctx, pass, "expert_fc1_bias.backward", s.in_ffn);
    expert_activation(ctx, pass);
    ctx.release(part_experts, 0, s.in_ffn * ctx.spec.recipe.function_input_bytes);
  }
  ctx.grouped_linear(pass, "expert_fc1", s.in_ffn, s.width);
  if (has_wgrad(pass)) ctx.release(part_experts, 0, s.width * act + origin_bytes);
  if (dgrad) {
    permute(ctx, pass, "sort_rows.backward", false);
    exchange_etp(ctx, Collective::reduce_scatter, "etp_reduce.backward");
  }
}

void backward(StageContext& ctx, Pass pass) {
  const bool delayed = ctx.delays_wgrad(pass);
  experts_backward(ctx, delayed ? Pass::dgrad : pass);
  if (has_dgrad(pass)) exchange(ctx, pass, "dispatch.backward", false, expert_width(ctx) * bf16_bytes);
  if (delayed) {
    ctx.out.beside_exchange(true);
    experts_backward(ctx, Pass::wgrad);
    ctx.out.beside_exchange(false);
  }
  if (has_dgrad(pass)) wait_exchange(ctx, pass);
  if (!ctx.spec.overlap.shared_expert) shared_expert(ctx, pass);
  if (has_dgrad(pass)) permute(ctx, pass, "permute.backward", true);
  latent(ctx, pass, "latent_down", true);
  router(ctx, pass);
}

}  // namespace

void lower_moe(StageContext& ctx, Pass pass) {
  if (pass == Pass::recompute && !ctx.full_recompute() && !ctx.recomputes("moe")) {
    if (ctx.recomputes("moe_act")) {
      expert_activation(ctx, pass);
      ctx.save(pass, part_experts, activation_module(ctx), 0, expert_shape(ctx).ffn * ctx.spec.recipe.activation_bytes);
    }
    if (ctx.recomputes("shared_experts")) shared_expert(ctx, pass);
    return;
  }
  if (is_forward(pass)) {
    forward(ctx, pass);
  } else {
    backward(ctx, pass);
  }
}

}  // namespace stepcast::parallelism
