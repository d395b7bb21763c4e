// Softmax attention: projections, rotary embedding, the core with context parallelism, output projection.
//
// Heads are split by TP. MLA (arXiv 2405.04434): down-projections are whole on
// every TP rank, up-projections split by heads. Kept for backward: q, k, v, the
// output and its log-sum-exp (flash attention), the compressed latents of MLA.
#include <algorithm>
#include <cmath>

#include "parallelism/kernels/context.h"

namespace stepcast::parallelism {

using sim::Category;
using topology::AffineTime;
using topology::Collective;

namespace {

constexpr const char* part_attention = "activations.attention";
constexpr double bf16_bytes = 2;

struct Widths {
  double q = 0, k = 0, v = 0;    // per rank, all its heads
  double heads = 0;              // per rank
  double qk_dim = 0, v_dim = 0;  // of one head
};

Widths widths(const StageContext& ctx) {
  const models::Attention& a = ctx.model().attention;
  const double tp = ctx.layout.tp;
  Widths w;
  w.heads = std::max(1.0, a.heads / tp);
  if (a.mla) {
    w.qk_dim = a.mla->qk_nope_head_dim + a.mla->qk_rope_head_dim;
    w.v_dim = a.mla->v_head_dim;
    w.q = w.k = w.heads * w.qk_dim;
    w.v = w.heads * w.v_dim;
    return w;
  }
  const double kv_heads = std::max(1.0, a.kv_heads / tp);
  w.qk_dim = a.head_dim;
  w.v_dim = a.v_head_dim;
  w.q = w.heads * w.qk_dim;
  w.k = kv_heads * w.qk_dim;
  w.v = kv_heads * w.v_dim;
  return w;
}

// Scored pairs of one microbatch and rank: half the square of each document, or its windowed part; a CP rank has 1/cp.
double scored_pairs(const StageContext& ctx, models::AttentionKind kind) {
  const auto& d = ctx.documents;
  const bool windowed = kind == models::AttentionKind::sliding || kind == models::AttentionKind::chunked;
  return (windowed ? d.sum_windowed : d.sum_of_squares / 2) / ctx.layout.cp;
}

AffineTime core_time(const StageContext& ctx, double flops, double sequence, bool backward) {
  const auto& device = ctx.device();
  const auto& map = ctx.software().attention;
  const auto by_device = map.find(device.name);
  const auto general = map.find("default");
  std::string generation = by_device != map.end() ? by_device->second
                           : general != map.end() ? general->second
                                                  : device.default_attention;
  if (!device.attention.contains(generation)) generation = device.default_attention;
  topology::AttentionShape shape;
  shape.flops_forward = flops;
  shape.sequence = sequence;
  shape.head_dim = static_cast<int>(widths(ctx).qk_dim);
  shape.backward = backward;
  shape.mla = ctx.model().attention.mla.has_value();
  return {topology::attention_time(device, generation, shape) / ctx.software().attention_scale, Seconds(0), Seconds(0)};
}

void core_kernel(StageContext& ctx, const std::string& name, double flops, double sequence, bool backward, Pass pass) {
  OpSpec op;
  op.name = name + ctx.suffix;
  op.category = pass == Pass::recompute ? Category::recompute : Category::attention;
  op.time = core_time(ctx, flops, sequence, backward);
  // Flash attention's own recomputation of the scores costs time, by its backward level, and is not counted as work.
  op.flops = flops * (backward ? 2 : 1);
  op.layer = ctx.layer;
  ctx.out.compute(op);
}

// Ring context parallelism: step i works on the block that hop i brings, while hop i+1 is under way.
void ring_core(StageContext& ctx, double flops, double sequence, Pass pass, double hop_bytes) {
  const int steps = ctx.layout.cp;
  const auto t = topology::send_receive_time(ctx.spec.cluster, Bytes(hop_bytes), ctx.cp.span.inside_domain());
  const int slots[2] = {ctx.out.shared_slot("cp_hop_even"), ctx.out.shared_slot("cp_hop_odd")};
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      CommSpec hop;
      hop.name = "cp_ring_hop" + ctx.suffix;
      hop.collective = "send_receive";
      hop.stream = sim::Stream::cp;
      hop.time = {t.time, Seconds(0), Seconds(0)};
      hop.target = ctx.cp.index;
      hop.payload = hop_bytes;
      hop.wire = hop_bytes;
      hop.nic_share = ctx.cp.span.inside_domain() ? 0 : 1;
      hop.layer = ctx.layer;
      hop.wait_streams = step == 0 ? sim::bit(sim::Stream::compute) : std::uint8_t{0};
      hop.record_slot = slots[step % 2];
      ctx.out.collective(hop);
    }
    if (step > 0) ctx.out.wait_next(0, slots[(step - 1) % 2]);
    core_kernel(ctx, is_forward(pass) ? "attention_core" : "attention_core.backward", flops / steps, sequence / steps,
                !is_forward(pass), pass);
  }
}

void exchange_cp(StageContext& ctx, Collective kind, const std::string& name, double bytes) {
  blocking_collective(ctx, ctx.cp, sim::Stream::cp, kind, name, bytes);
}

}  // namespace

