#include <algorithm>
#include <cmath>
#include <utility>

#include "models/ledger.h"

namespace stepcast::models {
namespace {

constexpr double per_weight = 2;  // a multiplication and an addition

// A product of `tokens` rows with `weights` parameters.
ModuleFlops weights(std::string module, double tokens, double parameters) {
  const double forward = per_weight * tokens * parameters;
  return {std::move(module), forward, forward, forward};
}

// A product of two activations, or a recurrence: both factors need a gradient and neither is a weight.
ModuleFlops activations(std::string module, double forward) { return {std::move(module), forward, 2 * forward, 0}; }

ModuleFlops& operator+=(ModuleFlops& sum, const ModuleFlops& part) {
  sum.forward += part.forward;
  sum.dgrad += part.dgrad;
  sum.wgrad += part.wgrad;
  return sum;
}

double scored_pairs(const Documents& documents, AttentionKind kind, Convention convention) {
  const double causal = causal_pairs(documents, kind);
  return convention == Convention::attention_full ? 2 * causal : causal;
}

// Multi-head latent attention, arXiv 2405.04434 section 2.1, not absorbed (training).
void add_mla(std::vector<ModuleFlops>& modules, const Model& model, const Mla& mla, double tokens, double pairs) {
  const double h = model.hidden;
  const double heads = model.attention.heads;
  const double qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  const double down = h * (mla.kv_lora_rank + mla.qk_rope_head_dim) + h * mla.q_lora_rank;
  const double up = mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim) + mla.q_lora_rank * heads * qk;
  if (mla.q_lora_rank == 0) modules.push_back(weights("qkv", tokens, h * heads * qk));
  modules.push_back(weights("mla_down", tokens, down));
  modules.push_back(weights("mla_up", tokens, up));
  modules.push_back(activations("attention_core", per_weight * pairs * heads * (qk + mla.v_head_dim)));
  modules.push_back(weights("attention_out", tokens, heads * mla.v_head_dim * h));
}

void add_softmax(std::vector<ModuleFlops>& modules, const Model& model, const Attention& attention, double tokens,
                 double pairs) {
  const double h = model.hidden;
  const double q_width = static_cast<double>(attention.heads) * attention.head_dim * (attention.output_gate ? 2 : 1);
  const double k_width = static_cast<double>(attention.kv_heads) * attention.head_dim;
  const double v_width = attention.shared_kv ? 0 : static_cast<double>(attention.kv_heads) * attention.v_head_dim;
  const double out_width = static_cast<double>(attention.heads) * attention.v_head_dim;
  const LowRankProjections& low = attention.low_rank;
  const double q = low.q_rank > 0 ? low.q_rank * (h + q_width) : h * q_width;
  const double out = low.output_groups > 0 ? (out_width + low.output_groups * h) * low.output_rank : out_width * h;
  modules.push_back(weights("qkv", tokens, q + h * (k_width + v_width)));
  modules.push_back(activations("attention_core",
                                per_weight * pairs * attention.heads * (attention.head_dim + attention.v_head_dim)));
  modules.push_back(weights("attention_out", tokens, out));
}

// State products per token and head: four of key x value width for the gated delta rule (K K^T, V K^T, the decayed
// state, S Q; Megatron-LM's count), two for lightning attention (K V^T, Q S).
void add_linear(std::vector<ModuleFlops>& modules, const Model& model, double tokens) {
  const LinearAttention& linear = model.linear;
  const double h = model.hidden;
  const double key = static_cast<double>(linear.key_heads) * linear.key_head_dim;
  const double value = static_cast<double>(linear.value_heads) * linear.value_head_dim;
  double projections = h * (2 * key + 2 * value) + h * value;  // q, k, v, gate; output
  double products = 4;
  switch (linear.kind) {
    case LinearKind::gated_delta:
      projections += h * 2 * linear.value_heads;
      break;
    case LinearKind::lightning:
      products = 2;
      break;
    case LinearKind::kimi_delta:  // both gates through head_dim: decay (of key width) and output (of value width)
      projections += h * linear.value_heads - h * value;
      projections += h * (linear.key_head_dim + linear.value_head_dim);
      projections += linear.key_head_dim * key + linear.value_head_dim * value;
      break;
  }
  ModuleFlops sum = weights("linear_attention", tokens, projections + linear.conv_kernel * (2 * key + value));
  sum += activations("", per_weight * tokens * products * value * linear.key_head_dim);
  modules.push_back(sum);
}

// Mamba-2 as Megatron-LM counts a hybrid model: input and output projections, and 7 FLOPs a state element for the scan
// (num_floating_point_operations, mamba_layer_flops; the convolution is not counted). Megatron's inner width is
// 2 x hidden even where heads x head_dim is narrower.
void add_mamba(std::vector<ModuleFlops>& modules, const Model& model, double tokens, bool megatron_width) {
  const Mamba2& mamba = model.mamba;
  const double h = model.hidden;
  const double inner = megatron_width ? 2 * h : static_cast<double>(mamba.heads) * mamba.head_dim;
  const double in = h * (2 * inner + 2.0 * mamba.groups * mamba.state + mamba.heads);
  ModuleFlops sum = weights("mamba", tokens, in + inner * h);
  sum += activations("", 7 * tokens * inner * mamba.state);
  modules.push_back(sum);
}

void add_moe(std::vector<ModuleFlops>& modules, const Model& model, double tokens, bool count_router) {
  const Moe& moe = model.moe;
  const double matrices = model.gated_ffn ? 3 : 2;
  const double expert_hidden = moe.latent > 0 ? moe.latent : model.hidden;
  if (count_router) modules.push_back(weights("router", tokens, static_cast<double>(model.hidden) * moe.experts));
  modules.push_back(weights("experts", tokens * moe.top_k, matrices * expert_hidden * moe.expert_ffn));
  if (moe.latent > 0) modules.push_back(weights("expert_latent", tokens, 2.0 * model.hidden * moe.latent));
  if (moe.shared_ffn > 0) {
    modules.push_back(weights("shared_expert", tokens, matrices * model.hidden * static_cast<double>(moe.shared_ffn)));
  }
}

void merge(std::vector<ModuleFlops>& into, const std::vector<ModuleFlops>& parts) {
  for (const ModuleFlops& part : parts) {
    const auto same = std::find_if(into.begin(), into.end(), [&](const auto& m) { return m.module == part.module; });
    if (same == into.end()) {
      into.push_back(part);
    } else {
      *same += part;
    }
  }
}

ModuleFlops mtp_flops(const Model& model, const Documents& documents, const FlopOptions& options) {
  ModuleFlops sum{"mtp"};
  for (const ModuleFlops& part : layer_flops(model, mtp_layer(model), documents, options)) sum += part;
  if (!options.megatron_hybrid) sum += mtp_projection_flops(model, documents.tokens);
  if (options.count_logits) sum += logits_flops(model, documents.tokens);
  const double n = model.mtp_layers;
  return {"mtp", n * sum.forward, n * sum.dgrad, n * sum.wgrad};
}

}  // namespace

