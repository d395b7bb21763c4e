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
constexpr const char* part_up_projection = "activations.mla_up_proj";
constexpr double bf16_bytes = 2;

struct Widths {
  double q = 0, k = 0, v = 0;    // per rank, all its heads
  double v_made = 0;             // values projected: none where one projection serves as key and value
  double heads = 0;              // per rank
  double qk_dim = 0, v_dim = 0;  // of one head
};

Widths widths(const StageContext& ctx, models::AttentionKind kind) {
  const models::Attention& a = models::attention_of(ctx.model(), kind);
  const double tp = ctx.layout.tp;
  Widths w;
  w.heads = std::max(1.0, a.heads / tp);
  if (a.mla) {
    w.qk_dim = a.mla->qk_nope_head_dim + a.mla->qk_rope_head_dim;
    w.v_dim = a.mla->v_head_dim;
    w.q = w.k = w.heads * w.qk_dim;
    w.v = w.v_made = w.heads * w.v_dim;
    return w;
  }
  const double kv_heads = std::max(1.0, a.kv_heads / tp);
  w.qk_dim = a.head_dim;
  w.v_dim = a.v_head_dim;
  w.q = w.heads * w.qk_dim;
  w.k = kv_heads * w.qk_dim;
  w.v = kv_heads * w.v_dim;
  w.v_made = a.shared_kv ? 0 : w.v;
  return w;
}

// Scored pairs of one microbatch and rank; a CP rank has 1/cp of them.
double scored_pairs(const StageContext& ctx, models::AttentionKind kind) {
  return models::causal_pairs(ctx.documents, kind) / ctx.layout.cp;
}

// The kernel generation of the profile on this device.
std::string generation_of(const StageContext& ctx) {
  const auto& device = ctx.device();
  const auto& map = ctx.software().attention;
  const auto by_device = map.find(device.name);
  const auto general = map.find("default");
  std::string generation = by_device != map.end() ? by_device->second
                           : general != map.end() ? general->second
                                                  : device.default_attention;
  if (!device.attention.contains(generation)) generation = device.default_attention;
  return generation;
}

bool unfused(const StageContext& ctx) { return generation_of(ctx) == "unfused"; }

// Two batched products forward and four backward over the whole square, masked or not, not below the 2 bytes a score
// that each moves; then the fused scale, mask and softmax (reads and writes 2 bytes; backward reads scores and
// gradient) and, with dropout, its kernel (reads 2, writes 2 and the mask, 1; backward the same).
Seconds unfused_core_time(const StageContext& ctx, const Widths& w, double scores, double sequence, bool backward) {
  const double products = backward ? 4 : 2;
  topology::AttentionShape shape;
  shape.flops_forward = scores * (w.qk_dim + w.v_dim) * products;
  shape.sequence = sequence;
  shape.head_dim = static_cast<int>(w.qk_dim);
  const Seconds compute = topology::attention_time(ctx.device(), "unfused", shape) / ctx.software().attention_scale;
  const Seconds traffic = topology::membound_time(ctx.device(), Bytes(2 * products * scores), products);
  const bool dropout = ctx.model().attention_dropout;
  const double softmax_bytes = backward ? 6 : 4;
  const double dropout_bytes = dropout ? 5 : 0;
  return std::max(compute, traffic) +
         topology::membound_time(ctx.device(), Bytes((softmax_bytes + dropout_bytes) * scores), dropout ? 2 : 1);
}

// `scores`: of the whole square, all heads of the rank; what unfused kernels work on.
AffineTime core_time(const StageContext& ctx, const Widths& w, double flops, double scores, double sequence,
                     bool backward) {
  const std::string generation = generation_of(ctx);
  if (generation == "unfused") {
    return {unfused_core_time(ctx, w, scores, sequence, backward), Seconds(0), Seconds(0)};
  }
  topology::AttentionShape shape;
  shape.flops_forward = flops;
  shape.sequence = sequence;
  shape.head_dim = static_cast<int>(w.qk_dim);
  shape.backward = backward;
  shape.mla = ctx.model().attention.mla.has_value();
  return {topology::attention_time(ctx.device(), generation, shape) / ctx.software().attention_scale, Seconds(0),
          Seconds(0)};
}

void core_kernel(StageContext& ctx, const Widths& w, const std::string& name, double flops, double scores,
                 double sequence, bool backward, Pass pass) {
  OpSpec op;
  op.name = name + ctx.suffix;
  op.category = pass == Pass::recompute ? Category::recompute : Category::attention;
  op.time = core_time(ctx, w, flops, scores, sequence, backward);
  // Flash attention's own recomputation of the scores costs time, by its backward level, and is not counted as work.
  op.flops = flops * (backward ? 2 : 1);
  op.layer = ctx.layer;
  ctx.out.compute(op);
}

