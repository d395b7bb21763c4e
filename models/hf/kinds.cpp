// What each layer is: its mixer and its FFN, from the many ways in which configs say so.
#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "models/hf/parts.h"

namespace stepcast::models::hf {
namespace {

int count(const Model& model) { return model.layer_count(); }

Layer& layer(Model& model, int i) { return model.layers[static_cast<std::size_t>(i)]; }

bool kinds_from_names(Config& config, Model& model) {
  const auto names = config.texts("layer_types", count(model));
  if (!names) return config.has("layer_types");
  for (int i = 0; i < count(model); ++i) {
    const std::string& kind = (*names)[static_cast<std::size_t>(i)];
    AttentionKind& mine = layer(model, i).attention;
    if (kind == "full_attention" || kind == "attention") {
      mine = AttentionKind::full;
    } else if (kind == "sliding_attention") {
      mine = AttentionKind::sliding;
    } else if (kind == "chunked_attention") {
      mine = AttentionKind::chunked;
    } else if (kind == "linear_attention") {
      mine = AttentionKind::linear;
    } else {
      config.fail("layer_types", fmt::format("layer_types holds '{}'; supported: full_attention, sliding_attention, "
                                             "chunked_attention, linear_attention",
                                             kind));
      return true;
    }
  }
  return true;
}

// A list of 0 and 1, one a layer.
bool kinds_from_bits(Config& config, Model& model, const char* key, AttentionKind zero, AttentionKind one) {
  if (!config.has(key)) return false;
  if (const auto bits = config.integers(key, count(model), 0, 1)) {
    for (int i = 0; i < count(model); ++i)
      layer(model, i).attention = (*bits)[static_cast<std::size_t>(i)] == 1 ? one : zero;
  }
  return true;
}

bool kinds_from_linear_config(Config& config, Model& model) {
  auto linear = config.text().object("linear_attn_config");
  if (!linear) return false;
  for (Layer& l : model.layers) l.attention = AttentionKind::linear;
  linear->list("full_attn_layers", [&](const nlohmann::ordered_json& element, const std::string& pointer) {
    const double at = element.is_number() ? element.get<double>() : 0;
    if (at >= 1 && at <= count(model) && at == static_cast<int>(at)) {
      layer(model, static_cast<int>(at) - 1).attention = AttentionKind::full;
    } else {
      config.errors().push_back(
          make_error(ErrorCode::invalid,
                     fmt::format("full_attn_layers holds {}; layers count from 1 to {}", shown(element), count(model)),
                     linear->document().where(pointer)));
    }
  });
  // The complement, and the shape, which read_attention takes.
  for (const char* key : {"kda_layers", "head_dim", "num_heads", "short_conv_kernel_size"}) linear->find(key);
  for (const std::string& key : linear->unread()) {
    config.assume(fmt::format("linear_attn_config.{} is not understood and left out", key));
  }
  return true;
}

// Llama-4: layers with rope attend within chunks, those without (every fourth) to everything.
bool kinds_of_llama4(Config& config, Model& model) {
  if (!config.is("llama4")) return false;
  model.window = config.integer({"attention_chunk_size"}, 1, max_width).value_or(0);
  const int interval = config.integer({"no_rope_layer_interval"}, 1, max_layers).value_or(4);
  std::vector<int> rope;
  const auto* listed = config.text().find("no_rope_layers");
  if (listed != nullptr && !listed->empty()) {
    if (const auto bits = config.integers("no_rope_layers", count(model), 0, 1)) rope = *bits;
  } else {
    for (int i = 0; i < count(model); ++i) rope.push_back((i + 1) % interval != 0 ? 1 : 0);
    if (model.window > 0) {
      config.assume(fmt::format(
          "no_rope_layers is absent: every {}th layer attends to everything, the others to chunks", interval));
    }
  }
  if (model.window == 0 || rope.size() != model.layers.size()) return true;
  for (int i = 0; i < count(model); ++i) {
    layer(model, i).attention = rope[static_cast<std::size_t>(i)] == 1 ? AttentionKind::chunked : AttentionKind::full;
  }
  return true;
}

void kinds_from_window(Config& config, Model& model) {
  const int n = count(model);
  switch (config.family().window) {
    case WindowRule::never:
      return;
    case WindowRule::all:
      if (model.window > 0) {
        for (Layer& l : model.layers) l.attention = AttentionKind::sliding;
      }
      return;
    case WindowRule::if_switched_on: {
      const int first = config.integer({"max_window_layers"}, 0, max_layers).value_or(0);
      const bool on = config.flag("use_sliding_window", false);
      if (!on) model.window = 0;
      for (int i = first; i < n && on; ++i) layer(model, i).attention = AttentionKind::sliding;
      return;
    }
    case WindowRule::alternate:
    case WindowRule::five_of_six: {
      const bool alternate = config.family().window == WindowRule::alternate;
      const int every = config.integer({"sliding_window_pattern"}, 1, max_layers).value_or(alternate ? 2 : 6);
      for (int i = 0; i < n; ++i) {
        if ((i + 1) % every != 0) layer(model, i).attention = AttentionKind::sliding;
      }
      if (n > 0)
        config.assume(fmt::format("layer_types is absent: every {} layer is full, the others slide",
                                  every == 2 ? "second" : fmt::format("{}th", every)));
      return;
    }
  }
}

bool kinds_from_lists(Config& config, Model& model) {
  if (kinds_from_linear_config(config, model)) return true;
  if (kinds_from_bits(config, model, "attn_type_list", AttentionKind::linear, AttentionKind::full)) return true;
  if (kinds_from_bits(config, model, "hybrid_layer_pattern", AttentionKind::full, AttentionKind::sliding)) return true;
  const auto interval = config.integer({"full_attention_interval"}, 1, max_layers);
  if (!interval) return false;
  for (int i = 0; i < count(model); ++i) {
    layer(model, i).attention = (i + 1) % *interval == 0 ? AttentionKind::full : AttentionKind::linear;
  }
  return true;
}

bool any_with(const Model& model, AttentionKind kind) {
  return std::any_of(model.layers.begin(), model.layers.end(), [&](const Layer& l) { return l.attention == kind; });
}

// MoE where the config gives a list of layer numbers as text: "4,5,6".
bool moe_from_text_list(Config& config, Model& model) {
  const auto text = config.text().text("moe_layers_enum");
  if (!text) return false;
  for (Layer& l : model.layers) l.ffn = FfnKind::dense;
  const char* at = text->data();
  const char* end = at + text->size();
  while (at < end) {
    int number = -1;
    const auto [next, problem] = std::from_chars(at, end, number);
    if (problem != std::errc() || number < 0 || number >= count(model) || (next < end && *next != ',')) {
      config.fail("moe_layers_enum",
                  fmt::format("moe_layers_enum is '{}'; layer numbers from 0 to {} with commas are expected",
                              text->substr(0, 40), count(model) - 1));
      return true;
    }
    layer(model, number).ffn = FfnKind::moe;
    at = next + 1;
  }
  return true;
}

bool moe_from_lists(Config& config, Model& model) {
  if (config.has("mlp_layer_types")) {
    if (const auto names = config.texts("mlp_layer_types", count(model))) {
      for (int i = 0; i < count(model); ++i) {
        const std::string& kind = (*names)[static_cast<std::size_t>(i)];
        if (kind != "dense" && kind != "sparse" && kind != "moe") {
          config.fail("mlp_layer_types", fmt::format("mlp_layer_types holds '{}'; allowed: dense, sparse", kind));
          break;
        }
        layer(model, i).ffn = kind == "dense" ? FfnKind::dense : FfnKind::moe;
      }
    }
    // The same said twice.
    config.ignore({"first_k_dense_replace", "moe_layer_freq"});
    return true;
  }
  const auto* frequency = config.text().find("moe_layer_freq");
  if (frequency != nullptr && frequency->is_array()) {
    if (const auto bits = config.integers("moe_layer_freq", count(model), 0, 1)) {
      for (int i = 0; i < count(model); ++i) {
        layer(model, i).ffn = (*bits)[static_cast<std::size_t>(i)] == 1 ? FfnKind::moe : FfnKind::dense;
      }
    }
    return true;
  }
  const auto* listed = config.text().find("moe_layers");  // Llama-4
  if (listed != nullptr && !listed->empty()) {
    if (const auto numbers = config.integers("moe_layers", -1, 0, std::max(0, count(model) - 1))) {
      for (Layer& l : model.layers) l.ffn = FfnKind::dense;
      for (const int i : *numbers) {
        if (i < count(model)) layer(model, i).ffn = FfnKind::moe;
      }
      config.ignore({"interleave_moe_layer_step"});
      return true;
    }
  }
  return moe_from_text_list(config, model);
}

}  // namespace

void read_attention_kinds(Config& config, Model& model) {
  const auto window = config.integer({"sliding_window", "sliding_window_size"}, 1, max_width);
  if (window && config.family().window != WindowRule::if_switched_on) model.window = *window;
  if (window && config.flag("use_sliding_window", false)) model.window = *window;
  const bool chunked = kinds_of_llama4(config, model);
  if (kinds_from_names(config, model)) {
    config.ignore({"full_attention_interval", "sliding_window_pattern", "max_window_layers", "attn_type_list"});
    if (!any_with(model, AttentionKind::sliding) && !any_with(model, AttentionKind::chunked)) model.window = 0;
    if (any_with(model, AttentionKind::sliding) && window) model.window = *window;
  } else if (!chunked && !kinds_from_lists(config, model)) {
    kinds_from_window(config, model);
  }
  if (any_with(model, AttentionKind::sliding) && model.window == 0) {
    model.window = config.required({"sliding_window"}, 1, max_width);
  }
  if (any_with(model, AttentionKind::linear) && model.linear.key_heads == 0) {
    config.required({"linear_num_key_heads"}, 1, max_width);
  }
}

void read_ffn_kinds(Config& config, Model& model) {
  if (!config.family().moe) return;
  if (moe_from_lists(config, model)) return;
  const int n = count(model);
  const int first = config.integer({"first_k_dense_replace", "moe_layer_num_skipped"}, 0, max_layers).value_or(0);
  const int frequency = config.integer({"moe_layer_freq"}, 1, max_layers).value_or(1);
  // Qwen, Llama-4, ERNIE: MoE where (i + 1) % step == 0.
  const int step =
      config.integer({"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"}, 1, max_layers)
          .value_or(1);
  const int start = config.integer({"moe_layer_start_index"}, 0, max_layers).value_or(0);
  const int end_key = config.integer({"moe_layer_end_index"}, -1, max_layers).value_or(-1);
  const int end = end_key < 0 ? n - 1 : end_key;
  const auto listed = config.integers("mlp_only_layers", -1, 0, max_layers);
  const std::set<int> dense_only = listed ? std::set<int>(listed->begin(), listed->end()) : std::set<int>{};
  for (int i = 0; i < n; ++i) {
    const bool moe =
        i >= first && i % frequency == 0 && (i + 1) % step == 0 && i >= start && i <= end && dense_only.count(i) == 0;
    layer(model, i).ffn = moe ? FfnKind::moe : FfnKind::dense;
  }
}

bool read_hybrid_pattern(Config& config, Model& model) {
  if (!config.is("nemotron_h")) return false;
  std::string letters;
  if (const auto blocks = config.texts("layers_block_type", count(model))) {
    for (const std::string& block : *blocks) {
      letters += block == "mamba"       ? 'M'
                 : block == "attention" ? '*'
                 : block == "moe"       ? 'E'
                 : block == "mlp"       ? '-'
                                        : '?';
    }
    config.ignore({"hybrid_override_pattern"});
  } else if (const auto pattern = config.text().required_text("hybrid_override_pattern")) {
    letters = *pattern;
  } else {
    return true;
  }
  if (static_cast<int>(letters.size()) != count(model)) {
    config.fail("hybrid_override_pattern",
                fmt::format("hybrid_override_pattern has {} letters but num_hidden_layers is {}", letters.size(),
                            count(model)));
    return true;
  }
  for (int i = 0; i < count(model); ++i) {
    switch (letters[static_cast<std::size_t>(i)]) {
      case 'M':
        layer(model, i) = {AttentionKind::mamba2, FfnKind::none};
        break;
      case '*':
        layer(model, i) = {AttentionKind::full, FfnKind::none};
        break;
      case 'E':
        layer(model, i) = {AttentionKind::none, FfnKind::moe};
        break;
      case '-':
        layer(model, i) = {AttentionKind::none, FfnKind::dense};
        break;
      default:
        config.fail("hybrid_override_pattern",
                    fmt::format("the pattern holds '{}'; allowed: M (Mamba), E (MoE), * (attention), - (MLP)",
                                letters[static_cast<std::size_t>(i)]));
        return true;
    }
  }
  return true;
}

}  // namespace stepcast::models::hf