void lower_attention_core(StageContext& ctx, models::AttentionKind kind, Pass pass, double sequence) {
  const Widths w = widths(ctx);
  const double flops = 2 * scored_pairs(ctx, kind) * w.heads * (w.qk_dim + w.v_dim);
  const double kv_bytes = ctx.tokens * (w.k + w.v) * bf16_bytes * (is_forward(pass) ? 1 : 2);
  const double all_bytes = ctx.tokens * (w.q + w.k + w.v) * bf16_bytes;
  const double out_bytes = ctx.tokens * w.heads * w.v_dim * bf16_bytes;
  const char* name = is_forward(pass) ? "attention_core" : "attention_core.backward";
  const bool split = ctx.cp.index >= 0;
  switch (split ? ctx.spec.cp_kind : CpKind::all_gather) {
    case CpKind::ring:
      ring_core(ctx, flops, sequence, pass, kv_bytes);
      return;
    case CpKind::all_gather:
      if (split)
        exchange_cp(ctx, Collective::all_gather, "cp_kv_gather", kv_bytes / (is_forward(pass) ? 1 : 2) * ctx.layout.cp);
      core_kernel(ctx, name, flops, sequence / ctx.layout.cp, !is_forward(pass), pass);
      if (split && !is_forward(pass))
        exchange_cp(ctx, Collective::reduce_scatter, "cp_kv_gradient", kv_bytes / 2 * ctx.layout.cp);
      return;
    case CpKind::all_to_all:
    case CpKind::all_to_all_ring:
      // Heads are split over the group while the sequence is whole; the mixed kind is the same inside a domain with a
      // ring across domains, of which the hops are counted here as one exchange of keys and values.
      exchange_cp(ctx, Collective::all_to_all, "cp_heads_in", is_forward(pass) ? all_bytes : out_bytes);
      core_kernel(ctx, name, flops, sequence, !is_forward(pass), pass);
      if (ctx.spec.cp_kind == CpKind::all_to_all_ring && !ctx.cp.span.inside_domain()) {
        exchange_cp(ctx, Collective::send_receive, "cp_ring_hop", kv_bytes * (ctx.cp.span.domains - 1));
      }
      exchange_cp(ctx, Collective::all_to_all, "cp_heads_out", is_forward(pass) ? out_bytes : all_bytes);
      return;
  }
}