// Ring context parallelism: step i works on the block that hop i brings, while hop i+1 is under way.
void ring_core(StageContext& ctx, const Widths& w, double flops, double scores, double sequence, Pass pass,
               double hop_bytes) {
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
    core_kernel(ctx, w, is_forward(pass) ? "attention_core" : "attention_core.backward", flops / steps, scores / steps,
                sequence / steps, !is_forward(pass), pass);
  }
}

void exchange_cp(StageContext& ctx, Collective kind, const std::string& name, double bytes) {
  blocking_collective(ctx, ctx.cp, sim::Stream::cp, kind, name, bytes);
}

}  // namespace

void lower_attention_core(StageContext& ctx, models::AttentionKind kind, Pass pass, double sequence) {
  const Widths w = widths(ctx, kind);
  const double flops = 2 * scored_pairs(ctx, kind) * w.heads * (w.qk_dim + w.v_dim);
  const double scores = w.heads * ctx.documents.sum_of_squares / ctx.layout.cp;
  if (ctx.model().window > 0 && (kind == models::AttentionKind::sliding || kind == models::AttentionKind::chunked)) {
    sequence = std::min<double>(sequence, ctx.model().window);  // the keys that a query sees
  }
  const double kv_bytes = ctx.tokens * (w.k + w.v) * bf16_bytes * (is_forward(pass) ? 1 : 2);
  const double all_bytes = ctx.tokens * (w.q + w.k + w.v) * bf16_bytes;
  const double out_bytes = ctx.tokens * w.heads * w.v_dim * bf16_bytes;
  const char* name = is_forward(pass) ? "attention_core" : "attention_core.backward";
  const bool split = ctx.cp.index >= 0;
  switch (split ? ctx.spec.cp_kind : CpKind::all_gather) {
    case CpKind::ring:
      ring_core(ctx, w, flops, scores, sequence, pass, kv_bytes);
      return;
    case CpKind::all_gather:
      if (split)
        exchange_cp(ctx, Collective::all_gather, "cp_kv_gather", kv_bytes / (is_forward(pass) ? 1 : 2) * ctx.layout.cp);
      core_kernel(ctx, w, name, flops, scores, sequence / ctx.layout.cp, !is_forward(pass), pass);
      if (split && !is_forward(pass))
        exchange_cp(ctx, Collective::reduce_scatter, "cp_kv_gradient", kv_bytes / 2 * ctx.layout.cp);
      return;
    case CpKind::all_to_all:
    case CpKind::all_to_all_ring:
      // Heads are split over the group while the sequence is whole; the mixed kind is the same inside a domain with a
      // ring across domains, of which the hops are counted here as one exchange of keys and values.
      exchange_cp(ctx, Collective::all_to_all, "cp_heads_in", is_forward(pass) ? all_bytes : out_bytes);
      core_kernel(ctx, w, name, flops, scores, sequence, !is_forward(pass), pass);
      if (ctx.spec.cp_kind == CpKind::all_to_all_ring && !ctx.cp.span.inside_domain()) {
        exchange_cp(ctx, Collective::send_receive, "cp_ring_hop", kv_bytes * (ctx.cp.span.domains - 1));
      }
      exchange_cp(ctx, Collective::all_to_all, "cp_heads_out", is_forward(pass) ? out_bytes : all_bytes);
      return;
  }
}

