#include <algorithm>

#include <fmt/format.h>

#include "models/hf/parts.h"

namespace stepcast::models::hf {
namespace {

bool read_tie(Config& config) {
  if (const auto inner = config.text().boolean("tie_word_embeddings")) return *inner;
  if (config.outer()) {
    if (const auto level = config.outer()->boolean("tie_word_embeddings")) return *level;
  }
  config.assume(fmt::format("tie_word_embeddings is absent: {}, as {} does", config.family().tied ? "tied" : "not tied",
                            config.family().name));
  return config.family().tied;
}

}  // namespace

void read_body(Config& config, Model& model) {
  const Family& family = config.family();
  const int layers = config.required({"num_hidden_layers", "n_layer", "num_layers"}, 1, max_layers);
  model.layers.assign(static_cast<std::size_t>(std::max(layers, 0)), Layer{});
  model.hidden = config.required({"hidden_size", "n_embd"}, 1, max_width);
  model.vocab = config.required({"vocab_size"}, 1, max_width);
  model.tied_embeddings = read_tie(config);
  model.gated_ffn = family.gated;
  model.ffn_bias = config.flag("mlp_bias", family.ffn_bias);
  model.layer_norm_bias = family.layer_norm_bias;
  model.norms_per_layer = family.norms;
  model.learned_positions = family.learned_positions;
  model.max_positions = config.integer({"max_position_embeddings", "n_positions", "n_ctx"}, 1, max_width).value_or(0);
  if (family.learned_positions && model.max_positions == 0) {
    config.fail("n_positions", fmt::format("key n_positions is missing; {} learns its positions", family.name));
  }
  const double attention_dropout =
      std::max(config.number("attention_dropout", 0, 1, 0), config.number("attn_pdrop", 0, 1, 0));
  model.attention_dropout = attention_dropout > 0;
  for (const char* key : {"hidden_dropout", "resid_pdrop", "embd_pdrop", "hidden_dropout_prob", "dropout"}) {
    if (config.number(key, 0, 1, 0) > 0) model.hidden_dropout = true;
  }
}

void read_mtp(Config& config, Model& model) {
  int modules = config.integer({"num_nextn_predict_layers", "mtp_num_hidden_layers"}, 0, 64).value_or(0);
  const auto count = config.integer({"num_mtp_modules"}, 0, 64);
  const auto depth = config.integer({"mtp_transformer_layers"}, 0, 64);
  if (count && config.flag("use_mtp", true)) {
    modules = *count * depth.value_or(1);
    if (depth.value_or(1) > 1) {
      config.assume(
          fmt::format("{} MTP modules of {} layers are counted as {} modules of one", *count, *depth, modules));
    }
  }
  if (config.is("ernie4_5_moe") && modules > 0) {
    config.assume("num_nextn_predict_layers is left out: ERNIE names it but ships no such weights");
    modules = 0;
  }
  if (const auto pattern = config.text().text("mtp_hybrid_override_pattern")) {
    if (*pattern != "*E") {
      config.fail("mtp_hybrid_override_pattern",
                  fmt::format("mtp_hybrid_override_pattern is '{}'; supported: '*E' (attention, then MoE)", *pattern),
                  ErrorCode::unsupported);
    }
  }
  if (modules > 0 && config.is("mimo_v2")) {
    model.mtp_kind = Layer{AttentionKind::sliding, FfnKind::dense};
    config.assume("MTP layers of MiMo-V2 are counted as sliding attention with a dense FFN");
  }
  model.mtp_layers = modules;
}

}  // namespace stepcast::models::hf
