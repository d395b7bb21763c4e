#include "parallelism/lowering/no_effect.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/ledger.h"

namespace stepcast::parallelism {
namespace {

// Bytes a rank reduces of its smallest layer.
double smallest_layer_bytes(const Lowering& low) {
  const StepSpec& spec = low.spec;
  const Layout& layout = low.step.layout;
  double smallest = 0;
  for (int i = 0; i < spec.model.layer_count(); ++i) {
    const models::LayerParameters p = models::layer_parameters(spec.model, i);
    const double held =
        (p.attention_tp + p.mlp_tp) / layout.tp + p.replicated + p.routed_experts / (layout.ep * layout.etp);
    smallest = i == 0 ? held : std::min(smallest, held);
  }
  return smallest * spec.recipe.reduce_bytes;
}

bool has_module(const models::Model& model, const std::string& module) {
  const auto any = [&](auto&& has) { return std::any_of(model.layers.begin(), model.layers.end(), has); };
  using models::AttentionKind;
  using models::FfnKind;
  if (module == "attn") {
    return any([](const models::Layer& l) {
      return l.attention == AttentionKind::full || l.attention == AttentionKind::sliding ||
             l.attention == AttentionKind::chunked;
    });
  }
  if (module == "mamba") {
    return any([](const models::Layer& l) {
      return l.attention == AttentionKind::mamba2 || l.attention == AttentionKind::linear;
    });
  }
  if (module == "mlp") return any([](const models::Layer& l) { return l.ffn == FfnKind::dense; });
  return !module.starts_with("moe") || model.is_moe();
}

}  // namespace

void note_what_has_no_effect(Lowering& low) {
  const StepSpec& spec = low.spec;
  const Layout& layout = low.step.layout;
  auto& notes = low.step.assumptions;
  const int replicas = layout.dp * layout.cp;
  if (spec.sharding == Sharding::hsdp && spec.shard_group > replicas) {
    notes.push_back(fmt::format("parallelism.shard_group {}: there are {} data-parallel ranks, which share one copy",
                                spec.shard_group, replicas));
  }
  const bool each = (spec.sharding == Sharding::zero3 || spec.sharding == Sharding::hsdp) && spec.reshard_after_forward;
  const double bucket = spec.overlap.gradient_bucket_bytes;
  if (bucket > 0 && !each && bucket < smallest_layer_bytes(low)) {
    notes.push_back(
        fmt::format("overlap.gradient_bucket_bytes {:.4g}: buckets close at the end of a layer, so every "
                    "layer is one",
                    bucket));
  }
  if (spec.recompute.mode == RecomputeMode::full && spec.recompute.block_layers > 0) {
    if (spec.recompute.method != "block" && spec.recompute.block_layers > 1) {
      notes.push_back(
          fmt::format("recompute.layers {} with the method uniform: layers are repeated one by one, which "
                      "holds one layer's activations and the input of each, not of every {}",
                      spec.recompute.block_layers, spec.recompute.block_layers));
    }
  }
  if (spec.runtime.cuda_graphs == CudaGraphs::partial) {
    for (const std::string& module : spec.runtime.graph_modules) {
      if (has_module(spec.model, module)) continue;
      notes.push_back(fmt::format("runtime.graph_modules {}: {} has no such module", module, spec.model.name));
    }
  }
  if (spec.runtime.cuda_graphs == CudaGraphs::full_iteration && spec.model.is_moe() &&
      spec.routing.drop == DropPolicy::none) {
    notes.push_back(
        "one CUDA graph with dropless experts: row counts stay on the device (buffers of fixed size, as paged or "
        "padded experts have), so the host waits for none");
  }
}

}  // namespace stepcast::parallelism