namespace {

// The normalised latents, inputs of the up-projections, as the recipe keeps them; sequence parallelism splits latents.
double latent_bytes(const StageContext& ctx, const models::Mla& mla) {
  return ctx.tokens_sp * (static_cast<double>(mla.q_lora_rank) + mla.kv_lora_rank) * ctx.spec.recipe.activation_bytes;
}

void forward_mla(StageContext& ctx, const models::Mla& mla, const Widths& w, Pass pass) {
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double q_rank = mla.q_lora_rank;
  const double kv_rank = mla.kv_lora_rank + mla.qk_rope_head_dim;
  if (pass == Pass::forward || ctx.full_recompute()) {
    if (q_rank > 0) {
      ctx.linear(pass, "mla_q_down", t, q_rank, h);
      ctx.save(pass, part_attention, "mla_down_proj", ctx.tokens_sp * q_rank * bf16_bytes);
      ctx.elementwise(pass, "mla_q_norm", Category::memory_bound, 2 * t * q_rank * bf16_bytes);
    }
    ctx.linear(pass, "mla_kv_down", t, kv_rank, h);
    ctx.save(pass, part_attention, "mla_down_proj", ctx.tokens_sp * kv_rank * bf16_bytes);
    ctx.elementwise(pass, "mla_kv_norm", Category::memory_bound, 2 * t * kv_rank * bf16_bytes);
  }
  ctx.linear(pass, "mla_q_up", t, w.q, q_rank > 0 ? q_rank : h);
  ctx.linear(pass, "mla_kv_up", t, w.heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank);
  ctx.save(pass, part_up_projection, "mla_up_proj", latent_bytes(ctx, mla));
  ctx.elementwise(pass, "mla_rope_concat", Category::memory_bound,
                  ctx.software().mla_passes_forward * t * (w.q + w.k + w.v) * bf16_bytes, 2);
  ctx.save(pass, part_up_projection, "mla_up_proj", t * (w.q + w.k) * bf16_bytes);
  ctx.save(pass, part_up_projection, ctx.software().mla_values_stay ? "mla_values" : "mla_up_proj",
           t * w.v * bf16_bytes);
}

void backward_mla(StageContext& ctx, const models::Mla& mla, const Widths& w, Pass pass) {
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double q_rank = mla.q_lora_rank;
  const double kv_rank = mla.kv_lora_rank + mla.qk_rope_head_dim;
  if (has_dgrad(pass)) {
    ctx.elementwise(pass, "mla_rope_concat.backward", Category::memory_bound,
                    ctx.software().mla_passes_backward * t * (w.q + w.k + w.v) * bf16_bytes, 2);
    ctx.release(part_up_projection, t * (w.q + w.k + w.v) * bf16_bytes);
  }
  ctx.linear(pass, "mla_kv_up", t, w.heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank);
  ctx.linear(pass, "mla_q_up", t, w.q, q_rank > 0 ? q_rank : h);
  if (has_wgrad(pass)) ctx.release(part_up_projection, latent_bytes(ctx, mla));
  if (has_dgrad(pass)) {
    ctx.elementwise(pass, "mla_kv_norm.backward", Category::memory_bound, 3 * t * kv_rank * bf16_bytes);
  }
  ctx.linear(pass, "mla_kv_down", t, kv_rank, h);
  if (has_wgrad(pass)) ctx.release(part_attention, ctx.tokens_sp * kv_rank * bf16_bytes);
  if (q_rank > 0) {
    if (has_dgrad(pass)) {
      ctx.elementwise(pass, "mla_q_norm.backward", Category::memory_bound, 3 * t * q_rank * bf16_bytes);
    }
    ctx.linear(pass, "mla_q_down", t, q_rank, h);
    if (has_wgrad(pass)) ctx.release(part_attention, ctx.tokens_sp * q_rank * bf16_bytes);
  }
}

// Kept for the core's backward: q, k and v as the core reads them, their values before a norm, the output's gate, the
// compressed queries before and after their norm.
double projections_saved(const StageContext& ctx, const models::Attention& a, const Widths& w) {
  const double normed = a.qk_norm || a.qk_norm_whole ? w.q + w.k : 0;
  const double gate = a.output_gate ? w.heads * w.v_dim : 0;
  return ctx.tokens * (w.q + w.k + w.v_made + normed + gate + 2.0 * a.low_rank.q_rank) * bf16_bytes;
}

void forward_projections(StageContext& ctx, const models::Attention& a, const Widths& w, Pass pass) {
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double gate = a.output_gate ? w.heads * w.v_dim : 0;
  if (a.low_rank.q_rank > 0) {
    ctx.linear(pass, "q_down", t, a.low_rank.q_rank, h);
    ctx.elementwise(pass, "q_down_norm", Category::memory_bound, 2 * t * a.low_rank.q_rank * bf16_bytes);
    ctx.linear(pass, "q_up", t, w.q + gate, a.low_rank.q_rank);
    ctx.linear(pass, "kv", t, w.k + w.v_made, h);
  } else {
    ctx.linear(pass, "qkv", t, w.q + w.k + w.v_made + gate, h);
  }
  if (a.qk_norm || a.qk_norm_whole)
    ctx.elementwise(pass, "qk_norm", Category::memory_bound, 2 * t * (w.q + w.k) * bf16_bytes, 2);
  if (!ctx.model().learned_positions)
    ctx.elementwise(pass, "rope", Category::memory_bound,
                    ctx.software().rope_passes_forward * t * (w.q + w.k) * bf16_bytes);
  ctx.save(pass, part_attention, "qkv", projections_saved(ctx, a, w));
}

void backward_projections(StageContext& ctx, const models::Attention& a, const Widths& w, Pass pass) {
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double gate = a.output_gate ? w.heads * w.v_dim : 0;
  if (has_dgrad(pass)) {
    if (!ctx.model().learned_positions)
      ctx.elementwise(pass, "rope.backward", Category::memory_bound,
                      ctx.software().rope_passes_backward * t * (w.q + w.k) * bf16_bytes);
    if (a.qk_norm || a.qk_norm_whole)
      ctx.elementwise(pass, "qk_norm.backward", Category::memory_bound, 3 * t * (w.q + w.k) * bf16_bytes, 2);
  }
  if (a.low_rank.q_rank > 0) {
    ctx.linear(pass, "kv", t, w.k + w.v_made, h);
    ctx.linear(pass, "q_up", t, w.q + gate, a.low_rank.q_rank);
    ctx.linear_of_region(pass, "q_down", t, a.low_rank.q_rank, h, "attention_input");
  } else {
    ctx.linear_of_region(pass, "qkv", t, w.q + w.k + w.v_made + gate, h, "attention_input");
  }
  if (has_dgrad(pass)) ctx.release(part_attention, projections_saved(ctx, a, w));
}

// The core's output, which is the input of the next product, and a gated output beside it. An 8-bit recipe keeps its
// own narrow copy; fused attention still reads the 16-bit one in its backward, unfused kernels do not.
double output_saved(const StageContext& ctx, const models::Attention& a, const Widths& w) {
  const Recipe& recipe = ctx.spec.recipe;
  double bytes = recipe.attention_output_bytes;
  if (recipe.activation_bytes < bf16_bytes && recipe.attention_output_bytes == bf16_bytes) {
    bytes = recipe.activation_bytes + (unfused(ctx) ? 0 : bf16_bytes);
  }
  const double gated = a.output_gate ? bf16_bytes : 0;
  const double grouped = static_cast<double>(a.low_rank.output_groups) * a.low_rank.output_rank / ctx.layout.tp;
  return ctx.tokens * (w.heads * w.v_dim * (bytes + gated) + grouped * recipe.activation_bytes);
}

// What recomputing the core drops: the log-sum-exp of fused kernels; unfused ones keep the softmax over the square, and
// with dropout its mask and result: 2 or 5 bytes a score (arXiv 2205.05198).
double core_saved(const StageContext& ctx, const Widths& w) {
  if (!unfused(ctx)) return ctx.tokens * w.heads * 4;
  const double bytes = ctx.model().attention_dropout ? 5 : 2;
  return bytes * w.heads * ctx.documents.sum_of_squares / ctx.layout.cp;
}

void output_projection(StageContext& ctx, const models::Attention& a, const Widths& w, Pass pass) {
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double groups = a.low_rank.output_groups;
  if (groups == 0) {
    ctx.linear(pass, "attention_out", t, h, w.heads * w.v_dim);
    return;
  }
  const double inner = groups * a.low_rank.output_rank / ctx.layout.tp;
  const auto down = [&] { ctx.linear(pass, "attention_out_down", t, inner, a.heads * w.v_dim / groups); };
  if (is_forward(pass)) down();
  ctx.linear(pass, "attention_out", t, h, inner);
  if (!is_forward(pass)) down();
}

}  // namespace

