// Memory that a rank holds through the whole step: state of its parameters, buffers of its framework, context.
//
// Bytes a parameter, with s shards: BF16 copy 2, gradient 4 (or 2), optimizer 12/s. ZeRO-2 and 3 shard the gradient,
// ZeRO-3 the copy. FSDP (`fp32_parameters`) shards the fp32 masters and has BF16 copies only while gathered: of the
// root module (embedding, head) all the time, of `1 + prefetch` layers, and one layer's gradient before it is reduced.
// Left out: norm statistics, random states, index tensors.
#include <algorithm>
#include <set>
#include <utility>

#include "parallelism/lowering/stage.h"

namespace stepcast::parallelism {
namespace {

constexpr double bf16_bytes = 2;
constexpr double fp32_bytes = 4;

// Layers of the piece by kind, so that weights of one shape count once.
double distinct_weights(const models::Model& model, const Layout& layout, const std::set<int>& attention,
                        const std::set<int>& ffn) {
  double sum = 0;
  const double experts = std::max(1, model.moe.experts);
  for (const int kind : attention) {
    const auto p =
        models::layer_parameters(model, models::Layer{static_cast<models::AttentionKind>(kind), models::FfnKind::none});
    sum += p.attention_tp / layout.tp;
  }
  for (const int kind : ffn) {
    const auto p =
        models::layer_parameters(model, models::Layer{models::AttentionKind::none, static_cast<models::FfnKind>(kind)});
    sum += p.mlp_tp / layout.tp + p.routed_experts / experts / layout.etp;
  }
  return sum;
}

}  // namespace

double Stage::placeholder_parameters() const {
  std::set<int> attention;
  std::set<int> ffn;
  const models::Model& model = low_.spec.model;
  for (const PieceState& p : pieces_) {
    for (int i = 0; i < p.content.layers; ++i) {
      const models::Layer& layer = model.layers[static_cast<std::size_t>(p.content.first_layer + i)];
      attention.insert(static_cast<int>(layer.attention));
      ffn.insert(static_cast<int>(layer.ffn));
    }
  }
  return distinct_weights(model, low_.step.layout, attention, ffn);
}

void Stage::static_memory() {
  const Recipe& recipe = low_.spec.recipe;
  const SoftwareProfile& software = low_.spec.software;
  double parameters = 0;
  double root = 0;  // outside of layers: embedding and head
  double largest = 0;
  for (const PieceState& p : pieces_) {
    for (std::size_t b = 0; b < p.blocks.size(); ++b) {
      const double block = p.blocks[b].parameters.total();
      parameters += block;
      if (static_cast<int>(b) == p.embedding_block || static_cast<int>(b) == p.head_block) {
        root += block;
      } else {
        largest = std::max(largest, block);
      }
    }
  }
  low_.step.parameters_per_rank_max = std::max(low_.step.parameters_per_rank_max, parameters);
  const double owned = owned_parameters(pieces_in_order());
  const bool every_pass = gathers_every_pass();
  const bool fp32 = software.fp32_parameters && fully_sharded();
  const auto set = [&](const char* name, double bytes) {
    const std::size_t part = out_.part(name);
    if (cohort_.static_bytes.size() <= part) cohort_.static_bytes.resize(part + 1, 0);
    cohort_.static_bytes[part] += bytes;
  };
  const double kept = every_pass ? owned : parameters;
  double weights = kept * recipe.parameter_bytes;
  if (fp32) weights = owned * fp32_bytes;
  // FSDP casts a layer when it runs; the others keep the narrow tensor and its transpose beside the BF16 one.
  const double narrow = 2 * topology::element_bytes(recipe.gemm);
  if (!fp32) weights += narrow * quantised_parameters() * kept / std::max(1.0, parameters);
  set("weights", weights);
  double gradients = (reduces_every_microbatch() ? owned : parameters) * recipe.gradient_bytes;
  if (software.bf16_gradients_stay && recipe.gradient_bytes > bf16_bytes) gradients += parameters * bf16_bytes;
  if (fp32 && !every_pass) gradients += owned * recipe.gradient_bytes;  // where the unsharded ones are reduced to
  set("gradients", gradients);
  const double optimizer = recipe.optimizer_bytes - (fp32 ? fp32_bytes : 0);
  set("optimizer", owned * optimizer * (low_.spec.offload.optimizer ? 1 - low_.spec.offload.optimizer_fraction : 1));
  set("context", software.context_bytes);
  if (every_pass) {
    const double ahead = largest * (1 + low_.spec.overlap.prefetch);
    set("gathered_parameters", (fp32 ? root + ahead : std::max(root, ahead)) * recipe.parameter_bytes +
                                   (fp32 && ctx_.quantised() ? narrow * largest : 0));
    set("gradient_buffers", largest * (bf16_bytes + recipe.reduce_bytes) + (fp32 ? root * bf16_bytes : 0));
  } else if (fp32) {
    set("gathered_parameters", parameters * recipe.parameter_bytes);
  }
  double buffers = software.bucket_bytes;
  if (software.fp32_gradient_copy && recipe.gradient_bytes < fp32_bytes) buffers += owned * fp32_bytes;
  if (software.placeholder_gradients) buffers += placeholder_parameters() * recipe.parameter_bytes;
  set("gradient_buffers", buffers);
}

}  // namespace stepcast::parallelism