std::string_view name(Convention convention) {
  switch (convention) {
    case Convention::six_nd_active:
      return "6nd_active";
    case Convention::attention_full:
      return "attention_full";
    case Convention::attention_causal:
      return "attention_causal";
  }
  return "unknown";
}

std::vector<ModuleFlops> layer_flops(const Model& model, Layer layer, const Documents& documents,
                                     const FlopOptions& options) {
  STEPCAST_ASSERT(options.convention != Convention::six_nd_active);
  std::vector<ModuleFlops> modules;
  const double tokens = documents.tokens;
  if (has_scores(layer.attention)) {
    const double pairs = scored_pairs(documents, layer.attention, options.convention);
    if (model.attention.mla) {
      add_mla(modules, model, *model.attention.mla, tokens, pairs);
    } else {
      add_softmax(modules, model, attention_of(model, layer.attention), tokens, pairs);
    }
  } else if (layer.attention == AttentionKind::linear) {
    add_linear(modules, model, tokens);
  } else if (layer.attention == AttentionKind::mamba2) {
    add_mamba(modules, model, tokens, options.megatron_hybrid);
  }
  if (layer.ffn == FfnKind::moe) {
    add_moe(modules, model, tokens, options.count_router);
  } else if (layer.ffn == FfnKind::dense) {
    modules.push_back(weights("mlp", tokens, (model.gated_ffn ? 3.0 : 2.0) * model.hidden * model.dense_ffn));
  }
  return modules;
}

ModuleFlops logits_flops(const Model& model, double tokens) {
  return weights("logits", tokens, static_cast<double>(model.hidden) * model.vocab);
}

ModuleFlops mtp_projection_flops(const Model& model, double tokens) {
  return weights("mtp", tokens, 2.0 * model.hidden * model.hidden);
}

FlopAccount flops(const Model& model, const Documents& documents, const FlopOptions& options) {
  FlopAccount account{options, {}};
  if (options.convention == Convention::six_nd_active) {
    const double forward = per_weight * parameters(model).active * documents.tokens;
    account.modules.push_back({"parameters", forward, forward, forward});
    return account;
  }
  // Layers of one kind cost the same: count each kind once.
  std::vector<std::pair<Layer, double>> kinds;
  for (const Layer& layer : model.layers) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == layer; });
    if (known == kinds.end()) {
      kinds.emplace_back(layer, 1.0);
    } else {
      known->second += 1;
    }
  }
  for (const auto& [layer, count] : kinds) {
    auto modules = layer_flops(model, layer, documents, options);
    for (ModuleFlops& m : modules) m = {m.module, count * m.forward, count * m.dgrad, count * m.wgrad};
    merge(account.modules, modules);
  }
  if (options.count_logits) account.modules.push_back(logits_flops(model, documents.tokens));
  if (options.count_mtp && model.mtp_layers > 0) account.modules.push_back(mtp_flops(model, documents, options));
  return account;
}

double FlopAccount::forward() const {
  double sum = 0;
  for (const ModuleFlops& m : modules) sum += m.forward;
  return sum;
}

double FlopAccount::total() const {
  double sum = 0;
  for (const ModuleFlops& m : modules) sum += m.total();
  return sum;
}

double flops_per_token(const Model& model, int sequence_length, const FlopOptions& options) {
  if (sequence_length <= 0) return 0;
  const Documents documents = one_sequence(sequence_length, model.window);
  return flops(model, documents, options).total() / documents.tokens;
}

}  // namespace stepcast::models