void lower_attention(StageContext& ctx, const models::Layer& layer, Pass pass) {
  const models::Attention& a = models::attention_of(ctx.model(), layer.attention);
  const Widths w = widths(ctx, layer.attention);
  const double sequence = ctx.documents.tokens > 0 ? ctx.documents.sum_of_squares / ctx.documents.tokens : 0;
  if (is_forward(pass)) {
    const bool whole = pass == Pass::forward || ctx.full_recompute();
    if (whole) ctx.enter_tp(pass, "attention_input");
    if (a.mla && (whole || ctx.recomputes("mla_up_proj"))) {
      forward_mla(ctx, *a.mla, w, pass);
    } else if (whole) {
      forward_projections(ctx, a, w, pass);
    }
    if (whole || ctx.recomputes("core_attn")) {
      lower_attention_core(ctx, layer.attention, pass, sequence);
      ctx.save(pass, part_attention, "core_attn", core_saved(ctx, w));
      ctx.save(pass, part_attention, "attention_output", output_saved(ctx, a, w));
    }
    if (whole) {
      output_projection(ctx, a, w, pass);
      ctx.leave_tp(pass, "attention_output");
    }
    return;
  }
  ctx.leave_tp(pass, "attention_output");
  output_projection(ctx, a, w, pass);
  if (pass == Pass::wgrad) ctx.release(part_attention, output_saved(ctx, a, w));
  if (has_dgrad(pass)) {
    lower_attention_core(ctx, layer.attention, pass, sequence);
    // Unfused: the gradients of softmax and scores, 2 bytes each.
    if (unfused(ctx))
      ctx.out.transient("activations.gradients", 4 * w.heads * ctx.documents.sum_of_squares / ctx.layout.cp);
    ctx.release(part_attention, core_saved(ctx, w));
    if (pass == Pass::backward) ctx.release(part_attention, output_saved(ctx, a, w));
  }
  if (a.mla) {
    backward_mla(ctx, *a.mla, w, pass);
    ctx.enter_tp(pass, "attention_input");
  } else {
    backward_projections(ctx, a, w, pass);
  }
}

}  // namespace stepcast::parallelism
