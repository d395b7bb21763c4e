#include "models/activations.h"

#include <algorithm>
#include <utility>

namespace stepcast::models {
namespace {

constexpr double statistics = 4;  // fp32 log-sum-exp of a row of scores
constexpr double mask = 1;        // a dropout mask's byte

using Items = std::vector<ActivationItem>;
using Names = std::vector<std::string>;

ActivationItem whole(std::string module, double elements, double bytes, Names freed_by = {}) {
  return {std::move(module), elements, bytes, Scaling::tokens, false, true, std::move(freed_by)};
}

ActivationItem split(std::string module, double elements, double bytes, Names freed_by = {}) {
  return {std::move(module), elements, bytes, Scaling::tokens, true, false, std::move(freed_by)};
}

ActivationItem routed(std::string module, double elements, double bytes, bool expert_tp, Names freed_by) {
  return {std::move(module), elements, bytes, Scaling::routed_rows, expert_tp, false, std::move(freed_by)};
}

// Scores over the whole square: softmax output, and with dropout its mask and the dropped-out scores.
void add_scores(Items& items, const Model& model, double heads, const ActivationOptions& o) {
  if (o.fused_attention) {
    items.push_back(split("attention_core", heads, statistics, {"core_attn"}));
    return;
  }
  const double bytes = o.width + (model.attention_dropout ? mask + o.width : 0);
  items.push_back({"attention_core", heads, bytes, Scaling::tokens_times_keys, true, false, {"core_attn"}});
}

// The output of attention is the input of the projection; an 8-bit recipe keeps its own copy, and fused attention still
// needs the 16-bit one.
void add_output(Items& items, double width, const ActivationOptions& o) {
  if (o.gemm_input_width == o.width) {
    items.push_back(split("attention_out", width, o.width));
    return;
  }
  if (o.fused_attention) items.push_back(split("attention_core", width, o.width, {"core_attn"}));
  items.push_back(split("attention_out", width, o.gemm_input_width));
}

void add_mla(Items& items, const Model& model, const Mla& mla, const ActivationOptions& o) {
  const double heads = model.attention.heads;
  const double qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  const double compressed = static_cast<double>(mla.q_lora_rank) + mla.kv_lora_rank;
  items.push_back(whole("qkv", model.hidden, o.gemm_input_width, {"layernorm"}));
  items.push_back(whole("mla_compressed", compressed + mla.qk_rope_head_dim, o.width));
  items.push_back(whole("mla_up", compressed, o.gemm_input_width, {"mla_up_proj"}));
  items.push_back(split("attention_core", heads * 2 * qk, o.width, {"mla_up_proj"}));
  items.push_back(
      split("attention_core", heads * mla.v_head_dim, o.width, o.mla_values_stay ? Names{} : Names{"mla_up_proj"}));
  add_scores(items, model, heads, o);
  add_output(items, heads * mla.v_head_dim, o);
}

void add_softmax(Items& items, const Model& model, const Attention& a, const ActivationOptions& o) {
  const double q = static_cast<double>(a.heads) * a.head_dim;
  const double k = static_cast<double>(a.kv_heads) * a.head_dim;
  const double v = a.shared_kv ? 0 : static_cast<double>(a.kv_heads) * a.v_head_dim;
  const double out = static_cast<double>(a.heads) * a.v_head_dim;
  items.push_back(whole("qkv", model.hidden, o.gemm_input_width, {"layernorm"}));
  if (a.low_rank.q_rank > 0) items.push_back(whole("mla_compressed", 2.0 * a.low_rank.q_rank, o.width));
  if (a.qk_norm || a.qk_norm_whole) items.push_back(split("qkv", q + k, o.width));  // before the norm
  items.push_back(split("attention_core", q + k + v, o.width));
  add_scores(items, model, a.heads, o);
  if (a.output_gate) items.push_back(split("attention_out", 2 * out, o.width));  // the gate, and what it multiplies
  add_output(items, out, o);
  if (a.low_rank.output_groups > 0) {
    items.push_back(split("attention_out", static_cast<double>(a.low_rank.output_groups) * a.low_rank.output_rank,
                          o.gemm_input_width));
  }
}

// Projections before and after the convolution, the state at every chunk of 64 tokens, the output before and after its
// norm and gate (flash-linear-attention).
void add_linear(Items& items, const Model& model, const ActivationOptions& o) {
  constexpr double chunk = 64;
  const LinearAttention& l = model.linear;
  const double key = static_cast<double>(l.key_heads) * l.key_head_dim;
  const double value = static_cast<double>(l.value_heads) * l.value_head_dim;
  items.push_back(whole("qkv", model.hidden, o.gemm_input_width, {"layernorm"}));
  items.push_back(split("linear_attention", 2 * key + 2 * value + 2.0 * l.value_heads, o.width));
  if (l.conv_kernel > 0) items.push_back(split("linear_attention", 2 * key + value, o.width));
  items.push_back(split("linear_attention", value * l.key_head_dim / chunk, o.width));
  items.push_back(split("linear_attention", value, o.width));
  items.push_back(split("attention_out", value, o.gemm_input_width, {"gdn_norm_out"}));
}

// The fused Mamba-2 scan keeps its projections, the states between chunks of 256 tokens in fp32, and its output.
void add_mamba(Items& items, const Model& model, const ActivationOptions& o) {
  constexpr double chunk = 256;
  const Mamba2& m = model.mamba;
  const double inner = static_cast<double>(m.heads) * m.head_dim;
  items.push_back(whole("qkv", model.hidden, o.gemm_input_width, {"layernorm"}));
  items.push_back(split("mamba", 2 * inner + 2.0 * m.groups * m.state + m.heads, o.width));
  items.push_back(split("mamba", inner * m.state / chunk, 4));
  items.push_back(split("mamba", inner, o.width));
  items.push_back(split("attention_out", inner, o.gemm_input_width));
}

void add_moe(Items& items, const Model& model, const ActivationOptions& o) {
  const Moe& moe = model.moe;
  const double h = model.hidden;
  const double gates = model.gated_ffn ? 2 : 1;
  const double width = moe.latent > 0 ? moe.latent : h;
  // The norm's output feeds router, shared expert and dispatch. Recomputing the whole MoE block keeps it.
  items.push_back(whole("router", h, o.width, {"layernorm"}));
  items.push_back(whole("router", moe.experts, 4 + 4 + 1, {"moe"}));  // fp32 logits and probabilities, the map
  if (moe.latent > 0) {
    items.push_back(whole("expert_latent", h, o.gemm_input_width, {"moe"}));
    items.push_back(whole("expert_latent", moe.latent, o.gemm_input_width, {"moe"}));  // input of the way back
  }
  items.push_back(routed("experts", width, o.gemm_input_width, false, {"moe"}));
  items.push_back(routed("experts", gates * moe.expert_ffn, o.width, true, {"moe"}));
  items.push_back(routed("expert_act", moe.expert_ffn, o.gemm_input_width, true, {"moe", "moe_act"}));
  items.push_back(routed("permute", 1, 8, false, {"moe"}));  // row of origin and probability
  if (moe.shared_ffn == 0) return;
  if (o.gemm_input_width != o.width) {
    items.push_back(whole("shared_expert", h, o.gemm_input_width, {"layernorm"}));  // a narrow copy of the same
  }
  items.push_back(split("shared_expert", gates * moe.shared_ffn, o.width, {"moe", "shared_experts"}));
  items.push_back(split("shared_expert", moe.shared_ffn, o.gemm_input_width, {"moe", "shared_experts"}));
}

void add_mlp(Items& items, const Model& model, const ActivationOptions& o) {
  items.push_back(whole("mlp", model.hidden, o.gemm_input_width, {"layernorm"}));
  items.push_back(split("mlp", (model.gated_ffn ? 2.0 : 1.0) * model.dense_ffn, o.width, {"mlp"}));
  items.push_back(split("mlp", model.dense_ffn, o.gemm_input_width, {"mlp"}));
}

bool dropped(const ActivationItem& item, const std::vector<std::string>& recompute) {
  return std::any_of(item.freed_by.begin(), item.freed_by.end(), [&](const std::string& module) {
    return std::find(recompute.begin(), recompute.end(), module) != recompute.end();
  });
}

}  // namespace

std::vector<ActivationItem> layer_activations(const Model& model, Layer layer, const ActivationOptions& options) {
  Items items;
  const int post_norms = model.norms_per_layer > 2 ? 1 : 0;  // after each block: its input is kept too
  if (layer.attention != AttentionKind::none) {
    items.push_back(whole("attention_norm", model.hidden, options.width));
    if (has_scores(layer.attention)) {
      if (model.attention.mla) {
        add_mla(items, model, *model.attention.mla, options);
      } else {
        add_softmax(items, model, attention_of(model, layer.attention), options);
      }
    } else if (layer.attention == AttentionKind::linear) {
      add_linear(items, model, options);
    } else {
      add_mamba(items, model, options);
    }
    if (model.hidden_dropout) items.push_back(whole("dropout", model.hidden, mask));
    if (post_norms > 0) items.push_back(whole("attention_norm", model.hidden, options.width));
  }
  if (layer.ffn != FfnKind::none) {
    items.push_back(whole("ffn_norm", model.hidden, options.width));
    if (layer.ffn == FfnKind::moe) {
      add_moe(items, model, options);
    } else {
      add_mlp(items, model, options);
    }
    if (model.hidden_dropout) items.push_back(whole("dropout", model.hidden, mask));
    if (post_norms > 0) items.push_back(whole("ffn_norm", model.hidden, options.width));
  }
  return items;
}

std::vector<ActivationItem> embedding_activations(const Model& model) {
  if (!model.hidden_dropout) return {};
  return {whole("embedding", model.hidden, mask)};
}

std::vector<ActivationItem> head_activations(const Model& model, const ActivationOptions& options) {
  return {whole("final_norm", model.hidden, options.width), whole("logits", model.hidden, options.width),
          split("logits", model.vocab, options.fused_cross_entropy ? options.width : 4)};
}

std::vector<ActivationItem> mtp_activations(const Model& model, const ActivationOptions& options) {
  // Inputs of the two norms, and their joined output, the input of the projection.
  Items items = {whole("mtp", 2.0 * model.hidden, options.width),
                 whole("mtp", 2.0 * model.hidden, options.gemm_input_width)};
  for (ActivationItem& item : layer_activations(model, mtp_layer(model), options)) items.push_back(std::move(item));
  for (ActivationItem& item : head_activations(model, options)) items.push_back(std::move(item));
  return items;
}

Bytes kept_bytes(std::span<const ActivationItem> items, const ActivationShare& share) {
  double sum = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ActivationItem& item = items[i];
    if (share.full_recompute ? i > 0 : dropped(item, share.recompute)) continue;
    double units = share.tokens;
    if (item.scaling == Scaling::routed_rows) units = share.routed_rows;
    if (item.scaling == Scaling::tokens_times_keys) units = share.tokens * share.keys;
    double parts = 1;
    if (item.tp_sharded) parts = item.scaling == Scaling::routed_rows ? share.expert_tp : share.tp;
    if (item.sp_sharded && share.sequence_parallel) parts = share.tp;
    sum += item.elements * item.bytes_per_element * units / parts;
  }
  return Bytes(sum);
}

}  // namespace stepcast::models
