// Writes stepcast's own description of a model: only what differs from the reader's defaults.
#include "models/catalog.h"

namespace stepcast::models {
namespace {

using Json = nlohmann::ordered_json;

void set(Json& json, const char* key, int value) {
  if (value != 0) json[key] = value;
}
void set(Json& json, const char* key, bool value) {
  if (value) json[key] = true;
}

Json attention_json(const Attention& a) {
  Json json;
  json["heads"] = a.heads;
  if (a.mla) {
    Json& mla = json["mla"];
    mla["q_lora_rank"] = a.mla->q_lora_rank;
    mla["kv_lora_rank"] = a.mla->kv_lora_rank;
    mla["qk_nope_head_dim"] = a.mla->qk_nope_head_dim;
    mla["qk_rope_head_dim"] = a.mla->qk_rope_head_dim;
    mla["v_head_dim"] = a.mla->v_head_dim;
  } else {
    json["kv_heads"] = a.kv_heads;
    json["head_dim"] = a.head_dim;
    json["v_head_dim"] = a.v_head_dim;
    set(json, "qk_norm", a.qk_norm);
    set(json, "qk_norm_whole", a.qk_norm_whole);
    set(json, "output_gate", a.output_gate);
    set(json, "sinks", a.sinks);
    set(json, "shared_kv", a.shared_kv);
    if (a.low_rank.q_rank > 0 || a.low_rank.output_groups > 0) {
      Json& low = json["low_rank"];
      low["q_rank"] = a.low_rank.q_rank;
      low["output_groups"] = a.low_rank.output_groups;
      low["output_rank"] = a.low_rank.output_rank;
    }
  }
  set(json, "bias", a.bias);
  set(json, "output_bias", a.output_bias);
  return json;
}

Json moe_json(const Moe& moe) {
  Json json;
  json["experts"] = moe.experts;
  json["top_k"] = moe.top_k;
  json["expert_ffn"] = moe.expert_ffn;
  set(json, "shared_ffn", moe.shared_ffn);
  set(json, "shared_gate", moe.shared_gate);
  set(json, "latent", moe.latent);
  set(json, "groups", moe.groups);
  set(json, "top_groups", moe.top_groups);
  set(json, "router_bias", moe.router_bias);
  set(json, "expert_bias", moe.expert_bias);
  return json;
}

Json linear_json(const LinearAttention& linear) {
  Json json;
  json["kind"] = name(linear.kind);
  json["key_heads"] = linear.key_heads;
  json["key_head_dim"] = linear.key_head_dim;
  json["value_heads"] = linear.value_heads;
  json["value_head_dim"] = linear.value_head_dim;
  set(json, "conv_kernel", linear.conv_kernel);
  return json;
}

Json mamba_json(const Mamba2& mamba) {
  Json json;
  json["heads"] = mamba.heads;
  json["head_dim"] = mamba.head_dim;
  json["state"] = mamba.state;
  json["groups"] = mamba.groups;
  json["conv_kernel"] = mamba.conv_kernel;
  return json;
}

Json layers_json(const std::vector<Layer>& layers) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    Json run;
    run["repeat"] = end - i;
    run["attention"] = name(layers[i].attention);
    run["ffn"] = name(layers[i].ffn);
    runs.push_back(std::move(run));
    i = end;
  }
  return runs;
}

}  // namespace

Json model_to_json(const Model& model) {
  Json json;
  json["name"] = model.name;
  json["family"] = model.family;
  if (!model.source.empty()) json["source"] = model.source;
  json["hidden"] = model.hidden;
  json["vocab"] = model.vocab;
  set(json, "dense_ffn", model.dense_ffn);
  set(json, "tied_embeddings", model.tied_embeddings);
  if (!model.gated_ffn) json["gated_ffn"] = false;
  set(json, "ffn_bias", model.ffn_bias);
  set(json, "learned_positions", model.learned_positions);
  set(json, "max_positions", model.max_positions);
  set(json, "layer_norm_bias", model.layer_norm_bias);
  if (model.norms_per_layer != 2) json["norms_per_layer"] = model.norms_per_layer;
  set(json, "attention_dropout", model.attention_dropout);
  set(json, "hidden_dropout", model.hidden_dropout);
  set(json, "window", model.window);
  if (model.attention.heads > 0) json["attention"] = attention_json(model.attention);
  if (model.sliding_attention) json["sliding_attention"] = attention_json(*model.sliding_attention);
  if (model.is_moe()) json["moe"] = moe_json(model.moe);
  if (model.linear.key_heads > 0) json["linear"] = linear_json(model.linear);
  if (model.mamba.heads > 0) json["mamba"] = mamba_json(model.mamba);
  set(json, "mtp_layers", model.mtp_layers);
  set(json, "mtp_shared_weights", model.mtp_shared_weights);
  if (model.mtp_kind) {
    json["mtp_layer"]["attention"] = name(model.mtp_kind->attention);
    json["mtp_layer"]["ffn"] = name(model.mtp_kind->ffn);
  }
  json["layers"] = layers_json(model.layers);
  if (!model.assumptions.empty()) json["assumptions"] = model.assumptions;
  return json;
}

}  // namespace stepcast::models
