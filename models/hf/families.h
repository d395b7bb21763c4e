// The Hugging Face model families that are imported, and what their modelling code does without saying so in the
// config. Sources: transformers' modelling files and the releases' own (`trust_remote_code`) files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast::models::hf {

enum class ExpertWidth : unsigned char {
  moe_intermediate,  // `moe_intermediate_size`
  intermediate,      // `intermediate_size` is the expert's width
};

// How `sliding_window` is spread over the layers where no list says so.
enum class WindowRule : unsigned char {
  never,           // the key has no effect
  all,             // every layer
  if_switched_on,  // Qwen: `use_sliding_window`, layers from `max_window_layers` on
  alternate,       // first of two slides (gpt-oss, Gemma-2)
  five_of_six,     // every sixth is full (Gemma-3), or as `sliding_window_pattern` says
};

struct Family {
  std::string_view name;
  bool moe = false;  // the family has experts; a dense family with expert keys is an error
  ExpertWidth expert_width = ExpertWidth::moe_intermediate;
  WindowRule window = WindowRule::never;
  bool qkv_bias = false;             // without `attention_bias` in the config
  bool output_bias_follows = false;  // `attention_bias` covers the output projection too
  bool qk_norm = false;
  bool qk_norm_whole = false;
  bool output_gate = false;
  bool sinks = false;
  bool shared_gate = false;         // a 1 x hidden gate on the shared expert
  bool shared_like_routed = false;  // one implicit shared expert of width `intermediate_size` (Llama-4)
  bool router_bias = false;
  bool expert_bias = false;
  bool gated = true;
  bool ffn_bias = false;
  bool layer_norm_bias = false;
  bool tied = false;  // when no level of the config says it
  bool learned_positions = false;
  int norms = 2;
  bool linear_lightning = false;
  // Defaults of the configuration class for keys that releases leave out.
  std::vector<std::pair<std::string_view, int>> defaults;
};

// By `model_type` or one of its spellings; null if unknown.
[[nodiscard]] const Family* find_family(std::string_view model_type);
// By the class name in `architectures`.
[[nodiscard]] const Family* find_by_architecture(std::string_view architecture);
// Every `model_type` that is known, sorted.
[[nodiscard]] std::vector<std::string> family_names();

}  // namespace stepcast::models::hf