namespace {

void forward_projections(StageContext& ctx, const Widths& w, Pass pass) {
  const models::Model& model = ctx.model();
  const models::Attention& a = model.attention;
  const double t = ctx.tokens;
  const double h = model.hidden;
  const double rope = ctx.software().rope_passes_forward;
  if (a.mla) {
    const double q_rank = a.mla->q_lora_rank;
    const double kv_rank = a.mla->kv_lora_rank + a.mla->qk_rope_head_dim;
    if (pass == Pass::forward || ctx.full_recompute()) {
      if (q_rank > 0) {
        ctx.linear(pass, "mla_q_down", t, q_rank, h);
        ctx.save(pass, part_attention, "mla_down_proj", t * q_rank * bf16_bytes);
        ctx.elementwise(pass, "mla_q_norm", Category::memory_bound, 2 * t * q_rank * bf16_bytes);
      }
      ctx.linear(pass, "mla_kv_down", t, kv_rank, h);
      ctx.save(pass, part_attention, "mla_down_proj", t * kv_rank * bf16_bytes);
      ctx.elementwise(pass, "mla_kv_norm", Category::memory_bound, 2 * t * kv_rank * bf16_bytes);
    }
    ctx.linear(pass, "mla_q_up", t, w.q, q_rank > 0 ? q_rank : h);
    ctx.linear(pass, "mla_kv_up", t, w.heads * (a.mla->qk_nope_head_dim + a.mla->v_head_dim), a.mla->kv_lora_rank);
    ctx.elementwise(pass, "mla_rope_concat", Category::memory_bound,
                    ctx.software().mla_passes_forward * t * (w.q + w.k + w.v) * bf16_bytes, 2);
    ctx.save(pass, "activations.mla_up_proj", "mla_up_proj", t * (w.q + w.k + w.v) * bf16_bytes);
    return;
  }
  const double gate = a.output_gate ? w.heads * w.v_dim : 0;
  ctx.linear(pass, "qkv", t, w.q + w.k + w.v + gate, h);
  ctx.save(pass, part_attention, "qkv", t * gate * bf16_bytes);
  if (a.qk_norm) ctx.elementwise(pass, "qk_norm", Category::memory_bound, 2 * t * (w.q + w.k) * bf16_bytes, 2);
  if (!model.learned_positions)
    ctx.elementwise(pass, "rope", Category::memory_bound, rope * t * (w.q + w.k) * bf16_bytes);
  ctx.save(pass, part_attention, "qkv", t * (w.q + w.k + w.v) * bf16_bytes);
}

void backward_projections(StageContext& ctx, const Widths& w, Pass pass) {
  const models::Model& model = ctx.model();
  const models::Attention& a = model.attention;
  const double t = ctx.tokens;
  const double h = model.hidden;
  const double rope = ctx.software().rope_passes_backward;
  if (a.mla) {
    const double q_rank = a.mla->q_lora_rank;
    const double kv_rank = a.mla->kv_lora_rank + a.mla->qk_rope_head_dim;
    if (has_dgrad(pass)) {
      ctx.elementwise(pass, "mla_rope_concat.backward", Category::memory_bound,
                      ctx.software().mla_passes_backward * t * (w.q + w.k + w.v) * bf16_bytes, 2);
      ctx.release("activations.mla_up_proj", t * (w.q + w.k + w.v) * bf16_bytes);
    }
    ctx.linear(pass, "mla_kv_up", t, w.heads * (a.mla->qk_nope_head_dim + a.mla->v_head_dim), a.mla->kv_lora_rank);
    ctx.linear(pass, "mla_q_up", t, w.q, q_rank > 0 ? q_rank : h);
    if (has_dgrad(pass)) {
      ctx.elementwise(pass, "mla_kv_norm.backward", Category::memory_bound, 3 * t * kv_rank * bf16_bytes);
    }
    ctx.linear(pass, "mla_kv_down", t, kv_rank, h);
    if (has_wgrad(pass)) ctx.release(part_attention, t * kv_rank * bf16_bytes);
    if (q_rank > 0) {
      if (has_dgrad(pass)) {
        ctx.elementwise(pass, "mla_q_norm.backward", Category::memory_bound, 3 * t * q_rank * bf16_bytes);
      }
      ctx.linear(pass, "mla_q_down", t, q_rank, h);
      if (has_wgrad(pass)) ctx.release(part_attention, t * q_rank * bf16_bytes);
    }
    return;
  }
  const double gate = a.output_gate ? w.heads * w.v_dim : 0;
  if (has_dgrad(pass)) {
    if (!model.learned_positions) {
      ctx.elementwise(pass, "rope.backward", Category::memory_bound, rope * t * (w.q + w.k) * bf16_bytes);
      ctx.release(part_attention, t * (w.q + w.k + w.v + gate) * bf16_bytes);
    }
    if (a.qk_norm)
      ctx.elementwise(pass, "qk_norm.backward", Category::memory_bound, 3 * t * (w.q + w.k) * bf16_bytes, 2);
  }
  ctx.linear(pass, "qkv", t, w.q + w.k + w.v + gate, h);
  if (has_dgrad(pass) && model.learned_positions)
    ctx.release(part_attention, t * (w.q + w.k + w.v + gate) * bf16_bytes);
}

// Bytes kept for the core's backward and the output projection: the output and the log-sum-exp; unfused kernels keep
// the scores, their softmax and (with dropout) a mask: 5 bytes a score over the square (arXiv 2205.05198).
double core_saved(const StageContext& ctx, const Widths& w) {
  return ctx.tokens * w.heads * (w.v_dim * ctx.spec.recipe.attention_output_bytes + 4);
}
double core_scores(const StageContext& ctx, const Widths& w) {
  const auto& map = ctx.software().attention;
  const auto by_device = map.find(ctx.device().name);
  const auto general = map.find("default");
  const std::string generation = by_device != map.end() ? by_device->second
                                 : general != map.end() ? general->second
                                                        : "";
  if (generation != "unfused") return 0;
  return 5 * w.heads * ctx.documents.sum_of_squares / ctx.layout.cp;
}

}  // namespace

void lower_attention(StageContext& ctx, const models::Layer& layer, Pass pass) {
  const Widths w = widths(ctx);
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double sequence = ctx.documents.tokens > 0 ? ctx.documents.sum_of_squares / ctx.documents.tokens : 0;
  if (is_forward(pass)) {
    const bool whole = pass == Pass::forward || ctx.full_recompute();
    if (whole) ctx.enter_tp(pass, "attention_input");
    if (whole || (ctx.model().attention.mla && ctx.recomputes("mla_up_proj"))) forward_projections(ctx, w, pass);
    if (whole || ctx.recomputes("core_attn")) {
      lower_attention_core(ctx, layer.attention, pass, sequence);
      ctx.save(pass, part_attention, "core_attn", core_scores(ctx, w));
      ctx.save(pass, part_attention, "attention_output", core_saved(ctx, w));
    }
    if (whole) {
      ctx.linear(pass, "attention_out", t, h, w.heads * w.v_dim);
      ctx.leave_tp(pass, "attention_output");
    }
    return;
  }
  ctx.leave_tp(pass, "attention_output");
  ctx.linear(pass, "attention_out", t, h, w.heads * w.v_dim);
  if (pass == Pass::wgrad) {
    ctx.release(part_attention, core_saved(ctx, w));
  }
  if (has_dgrad(pass)) {
    lower_attention_core(ctx, layer.attention, pass, sequence);
    ctx.release(part_attention, core_scores(ctx, w));
    if (pass == Pass::backward) ctx.release(part_attention, core_saved(ctx, w));
  }
  backward_projections(ctx, w, pass);
  ctx.enter_tp(pass, "attention_input");
}

}  // namespace stepcast::parallelism
