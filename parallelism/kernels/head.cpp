// Embedding, output projection with cross-entropy, and multi-token prediction modules.
//
// Logits stay in BF16; their width is the vocabulary padded to a multiple of the
// profile's block x TP. The loss holds the logits and their gradient.
#include <algorithm>

#include "parallelism/kernels/context.h"

namespace stepcast::parallelism {

using sim::Category;

namespace {

constexpr double bf16_bytes = 2;

}  // namespace

void lower_embedding(StageContext& ctx, Pass pass) {
  const double elements = ctx.tokens * ctx.model().hidden;
  if (is_forward(pass)) {
    ctx.elementwise(pass, "embedding", Category::memory_bound, 2 * elements * bf16_bytes);
    if (ctx.model().hidden_dropout) ctx.out.alloc("activations.dropout", ctx.tokens_sp * ctx.model().hidden);
    ctx.leave_tp(pass, "embedding_output");
  } else if (has_dgrad(pass)) {
    ctx.leave_tp(pass, "embedding_output");
    ctx.elementwise(pass, "embedding.backward", Category::memory_bound, 3 * elements * bf16_bytes);
    if (ctx.model().hidden_dropout) ctx.release("activations.dropout", ctx.tokens_sp * ctx.model().hidden);
  }
}

void lower_loss(StageContext& ctx, Pass pass) {
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double v = ctx.padded_vocab / ctx.layout.tp;
  const double traffic = ctx.software().loss_bytes_per_logit;
  const std::string name = "logits";
  constexpr double kept_bytes = 4;  // softmax in FP32
  const double beside = std::max(0.0, ctx.software().loss_peak_bytes_per_logit - kept_bytes - bf16_bytes);
  if (is_forward(pass)) {
    ctx.enter_tp(pass, "logits_input");
    ctx.linear(pass, name, t, v, h, Operands::half);
    ctx.out.alloc("logits", t * v * bf16_bytes);
    ctx.elementwise(pass, "cross_entropy", Category::memory_bound, t * v * traffic / 2, 3);
    // The softmax in FP32 is kept for backward.
    ctx.out.alloc("logits", t * v * kept_bytes);
    ctx.out.transient("logits", t * v * beside);
    if (ctx.tp.index >= 0)
      blocking_collective(ctx, ctx.tp, sim::Stream::tp, topology::Collective::all_reduce, "cross_entropy_reduce",
                          3 * t * 4);
    return;
  }
  if (has_dgrad(pass)) {
    ctx.elementwise(pass, "cross_entropy.backward", Category::memory_bound, t * v * traffic / 2, 2);
    ctx.out.transient("logits", t * v * beside);
    ctx.release("logits", t * v * kept_bytes);
  }
  ctx.linear_of_region(pass, name, t, v, h, "logits_input", Operands::half);
  if (has_wgrad(pass)) ctx.release("logits", t * v * bf16_bytes);
}

void lower_mtp(StageContext& ctx, Pass pass) {
  // Two norms, the projection of [hidden, embedding] to hidden, one decoder layer, the shared head.
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const models::Layer layer = models::mtp_layer(ctx.model());
  // Inputs of the two norms and of the last one, of the projection and of the output matrix.
  const double saved = ctx.tokens_sp * h * (4 * bf16_bytes + 2 * ctx.spec.recipe.activation_bytes);
  const std::string outer = ctx.suffix;
  ctx.suffix = ".mtp";
  if (is_forward(pass)) {
    ctx.elementwise(pass, "mtp_norms", Category::memory_bound,
                    2 * ctx.software().norm_passes_forward * ctx.tokens_sp * h * bf16_bytes, 2);
    ctx.save(pass, "activations.mtp", "", saved);
    ctx.linear(pass, "mtp_projection", t, h / ctx.layout.tp, 2 * h);
    lower_layer(ctx, layer, pass);
    lower_loss(ctx, pass);
  } else {
    lower_loss(ctx, pass);
    lower_layer(ctx, layer, pass);
    ctx.linear(pass, "mtp_projection", t, h / ctx.layout.tp, 2 * h);
    if (has_wgrad(pass)) ctx.release("activations.mtp", saved);
    if (has_dgrad(pass)) {
      ctx.elementwise(pass, "mtp_norms.backward", Category::memory_bound,
                      2 * ctx.software().norm_passes_backward * ctx.tokens_sp * h * bf16_bytes, 2);
    }
  }
  ctx.suffix = outer;
}

}  // namespace stepcast::parallelism
