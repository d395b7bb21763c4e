#include "scenarios/megatron/model_arguments.h"

#include <algorithm>

#include <fmt/format.h>

namespace stepcast::scenarios::megatron {
namespace {

using models::AttentionKind;
using models::FfnKind;
using models::Model;

class Writer {
 public:
  explicit Writer(ModelArguments& target) : target_(target) {}

  void flag(const char* name, bool on) {
    if (on) target_.arguments.push_back({name, {}, {}});
  }
  void number(const char* name, int value) { target_.arguments.push_back({name, {std::to_string(value)}, {}}); }
  void positive(const char* name, int value) {
    if (value > 0) number(name, value);
  }
  void text(const char* name, std::string value) { target_.arguments.push_back({name, {std::move(value)}, {}}); }
  void missing(bool there, const char* what) {
    if (there) target_.missing.emplace_back(what);
  }

 private:
  ModelArguments& target_;
};

// An attention layer every n-th is full, the others have a window: n, as --window-attn-skip-freq counts; else 0.
int full_every(const std::vector<bool>& windowed) {
  for (std::size_t n = 2; n <= windowed.size(); ++n) {
    bool fits = true;
    for (std::size_t i = 0; fits && i < windowed.size(); ++i) fits = windowed[i] == ((i + 1) % n != 0);
    if (fits) return static_cast<int>(n);
  }
  return 0;
}

void write_window(const Model& model, Writer& out) {
  std::vector<bool> windowed;
  for (const models::Layer& layer : model.layers) windowed.push_back(layer.attention == AttentionKind::sliding);
  const auto sliding = std::count(windowed.begin(), windowed.end(), true);
  if (sliding == 0) return;
  out.text("--window-size", fmt::format("{},0", model.window));
  if (sliding == model.layer_count()) return;
  const int every = full_every(windowed);
  out.text("--window-attn-skip-freq", every > 0 ? std::to_string(every) : layer_pattern(windowed));
}

void write_mla(const models::Mla& mla, Writer& out) {
  out.flag("--multi-latent-attention", true);
  out.positive("--q-lora-rank", mla.q_lora_rank);
  out.number("--kv-lora-rank", mla.kv_lora_rank);
  out.number("--qk-head-dim", mla.qk_nope_head_dim);
  out.number("--qk-pos-emb-head-dim", mla.qk_rope_head_dim);
  out.number("--v-head-dim", mla.v_head_dim);
  out.flag("--qk-layernorm", true);  // of the compressed queries and keys
}

void write_attention(const Model& model, Writer& out) {
  const models::Attention& a = model.attention;
  out.number("--num-attention-heads", a.heads);
  if (a.mla) {
    write_mla(*a.mla, out);
  } else {
    if (a.kv_heads != a.heads) {
      out.flag("--group-query-attention", true);
      out.number("--num-query-groups", a.kv_heads);
    }
    out.number("--kv-channels", a.head_dim);
    out.missing(a.v_head_dim != a.head_dim, "values of another head dimension than keys");
  }
  out.flag("--qk-layernorm", a.qk_norm);
  out.flag("--attention-output-gate", a.output_gate);
  if (a.sinks) out.text("--softmax-type", "learnable");
  out.missing(a.qk_norm_whole, "a norm of queries and keys over all heads at once");
  out.missing(a.shared_kv, "one projection for keys and values");
  out.missing(a.low_rank.q_rank > 0 || a.low_rank.output_groups > 0, "low-rank projections of attention");
  out.missing(model.sliding_attention.has_value(), "other heads in sliding layers");
  write_window(model, out);
}

// Megatron has one switch for the biases of all linear layers, and one for that of the projections to q, k and v.
void write_biases(const Model& model, Writer& out) {
  const models::Attention& a = model.attention;
  const bool dense = std::any_of(model.layers.begin(), model.layers.end(),
                                 [](const models::Layer& layer) { return layer.ffn == FfnKind::dense; });
  const bool ffn = (!dense || model.ffn_bias) && (!model.is_moe() || model.moe.expert_bias);
  const bool everywhere = a.output_bias && ffn;
  out.flag("--disable-bias-linear", !everywhere);
  out.flag("--add-qkv-bias", !everywhere && a.bias);
  out.missing(everywhere && !a.bias, "no bias of the q, k and v projections beside biases elsewhere");
  out.missing(!everywhere && (a.output_bias || model.ffn_bias || model.moe.expert_bias),
              "biases of some linear layers only");
}

void write_moe(const Model& model, Writer& out) {
  const models::Moe& moe = model.moe;
  out.number("--num-experts", moe.experts);
  out.number("--moe-router-topk", moe.top_k);
  out.number("--moe-ffn-hidden-size", moe.expert_ffn);
  std::vector<bool> experts;
  for (const models::Layer& layer : model.layers) experts.push_back(layer.ffn == FfnKind::moe);
  if (std::count(experts.begin(), experts.end(), false) > 0) out.text("--moe-layer-freq", layer_pattern(experts));
  out.positive("--moe-shared-expert-intermediate-size", moe.shared_ffn);
  out.flag("--moe-shared-expert-gate", moe.shared_gate);
  out.positive("--moe-latent-size", moe.latent);
  out.positive("--moe-router-num-groups", moe.groups);
  out.positive("--moe-router-group-topk", moe.top_groups);
  // With biases in all linear layers the router has one of its own.
  if (moe.router_bias && !moe.expert_bias) {
    out.text("--moe-router-score-function", "sigmoid");
    out.flag("--moe-router-enable-expert-bias", true);
  }
}

void write_kinds(const Model& model, Writer& out) {
  const auto has = [&](auto predicate) { return std::any_of(model.layers.begin(), model.layers.end(), predicate); };
  out.missing(has([](const models::Layer& l) { return l.attention == AttentionKind::linear; }), "linear attention");
  out.missing(has([](const models::Layer& l) { return l.attention == AttentionKind::mamba2; }), "Mamba-2 layers");
  out.missing(has([](const models::Layer& l) { return l.attention == AttentionKind::chunked; }), "chunked attention");
  out.missing(has([](const models::Layer& l) { return l.attention == AttentionKind::none || l.ffn == FfnKind::none; }),
              "layers of a mixer or an FFN alone");
  out.missing(model.norms_per_layer != 2, "norms behind attention and FFN");
}

}  // namespace

ModelArguments model_arguments(const Model& model) {
  ModelArguments made;
  Writer out(made);
  out.number("--num-layers", model.layer_count());
  out.number("--hidden-size", model.hidden);
  // A model of MoE layers only has no dense width; Megatron's scripts then repeat that of the experts.
  out.number("--ffn-hidden-size", model.dense_ffn > 0 ? model.dense_ffn : model.moe.expert_ffn);
  write_attention(model, out);
  out.flag("--swiglu", model.gated_ffn);
  write_biases(model, out);
  if (!model.layer_norm_bias) out.text("--normalization", "RMSNorm");
  out.flag("--untie-embeddings-and-output-weights", !model.tied_embeddings);
  if (!model.learned_positions) out.text("--position-embedding-type", "rope");
  if (model.is_moe()) write_moe(model, out);
  out.positive("--mtp-num-layers", model.mtp_layers);
  out.flag("--mtp-use-repeated-layer", model.mtp_layers > 0 && model.mtp_shared_weights);
  out.missing(model.mtp_layers > 0 && model.mtp_kind.has_value(), "MTP layers of another kind than the last layer");
  write_kinds(model, out);
  return made;
}

}  // namespace stepcast::scenarios::megatron
