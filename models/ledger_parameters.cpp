#include "models/ledger.h"

namespace stepcast::models {
namespace {

double norm(const Model& model, double width) { return model.layer_norm_bias ? 2 * width : width; }

void add_mla(LayerParameters& sum, const Model& model, const Mla& mla) {
  const double h = model.hidden;
  const double heads = model.attention.heads;
  const double qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  sum.replicated += h * (mla.kv_lora_rank + mla.qk_rope_head_dim) + mla.kv_lora_rank;  // down-projection and its norm
  if (mla.q_lora_rank > 0) {
    sum.replicated += h * mla.q_lora_rank + mla.q_lora_rank;
    sum.attention_tp += mla.q_lora_rank * heads * qk;
  } else {
    sum.attention_tp += h * heads * qk;
  }
  sum.attention_tp += mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim);
  sum.attention_tp += heads * mla.v_head_dim * h;
  if (model.attention.bias) {
    sum.replicated += (mla.q_lora_rank > 0 ? mla.q_lora_rank : 0) + mla.kv_lora_rank + mla.qk_rope_head_dim;
  }
  if (model.attention.output_bias) sum.replicated += h;
}

void add_softmax(LayerParameters& sum, const Model& model, const Attention& a) {
  const double h = model.hidden;
  const double q_width = static_cast<double>(a.heads) * a.head_dim * (a.output_gate ? 2 : 1);
  const double k_width = static_cast<double>(a.kv_heads) * a.head_dim;
  const double v_width = a.shared_kv ? 0 : static_cast<double>(a.kv_heads) * a.v_head_dim;
  const double out_width = static_cast<double>(a.heads) * a.v_head_dim;
  if (a.low_rank.q_rank > 0) {
    sum.replicated += h * a.low_rank.q_rank + a.low_rank.q_rank;
    sum.attention_tp += a.low_rank.q_rank * q_width;
  } else {
    sum.attention_tp += h * q_width;
  }
  sum.attention_tp += h * (k_width + v_width);
  sum.attention_tp += a.low_rank.output_groups > 0 ? (out_width + a.low_rank.output_groups * h) * a.low_rank.output_rank
                                                   : out_width * h;
  if (a.bias) sum.attention_tp += q_width + k_width + v_width;
  if (a.output_bias) sum.replicated += h;
  if (a.sinks) sum.attention_tp += a.heads;
  if (a.qk_norm_whole) {
    sum.attention_tp += static_cast<double>(a.heads + a.kv_heads) * a.head_dim;
  } else if (a.qk_norm) {
    sum.replicated += 2.0 * a.head_dim;
  }
}

void add_linear(LayerParameters& sum, const Model& model) {
  const LinearAttention& l = model.linear;
  const double h = model.hidden;
  const double key = static_cast<double>(l.key_heads) * l.key_head_dim;
  const double value = static_cast<double>(l.value_heads) * l.value_head_dim;
  sum.attention_tp += h * (2 * key + value) + value * h + l.conv_kernel * (2 * key + value);
  switch (l.kind) {
    case LinearKind::gated_delta:  // gate z; beta and decay projections, decay rates and their bias; a norm a head
      sum.attention_tp += h * value + h * 2 * l.value_heads + 2.0 * l.value_heads;
      sum.replicated += l.value_head_dim;
      break;
    case LinearKind::lightning:  // output gate and a norm over all heads
      sum.attention_tp += h * value + value;
      break;
    case LinearKind::kimi_delta:  // both gates through head_dim, beta, decay rates and biases, a norm a head
      sum.replicated += h * (l.key_head_dim + l.value_head_dim) + l.value_head_dim;
      sum.attention_tp += l.key_head_dim * key + l.value_head_dim * value + h * l.value_heads + l.value_heads + key;
      break;
  }
}

void add_mamba(LayerParameters& sum, const Model& model) {
  const Mamba2& m = model.mamba;
  const double h = model.hidden;
  const double inner = static_cast<double>(m.heads) * m.head_dim;
  const double convolved = inner + 2.0 * m.groups * m.state;
  sum.attention_tp += h * (inner + convolved + m.heads) + inner * h;
  sum.attention_tp += convolved * (m.conv_kernel + 1) + 3.0 * m.heads + inner;  // conv and bias; A, D, dt bias; norm
}

void add_moe(LayerParameters& sum, const Model& model) {
  const Moe& moe = model.moe;
  const double h = model.hidden;
  const double matrices = model.gated_ffn ? 3 : 2;
  const double width = moe.latent > 0 ? moe.latent : h;
  const double expert_bias = moe.expert_bias ? (matrices - 1) * moe.expert_ffn + width : 0;
  sum.replicated += h * moe.experts + (moe.router_bias ? moe.experts : 0);
  if (moe.latent > 0) sum.replicated += 2 * h * moe.latent;
  if (moe.shared_gate) sum.replicated += h;
  sum.routed_experts += moe.experts * (matrices * width * moe.expert_ffn + expert_bias);
  sum.mlp_tp += matrices * h * moe.shared_ffn;
}

}  // namespace

