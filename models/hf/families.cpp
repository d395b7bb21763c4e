#include "models/hf/families.h"

#include <algorithm>
#include <array>

namespace stepcast::models::hf {
namespace {

Family dense(std::string_view name) {
  Family f;
  f.name = name;
  f.output_bias_follows = true;
  return f;
}

Family moe(std::string_view name, ExpertWidth width = ExpertWidth::moe_intermediate) {
  Family f = dense(name);
  f.moe = true;
  f.expert_width = width;
  return f;
}

template <class Change>
Family with(Family f, Change change) {
  change(f);
  return f;
}

std::vector<Family> gpt_families() {
  const auto gpt = [](Family& f) {
    f.gated = false;
    f.qkv_bias = f.ffn_bias = f.layer_norm_bias = true;
  };
  return {
      with(dense("gpt2"),
           [&](Family& f) {
             gpt(f);
             f.tied = f.learned_positions = true;
           }),
      with(dense("gpt_neox"), gpt),
      with(dense("nemotron"),
           [](Family& f) {
             f.gated = false;
             f.layer_norm_bias = true;
           }),
  };
}

std::vector<Family> gemma_families() {
  const auto gemma = [](Family& f) { f.tied = true; };
  return {
      with(dense("gemma"), gemma),
      with(dense("gemma2"),
           [&](Family& f) {
             gemma(f);
             f.norms = 4;
             f.window = WindowRule::alternate;
           }),
      with(dense("gemma3"),
           [&](Family& f) {
             gemma(f);
             f.norms = 4;
             f.qk_norm = true;
             f.window = WindowRule::five_of_six;
             f.defaults = {{"vocab_size", 262208},
                           {"num_attention_heads", 8},
                           {"num_key_value_heads", 4},
                           {"head_dim", 256},
                           {"sliding_window", 4096}};
           }),
  };
}

std::vector<Family> dense_families() {
  const auto qkv_bias = [](Family& f) {
    f.qkv_bias = true;
    f.output_bias_follows = false;
    f.window = WindowRule::if_switched_on;
  };
  return {
      dense("llama"),
      dense("phi3"),
      dense("ernie4_5"),
      with(dense("mistral"), [](Family& f) { f.window = WindowRule::all; }),
      with(dense("qwen2"), qkv_bias),
      with(dense("mimo"), qkv_bias),
      with(dense("qwen3"),
           [](Family& f) {
             f.qk_norm = true;
             f.window = WindowRule::if_switched_on;
           }),
      with(dense("qwen3_5"), [](Family& f) { f.qk_norm = f.output_gate = true; }),
      with(dense("olmo2"), [](Family& f) { f.qk_norm_whole = true; }),
      with(dense("hunyuan_dense"), [](Family& f) { f.qk_norm = true; }),
  };
}

std::vector<Family> classic_moe_families() {
  constexpr auto intermediate = ExpertWidth::intermediate;
  return {
      with(moe("mixtral", intermediate), [](Family& f) { f.window = WindowRule::all; }),
      with(moe("grok-1", intermediate), [](Family& f) { f.norms = 4; }),
      with(moe("olmoe", intermediate), [](Family& f) { f.qk_norm_whole = true; }),
      with(moe("phimoe", intermediate), [](Family& f) { f.layer_norm_bias = true; }),
      with(moe("qwen2_moe"),
           [](Family& f) {
             f.qkv_bias = f.shared_gate = true;
             f.output_bias_follows = false;
             f.window = WindowRule::if_switched_on;
           }),
      with(moe("qwen3_moe"),
           [](Family& f) {
             f.qk_norm = true;
             f.window = WindowRule::if_switched_on;
           }),
      with(moe("gpt_oss", intermediate),
           [](Family& f) {
             f.qkv_bias = f.sinks = f.router_bias = f.expert_bias = true;
             f.window = WindowRule::alternate;
           }),
      with(moe("llama4", intermediate), [](Family& f) { f.shared_like_routed = true; }),
      with(moe("hunyuan_moe"), [](Family& f) { f.qk_norm = true; }),
      with(moe("ernie4_5_moe"), [](Family& f) { f.router_bias = true; }),
  };
}

std::vector<Family> recent_moe_families() {
  constexpr auto intermediate = ExpertWidth::intermediate;
  const auto gated_delta = [](Family& f) { f.qk_norm = f.output_gate = f.shared_gate = true; };
  const auto glm = [](Family& f) {
    f.output_bias_follows = false;
    f.router_bias = true;
  };
  return {
      with(moe("qwen3_next"), gated_delta),
      with(moe("qwen3_5_moe"), gated_delta),
      moe("deepseek_v2"),
      moe("deepseek_v3"),
      moe("kimi_k2"),
      with(moe("kimi_linear"), [](Family& f) { f.router_bias = true; }),
      with(moe("glm4_moe"), glm),
      with(moe("glm_moe_dsa"), glm),
      with(moe("minimax_m1", intermediate), [](Family& f) { f.linear_lightning = true; }),
      with(moe("minimax_m2", intermediate), [](Family& f) { f.qk_norm_whole = true; }),
      with(moe("minimax_m3"), [](Family& f) { f.qk_norm = true; }),
      with(moe("mimo_v2"), [](Family& f) { f.router_bias = true; }),
      with(moe("nemotron_h"),
           [](Family& f) {
             f.gated = false;
             f.router_bias = true;
           }),
  };
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> list = dense_families();
    for (Family& f : gpt_families()) list.push_back(std::move(f));
    for (Family& f : gemma_families()) list.push_back(std::move(f));
    for (Family& f : classic_moe_families()) list.push_back(std::move(f));
    for (Family& f : recent_moe_families()) list.push_back(std::move(f));
    return list;
  }();
  return all;
}

struct Alias {
  std::string_view spelling;
  std::string_view family;
};

// Other spellings of `model_type`: text parts of multimodal models, remote-code names, successors of one architecture.
constexpr std::array aliases = {
    Alias{"deepseek_v32", "deepseek_v3"},
    Alias{"deepseek_vl_v2", "deepseek_v2"},
    Alias{"ernie4_5_moe_vl", "ernie4_5_moe"},
    Alias{"ernie4_5_vl_moe_text", "ernie4_5_moe"},
    Alias{"gemma3_text", "gemma3"},
    Alias{"glm4_moe_lite", "glm_moe_dsa"},
    Alias{"glm4v_moe", "glm4_moe"},
    Alias{"glm4v_moe_text", "glm4_moe"},
    Alias{"grok", "grok-1"},
    Alias{"hunyuan", "hunyuan_moe"},
    Alias{"hunyuan_v1_dense", "hunyuan_dense"},
    Alias{"hunyuan_v1_moe", "hunyuan_moe"},
    Alias{"kimi_k25", "kimi_k2"},
    Alias{"kimi_k3", "kimi_linear"},
    Alias{"llama4_text", "llama4"},
    Alias{"mimo_v2_flash", "mimo_v2"},
    Alias{"minimax", "minimax_m1"},
    Alias{"minimax_text_01", "minimax_m1"},
    Alias{"MiniMaxM1", "minimax_m1"},
    Alias{"MiniMaxText01", "minimax_m1"},
    Alias{"ministral", "mistral"},
    Alias{"qwen3_5_moe_text", "qwen3_5_moe"},
    Alias{"qwen3_5_text", "qwen3_5"},
    Alias{"qwen3_vl_moe", "qwen3_moe"},
    Alias{"qwen3_vl_moe_text", "qwen3_moe"},
};

constexpr std::array architectures = {
    Alias{"LlamaForCausalLM", "llama"},
    Alias{"MistralForCausalLM", "mistral"},
    Alias{"Qwen2ForCausalLM", "qwen2"},
    Alias{"Qwen3ForCausalLM", "qwen3"},
    Alias{"GPT2LMHeadModel", "gpt2"},
    Alias{"GPTNeoXForCausalLM", "gpt_neox"},
    Alias{"NemotronForCausalLM", "nemotron"},
    Alias{"MixtralForCausalLM", "mixtral"},
    Alias{"Qwen2MoeForCausalLM", "qwen2_moe"},
    Alias{"Qwen3MoeForCausalLM", "qwen3_moe"},
    Alias{"Qwen3NextForCausalLM", "qwen3_next"},
    Alias{"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"},
    Alias{"DeepseekV2ForCausalLM", "deepseek_v2"},
    Alias{"DeepseekV3ForCausalLM", "deepseek_v3"},
    Alias{"DeepseekV32ForCausalLM", "deepseek_v3"},
    Alias{"KimiLinearForCausalLM", "kimi_linear"},
    Alias{"Glm4MoeForCausalLM", "glm4_moe"},
    Alias{"GlmMoeDsaForCausalLM", "glm_moe_dsa"},
    Alias{"GptOssForCausalLM", "gpt_oss"},
    Alias{"Llama4ForConditionalGeneration", "llama4"},
    Alias{"Llama4ForCausalLM", "llama4"},
    Alias{"MiniMaxM1ForCausalLM", "minimax_m1"},
    Alias{"MiniMaxText01ForCausalLM", "minimax_m1"},
    Alias{"MiniMaxForCausalLM", "minimax_m1"},
    Alias{"MiniMaxM2ForCausalLM", "minimax_m2"},
    Alias{"MiniMaxM3ForCausalLM", "minimax_m3"},
    Alias{"MiMoV2FlashForCausalLM", "mimo_v2"},
    Alias{"OlmoeForCausalLM", "olmoe"},
    Alias{"HunYuanMoEV1ForCausalLM", "hunyuan_moe"},
    Alias{"Ernie4_5_MoeForCausalLM", "ernie4_5_moe"},
    Alias{"NemotronHForCausalLM", "nemotron_h"},
    Alias{"PhiMoEForCausalLM", "phimoe"},
};

const Family* by_name(std::string_view name) {
  const auto& all = families();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Family& f) { return f.name == name; });
  return found == all.end() ? nullptr : &*found;
}

template <class Table>
const Family* by_alias(const Table& table, std::string_view spelling) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Alias& a) { return a.spelling == spelling; });
  return found == table.end() ? nullptr : by_name(found->family);
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  const Family* family = by_name(model_type);
  return family != nullptr ? family : by_alias(aliases, model_type);
}

const Family* find_by_architecture(std::string_view architecture) { return by_alias(architectures, architecture); }

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& f : families()) names.emplace_back(f.name);
  for (const Alias& a : aliases) names.emplace_back(a.spelling);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace stepcast::models::hf
