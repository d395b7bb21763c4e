// Norms, the dense feed-forward network and the shared expert.
//
// Kept for backward: the norm's input (the residual stream, split by sequence
// parallelism), its output as the GEMM's input, the first GEMM's output, the
// activation's output as the second GEMM's input.
#include "parallelism/kernels/context.h"

namespace stepcast::parallelism {

using sim::Category;

namespace {

constexpr double bf16_bytes = 2;

}  // namespace

void lower_norm(StageContext& ctx, Pass pass, const std::string& name, double output_bytes) {
  const double elements = ctx.tokens_sp * ctx.model().hidden;
  const double per_block = ctx.model().norms_per_layer / 2.0;
  const auto& software = ctx.software();
  const bool in_layer = ctx.layer >= 0;  // recomputation repeats layers, not the final norm
  const double kept = elements * (output_bytes < 0 ? ctx.spec.recipe.activation_bytes : output_bytes);
  // A norm after the block keeps its input too.
  const double inputs = elements * bf16_bytes * (in_layer && ctx.model().norms_per_layer > 2 ? 2 : 1);
  if (is_forward(pass)) {
    ctx.elementwise(pass, name, Category::memory_bound,
                    software.norm_passes_forward * per_block * elements * bf16_bytes, per_block);
    // The output is the input of the next GEMM, kept in the recipe's precision.
    ctx.save(pass, "activations.norm", in_layer ? "layernorm" : "", kept);
    ctx.save(pass, "activations.residual", in_layer ? "residual" : "", inputs);
    return;
  }
  if (has_dgrad(pass)) {
    ctx.elementwise(pass, name + ".backward", Category::memory_bound,
                    software.norm_passes_backward * per_block * elements * bf16_bytes, per_block);
    ctx.release("activations.residual", inputs);
  }
  // The weight gradient just written was the last to read the norm's output.
  if (has_wgrad(pass)) ctx.release("activations.norm", kept);
}

void lower_mlp(StageContext& ctx, Pass pass, double ffn, const std::string& name, std::string_view recompute_module) {
  const double t = ctx.tokens;
  const double h = ctx.model().hidden;
  const double f = ffn / ctx.layout.tp;
  const double in_width = ctx.model().gated_ffn ? 2 * f : f;
  const auto& software = ctx.software();
  const double act = ctx.spec.recipe.activation_bytes;
  const double gating = ctx.model().gated_ffn ? 1.0 : 2.0 / 3.0;  // two tensors of width f instead of three
  const std::string_view part = "activations.mlp";
  const bool again = pass == Pass::recompute;
  // By op every second product's output is kept: of the MLP one half of the first product.
  const bool by_op = !ctx.full_recompute() && recompute_module == "mlp" && ctx.recomputes("op");
  const double half = by_op && in_width > f ? f : 0;
  if (is_forward(pass)) {
    ctx.enter_tp(pass, name + "_input");
    ctx.linear(pass, name + "_fc1", t, again ? in_width - half : in_width, h);
    ctx.save(pass, part, recompute_module, t * (in_width - half) * ctx.spec.recipe.function_input_bytes);
    ctx.save(pass, part, "", t * half * ctx.spec.recipe.function_input_bytes);
    ctx.elementwise(pass, name + "_activation", Category::memory_bound,
                    software.activation_passes_forward * gating * t * f * bf16_bytes);
    ctx.save(pass, part, recompute_module, t * f * act);
    if (again && !ctx.full_recompute()) return;  // the second GEMM's output is not needed again
    ctx.linear(pass, name + "_fc2", t, h, f);
    ctx.leave_tp(pass, name + "_output");
    return;
  }
  ctx.leave_tp(pass, name + "_output");
  ctx.linear(pass, name + "_fc2", t, h, f);
  if (has_wgrad(pass)) ctx.release(part, t * f * act);
  if (has_dgrad(pass)) {
    ctx.elementwise(pass, name + "_activation.backward", Category::memory_bound,
                    software.activation_passes_backward * gating * t * f * bf16_bytes);
    ctx.release(part, t * in_width * ctx.spec.recipe.function_input_bytes);
  }
  ctx.linear_of_region(pass, name + "_fc1", t, in_width, h, name + "_input");
}

}  // namespace stepcast::parallelism
