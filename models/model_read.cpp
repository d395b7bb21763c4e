// Reads stepcast's own description of a model.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "models/catalog.h"
#include "sim/base/json_fields.h"

namespace stepcast::models {
namespace {

using Json = nlohmann::ordered_json;

constexpr int max_width = 100'000'000;
constexpr int most_experts = 65'536;
constexpr int max_layers = 100'000;

const std::vector<std::string> attention_names = {"full", "sliding", "chunked", "linear", "mamba2", "none"};
const std::vector<std::string> ffn_names = {"dense", "moe", "none"};
const std::vector<std::string> linear_names = {"gated_delta", "lightning", "kimi_delta"};

void read_mla(JsonFields fields, Attention& attention) {
  Mla mla;
  fields.read("q_lora_rank", mla.q_lora_rank, 0, max_width);
  fields.require("kv_lora_rank");
  fields.read("kv_lora_rank", mla.kv_lora_rank, 1, max_width);
  fields.require("qk_nope_head_dim");
  fields.read("qk_nope_head_dim", mla.qk_nope_head_dim, 1, max_width);
  fields.read("qk_rope_head_dim", mla.qk_rope_head_dim, 0, max_width);
  fields.require("v_head_dim");
  fields.read("v_head_dim", mla.v_head_dim, 1, max_width);
  fields.refuse_unknown();
  attention.mla = mla;
}

Attention read_attention(JsonFields fields, int hidden) {
  Attention a;
  fields.require("heads");
  fields.read("heads", a.heads, 1, max_width);
  if (auto mla = fields.object("mla")) read_mla(std::move(*mla), a);
  if (!a.mla && a.heads > 0) {
    a.kv_heads = a.heads;
    a.head_dim = hidden / a.heads;
    if (!fields.has("head_dim") && hidden % a.heads != 0) {
      fields.fail("heads", fmt::format("heads {} does not divide hidden {}; give head_dim", a.heads, hidden));
    }
    fields.read("kv_heads", a.kv_heads, 1, max_width);
    fields.read("head_dim", a.head_dim, 1, max_width);
    a.v_head_dim = a.head_dim;
    fields.read("v_head_dim", a.v_head_dim, 1, max_width);
    fields.read("qk_norm", a.qk_norm);
    fields.read("qk_norm_whole", a.qk_norm_whole);
    fields.read("output_gate", a.output_gate);
    fields.read("sinks", a.sinks);
    fields.read("shared_kv", a.shared_kv);
    if (auto low = fields.object("low_rank")) {
      low->read("q_rank", a.low_rank.q_rank, 0, max_width);
      low->read("output_groups", a.low_rank.output_groups, 0, max_width);
      low->read("output_rank", a.low_rank.output_rank, 0, max_width);
      low->refuse_unknown();
    }
  }
  fields.read("bias", a.bias);
  fields.read("output_bias", a.output_bias);
  fields.refuse_unknown();
  return a;
}

void read_moe(JsonFields fields, Moe& moe) {
  for (const char* key : {"experts", "top_k", "expert_ffn"}) fields.require(key);
  fields.read("experts", moe.experts, 1, most_experts);
  fields.read("top_k", moe.top_k, 1, max_width);
  fields.read("expert_ffn", moe.expert_ffn, 1, max_width);
  fields.read("shared_ffn", moe.shared_ffn, 0, max_width);
  fields.read("shared_gate", moe.shared_gate);
  fields.read("latent", moe.latent, 0, max_width);
  fields.read("groups", moe.groups, 0, max_width);
  fields.read("top_groups", moe.top_groups, 0, max_width);
  fields.read("router_bias", moe.router_bias);
  fields.read("expert_bias", moe.expert_bias);
  fields.refuse_unknown();
}

void read_linear(JsonFields fields, LinearAttention& linear) {
  if (const auto kind = fields.choice("kind", linear_names)) linear.kind = static_cast<LinearKind>(*kind);
  for (const char* key : {"key_heads", "key_head_dim", "value_heads", "value_head_dim"}) fields.require(key);
  fields.read("key_heads", linear.key_heads, 1, max_width);
  fields.read("key_head_dim", linear.key_head_dim, 1, max_width);
  fields.read("value_heads", linear.value_heads, 1, max_width);
  fields.read("value_head_dim", linear.value_head_dim, 1, max_width);
  fields.read("conv_kernel", linear.conv_kernel, 0, max_width);
  fields.refuse_unknown();
}

void read_mamba(JsonFields fields, Mamba2& mamba) {
  for (const char* key : {"heads", "head_dim", "state", "groups"}) fields.require(key);
  fields.read("heads", mamba.heads, 1, max_width);
  fields.read("head_dim", mamba.head_dim, 1, max_width);
  fields.read("state", mamba.state, 1, max_width);
  fields.read("groups", mamba.groups, 1, max_width);
  fields.read("conv_kernel", mamba.conv_kernel, 1, max_width);
  fields.refuse_unknown();
}

Layer read_kind(JsonFields& fields, Layer kind) {
  if (const auto attention = fields.choice("attention", attention_names)) {
    kind.attention = static_cast<AttentionKind>(*attention);
  }
  if (const auto ffn = fields.choice("ffn", ffn_names)) kind.ffn = static_cast<FfnKind>(*ffn);
  return kind;
}

// "layers": [{"repeat": 3, "ffn": "dense"}, {"repeat": 58, "ffn": "moe"}]
void read_layer_list(JsonFields& fields, Model& model) {
  const Layer usual{AttentionKind::full, model.is_moe() ? FfnKind::moe : FfnKind::dense};
  fields.list("layers", [&](const Json& element, const std::string& pointer) {
    JsonFields entry(fields.document(), element, pointer, fields.errors());
    int repeat = 1;
    entry.read("repeat", repeat, 1, max_layers);
    const Layer kind = read_kind(entry, usual);
    entry.refuse_unknown();
    if (model.layers.size() + static_cast<std::size_t>(repeat) <= max_layers) {
      model.layers.insert(model.layers.end(), static_cast<std::size_t>(repeat), kind);
    }
  });
}

// Megatron's letters: M Mamba, E MoE, * attention, - MLP; each is a layer with one block.
void read_hybrid(JsonFields& fields, Model& model) {
  const auto pattern = fields.text("hybrid_pattern");
  if (!pattern) return;
  for (const char c : *pattern) {
    switch (c) {
      case 'M':
        model.layers.push_back({AttentionKind::mamba2, FfnKind::none});
        break;
      case '*':
        model.layers.push_back({AttentionKind::full, FfnKind::none});
        break;
      case 'E':
        model.layers.push_back({AttentionKind::none, FfnKind::moe});
        break;
      case '-':
        model.layers.push_back({AttentionKind::none, FfnKind::dense});
        break;
      default:
        fields.fail("hybrid_pattern",
                    fmt::format("hybrid_pattern holds '{}'; allowed: M (Mamba), E (MoE), * (attention), "
                                "- (MLP)",
                                c));
        return;
    }
  }
  if (fields.has("layers")) {
    const auto count = fields.integer("layers", 1, max_layers);
    if (count && *count != static_cast<long long>(model.layers.size())) {
      fields.fail("layers", fmt::format("layers is {} but hybrid_pattern has {}; change the pattern", *count,
                                        model.layers.size()));
    }
  }
}

// "layers": 61 with first_dense, moe_interval and attention_pattern.
void read_layer_count(JsonFields& fields, Model& model) {
  const auto count = fields.required_integer("layers", 1, max_layers);
  int first_dense = 0;
  int interval = 1;
  fields.read("first_dense", first_dense, 0, max_layers);
  fields.read("moe_interval", interval, 1, max_layers);
  std::vector<AttentionKind> pattern;
  fields.list("attention_pattern", [&](const Json& element, const std::string& pointer) {
    const auto at = element.is_string()
                        ? std::find(attention_names.begin(), attention_names.end(), element.get<std::string>())
                        : attention_names.end();
    if (at == attention_names.end()) {
      fields.errors().push_back(
          make_error(ErrorCode::invalid,
                     fmt::format("found {}; allowed: full, sliding, chunked, linear, mamba2, none", shown(element)),
                     fields.document().where(pointer)));
      return;
    }
    pattern.push_back(static_cast<AttentionKind>(at - attention_names.begin()));
  });
  if (pattern.empty()) pattern.push_back(AttentionKind::full);
  if (!count) return;
  for (int i = 0; i < static_cast<int>(*count); ++i) {
    const bool moe = model.is_moe() && i >= first_dense && (i + 1) % interval == 0;
    model.layers.push_back(
        {pattern[static_cast<std::size_t>(i) % pattern.size()], moe ? FfnKind::moe : FfnKind::dense});
  }
}

void read_layers(JsonFields& fields, Model& model) {
  const Json* layers = fields.find("layers");
  const bool pattern = fields.has("hybrid_pattern");
  const bool list = layers != nullptr && layers->is_array();
  if (pattern || list) {
    const char* shape = pattern ? "hybrid_pattern" : "a list of layers";
    for (const char* key : {"first_dense", "moe_interval", "attention_pattern"}) {
      if (fields.has(key)) fields.fail(key, fmt::format("{} cannot stand beside {}", key, shape));
    }
  }
  if (pattern) {
    read_hybrid(fields, model);
  } else if (list) {
    read_layer_list(fields, model);
  } else {
    read_layer_count(fields, model);
  }
}

void read_flags(JsonFields& fields, Model& model) {
  fields.read("tied_embeddings", model.tied_embeddings);
  fields.read("gated_ffn", model.gated_ffn);
  fields.read("ffn_bias", model.ffn_bias);
  fields.read("learned_positions", model.learned_positions);
  fields.read("max_positions", model.max_positions, 0, max_width);
  fields.read("layer_norm_bias", model.layer_norm_bias);
  fields.read("norms_per_layer", model.norms_per_layer, 1, 8);
  fields.read("attention_dropout", model.attention_dropout);
  fields.read("hidden_dropout", model.hidden_dropout);
  fields.read("window", model.window, 0, max_width);
  fields.read("mtp_layers", model.mtp_layers, 0, 64);
  fields.read("mtp_shared_weights", model.mtp_shared_weights);
}

Model read_model(JsonFields& fields) {
  Model model;
  fields.read("name", model.name);
  std::string summary;  // for people; belongs to the catalogue
  fields.read("summary", summary);
  model.family = "inline";
  fields.read("family", model.family);
  fields.read("source", model.source);
  fields.require("hidden");
  fields.read("hidden", model.hidden, 1, max_width);
  fields.require("vocab");
  fields.read("vocab", model.vocab, 1, max_width);
  fields.read("dense_ffn", model.dense_ffn, 0, max_width);
  read_flags(fields, model);
  if (auto a = fields.object("attention")) model.attention = read_attention(std::move(*a), model.hidden);
  if (auto a = fields.object("sliding_attention"))
    model.sliding_attention = read_attention(std::move(*a), model.hidden);
  if (auto moe = fields.object("moe")) read_moe(std::move(*moe), model.moe);
  if (auto linear = fields.object("linear")) read_linear(std::move(*linear), model.linear);
  if (auto mamba = fields.object("mamba")) read_mamba(std::move(*mamba), model.mamba);
  read_layers(fields, model);
  if (auto kind = fields.object("mtp_layer")) {
    model.mtp_kind = read_kind(*kind, mtp_layer(model));
    kind->refuse_unknown();
  }
  fields.list("assumptions", [&](const Json& element, const std::string& pointer) {
    if (element.is_string()) {
      model.assumptions.push_back(element.get<std::string>());
    } else {
      fields.errors().push_back(make_error(ErrorCode::invalid,
                                           fmt::format("found {}; a text is expected", shown(element)),
                                           fields.document().where(pointer)));
    }
  });
  fields.refuse_unknown();
  return model;
}

}  // namespace

Result<Model> parse_model(const JsonDocument& document, const Json& value, const std::string& pointer) {
  Errors errors;
  JsonFields fields(document, value, pointer, errors);
  if (!errors.empty()) return errors;
  Model model = read_model(fields);
  if (!errors.empty()) return errors;
  if (const Status valid = validate(model); !valid) {
    errors = valid.errors();
    for (Error& e : errors) e.where = document.where(pointer);
    return errors;
  }
  return model;
}

Result<Model> parse_model_json(std::string_view text, const std::string& file_name) {
  auto document = parse_json(text, file_name);
  if (!document) return document.errors();
  return parse_model(*document, document->root, "");
}

}  // namespace stepcast::models
