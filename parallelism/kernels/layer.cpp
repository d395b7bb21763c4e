// One decoder layer: mixer block, feed-forward block, and what recomputation repeats before their backward.
//
// Attention that a framework generation refuses or that is modelled roughly:
// linear attention and Mamba-2 run their projections as GEMMs and their scan at
// the rate of memory: scan_passes over the inner width (whole steps of hybrid models on H100 and Blackwell; crude).
#include <algorithm>

#include "models/activations.h"
#include "parallelism/kernels/context.h"

namespace stepcast::parallelism {

using models::AttentionKind;
using sim::Category;

namespace {

constexpr double bf16_bytes = 2;
constexpr const char* part_mixer = "activations.mixer";
constexpr double scan_passes = 30;  // of 2 bytes, forward; twice as many backward; set by hand, low confidence
constexpr double scan_chunk = 128;  // tokens of a chunk of the chunked scan
// What an SM moves in them on H100 (3.35 TB/s at .91 over 132): Triton kernels of Hopper's instructions, which newer
// chips run at no higher rate an SM.
constexpr double scan_bytes_per_second_per_sm = 23.1e9;

bool is_softmax(AttentionKind kind) {
  return kind == AttentionKind::full || kind == AttentionKind::sliding || kind == AttentionKind::chunked;
}

// FLOPs of a chunked scan, forward, per token: inside-chunk products and the state update of every head.
double scan_flops_per_token(double heads, double key_dim, double value_dim) {
  return 2 * heads * (scan_chunk / 2 * (key_dim + value_dim) + 2 * key_dim * value_dim);
}

// Chunked scans are short products between states that pass through memory: their rate follows bandwidth, or what the
// SMs of a Hopper can draw, not the peak.
void scan(StageContext& ctx, Pass pass, double flops, double inner) {
  OpSpec op;
  op.name = std::string(is_forward(pass) ? "scan" : "scan.backward") + ctx.suffix;
  op.category = pass == Pass::recompute ? Category::recompute : Category::attention;
  const double factor = is_forward(pass) ? 1 : 2;
  op.flops = flops * factor;
  const double bytes = scan_passes * factor * inner * bf16_bytes;
  const Seconds by_sm(bytes / (scan_bytes_per_second_per_sm * ctx.device().sms));
  op.time = {std::max(topology::membound_time(ctx.device(), Bytes(bytes), 1), by_sm), Seconds(0), Seconds(0)};
  op.layer = ctx.layer;
  ctx.out.compute(op);
}

struct MixerShape {
  double in = 0, inner = 0, scan_flops = 0, conv = 0;
};

MixerShape mixer_shape(const StageContext& ctx, AttentionKind kind) {
  const auto& model = ctx.model();
  const double tp = ctx.layout.tp;
  MixerShape s;
  if (kind == AttentionKind::mamba2) {
    const auto& m = model.mamba;
    s.inner = m.heads * m.head_dim / tp;
    s.in = 2 * s.inner + (2.0 * m.groups * m.state + m.heads) / tp;
    s.conv = s.inner + 2.0 * m.groups * m.state / tp;
    s.scan_flops = scan_flops_per_token(m.heads / tp, m.state, m.head_dim);
  } else {
    const auto& l = model.linear;
    s.inner = l.value_heads * l.value_head_dim / tp;
    s.in = (2.0 * l.key_heads * l.key_head_dim + 2.0 * l.value_heads) / tp + 2 * s.inner;
    s.conv = 2.0 * l.key_heads * l.key_head_dim / tp + s.inner;
    s.scan_flops = scan_flops_per_token(l.value_heads / tp, l.key_head_dim, l.value_head_dim);
  }
  return s;
}

// What the ledger says of the scan and its projections; the norm before them is kept by the norm.
double mixer_saved(const StageContext& ctx, const models::Layer& layer) {
  models::ActivationOptions options;
  options.gemm_input_width = ctx.spec.recipe.activation_bytes;
  auto items = models::layer_activations(ctx.model(), {layer.attention, models::FfnKind::none}, options);
  std::erase_if(items, [](const models::ActivationItem& i) {
    return i.module == "attention_norm" || i.module == "qkv" || i.module == "dropout";
  });
  models::ActivationShare share;
  share.tokens = ctx.tokens;
  share.tp = ctx.layout.tp;
  share.sequence_parallel = ctx.spec.sequence_parallel;
  return models::kept_bytes(items, share).value;
}

}  // namespace

void lower_mixer(StageContext& ctx, const models::Layer& layer, Pass pass) {
  const MixerShape s = mixer_shape(ctx, layer.attention);
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double out = t * s.inner * ctx.spec.recipe.activation_bytes;
  const double saved = mixer_saved(ctx, layer) - out;
  if (is_forward(pass)) {
    const bool whole = pass == Pass::forward || ctx.full_recompute();
    if (!whole && layer.attention == AttentionKind::linear && ctx.recomputes("gdn_norm_out")) {
      ctx.elementwise(pass, "mixer_gate_norm", Category::memory_bound, 3 * t * s.inner * bf16_bytes);
      ctx.save(pass, part_mixer, "gdn_norm_out", out);
    }
    if (!whole) return;
    ctx.enter_tp(pass, "mixer_input");
    ctx.linear(pass, "mixer_in", t, s.in, h);
    ctx.elementwise(pass, "mixer_conv", Category::memory_bound, 2 * t * s.conv * bf16_bytes);
    scan(ctx, pass, t * s.scan_flops, t * s.inner);
    ctx.elementwise(pass, "mixer_gate_norm", Category::memory_bound, 3 * t * s.inner * bf16_bytes);
    ctx.save(pass, part_mixer, "mixer", saved);
    ctx.save(pass, part_mixer, layer.attention == AttentionKind::linear ? "gdn_norm_out" : "mixer", out);
    ctx.linear(pass, "mixer_out", t, h, s.inner);
    ctx.leave_tp(pass, "mixer_output");
    return;
  }
  ctx.leave_tp(pass, "mixer_output");
  ctx.linear(pass, "mixer_out", t, h, s.inner);
  if (has_dgrad(pass)) {
    ctx.elementwise(pass, "mixer_gate_norm.backward", Category::memory_bound, 5 * t * s.inner * bf16_bytes);
    scan(ctx, pass, t * s.scan_flops, t * s.inner);
    ctx.elementwise(pass, "mixer_conv.backward", Category::memory_bound, 4 * t * s.conv * bf16_bytes);
  }
  ctx.linear_of_region(pass, "mixer_in", t, s.in, h, "mixer_input");
  if (has_wgrad(pass)) ctx.release(part_mixer, saved + out);
}

namespace {

// The mask after a block, a byte an element.
void dropout(StageContext& ctx, Pass pass) {
  if (!ctx.model().hidden_dropout) return;
  const double mask = ctx.tokens_sp * ctx.model().hidden;
  if (is_forward(pass)) ctx.save(pass, "activations.dropout", "dropout", mask);
  if (has_dgrad(pass)) ctx.release("activations.dropout", mask);
}

void mixer_block(StageContext& ctx, const models::Layer& layer, Pass pass) {
  if (layer.attention == AttentionKind::none) return;
  const bool softmax = is_softmax(layer.attention);
  const GraphScope graph(ctx, softmax ? "attn" : "mamba");
  const auto body = [&](Pass p) { softmax ? lower_attention(ctx, layer, p) : lower_mixer(ctx, layer, p); };
  if (is_forward(pass)) {
    lower_norm(ctx, pass, "attention_norm");
    body(pass);
    dropout(ctx, pass);
    return;
  }
  dropout(ctx, pass);
  if (has_dgrad(pass) && ctx.spec.recompute.mode == RecomputeMode::selective) {
    if (ctx.recomputes("layernorm")) lower_norm(ctx, Pass::recompute, "attention_norm");
    body(Pass::recompute);
  }
  body(pass);
  lower_norm(ctx, pass, "attention_norm");
}

void ffn_block(StageContext& ctx, const models::Layer& layer, Pass pass) {
  if (layer.ffn == models::FfnKind::none) return;
  const bool moe = layer.ffn == models::FfnKind::moe;
  const GraphScope graph(ctx, moe ? "moe" : "mlp");
  // The router reads the norm's output in 16 bits, the shared expert a narrow copy of it.
  const double act = ctx.spec.recipe.activation_bytes;
  const double copy = act < bf16_bytes && ctx.model().moe.shared_ffn > 0 ? act : 0;
  const double output = moe ? bf16_bytes + copy : -1;
  const auto body = [&](Pass p) { moe ? lower_moe(ctx, p) : lower_mlp(ctx, p, ctx.model().dense_ffn, "mlp", "mlp"); };
  if (is_forward(pass)) {
    lower_norm(ctx, pass, "ffn_norm", output);
    body(pass);
    dropout(ctx, pass);
    return;
  }
  dropout(ctx, pass);
  if (has_dgrad(pass) && ctx.spec.recompute.mode == RecomputeMode::selective) {
    if (ctx.recomputes("layernorm")) lower_norm(ctx, Pass::recompute, "ffn_norm", output);
    if (moe || ctx.recomputes("mlp")) body(Pass::recompute);
  }
  body(pass);
  lower_norm(ctx, pass, "ffn_norm", output);
}

}  // namespace

void lower_layer(StageContext& ctx, const models::Layer& layer, Pass pass) {
  const double input = ctx.tokens_sp * ctx.model().hidden * bf16_bytes;
  if (is_forward(pass)) {
    mixer_block(ctx, layer, pass);
    if (pass == Pass::forward && ctx.full_recompute()) ctx.out.alloc("activations.residual", input);
    ffn_block(ctx, layer, pass);
    return;
  }
  if (has_dgrad(pass) && ctx.full_recompute()) {
    mixer_block(ctx, layer, Pass::recompute);
    ffn_block(ctx, layer, Pass::recompute);
  }
  ffn_block(ctx, layer, pass);
  mixer_block(ctx, layer, pass);
  if (has_dgrad(pass) && ctx.full_recompute()) ctx.release("activations.residual", input);
}

}  // namespace stepcast::parallelism