LayerParameters layer_parameters(const Model& model, Layer layer) {
  LayerParameters sum;
  if (has_scores(layer.attention)) {
    if (model.attention.mla) {
      add_mla(sum, model, *model.attention.mla);
    } else {
      add_softmax(sum, model, attention_of(model, layer.attention));
    }
  } else if (layer.attention == AttentionKind::linear) {
    add_linear(sum, model);
  } else if (layer.attention == AttentionKind::mamba2) {
    add_mamba(sum, model);
  }
  const double h = model.hidden;
  if (layer.ffn == FfnKind::moe) {
    add_moe(sum, model);
  } else if (layer.ffn == FfnKind::dense) {
    const double matrices = model.gated_ffn ? 3 : 2;
    sum.mlp_tp += matrices * h * model.dense_ffn;
    if (model.ffn_bias) {
      sum.mlp_tp += (matrices - 1) * model.dense_ffn;
      sum.replicated += h;
    }
  }
  // `norms_per_layer` speaks of a layer with both blocks; a block alone has half of them.
  const int blocks = (layer.attention == AttentionKind::none ? 0 : 1) + (layer.ffn == FfnKind::none ? 0 : 1);
  sum.replicated += norm(model, h) * model.norms_per_layer * blocks / 2;
  return sum;
}

LayerParameters layer_parameters(const Model& model, int layer) {
  STEPCAST_ASSERT(layer >= 0 && layer < model.layer_count());
  return layer_parameters(model, model.layers[static_cast<std::size_t>(layer)]);
}

LayerParameters mtp_parameters(const Model& model) {
  LayerParameters sum = layer_parameters(model, mtp_layer(model));
  const double h = model.hidden;
  sum.attention_tp += 2 * h * h;
  sum.replicated += 3 * norm(model, h);
  return sum;
}

double final_norm_parameters(const Model& model) { return norm(model, model.hidden); }

ParameterAccount parameters(const Model& model) {
  ParameterAccount account;
  const double h = model.hidden;
  account.embedding = h * model.vocab + (model.learned_positions ? h * model.max_positions : 0);
  account.output = model.tied_embeddings ? 0 : h * model.vocab;
  account.dense = final_norm_parameters(model);
  for (const Layer& layer : model.layers) {
    const LayerParameters sum = layer_parameters(model, layer);
    account.dense += sum.total() - sum.routed_experts;
    account.routed_experts += sum.routed_experts;
  }
  const double visited = model.moe.experts > 0 ? static_cast<double>(model.moe.top_k) / model.moe.experts : 0;
  account.active = account.embedding + account.output + account.dense + account.routed_experts * visited;
  if (model.mtp_layers > 0) {
    account.mtp = mtp_parameters(model).total() * (model.mtp_shared_weights ? 1 : model.mtp_layers);
  }
  return account;
}

}  // namespace stepcast::models
