#include <fmt/format.h>

#include "models/hf/parts.h"

namespace stepcast::models::hf {
namespace {

void read_mla(Config& config, Attention& attention) {
  Mla mla;
  mla.kv_lora_rank = config.integer({"kv_lora_rank"}, 1, max_width).value_or(0);
  mla.q_lora_rank = config.integer({"q_lora_rank"}, 0, max_width).value_or(0);
  mla.qk_nope_head_dim = config.required({"qk_nope_head_dim"}, 1, max_width);
  mla.qk_rope_head_dim = config.required({"qk_rope_head_dim"}, 0, max_width);
  mla.v_head_dim = config.required({"v_head_dim"}, 1, max_width);
  // Written beside MLA without meaning: kv heads, a head_dim that is the rope part, the sum of both parts.
  config.ignore({"num_key_value_heads", "head_dim", "qk_head_dim"});
  attention.mla = mla;
}

void read_heads(Config& config, Model& model, Attention& a) {
  const bool always_mha = config.is("gpt2") || config.is("gpt_neox");
  const auto kv = config.integer({"num_key_value_heads"}, 1, max_width);
  if (!kv && !always_mha) {
    int otherwise = a.heads;
    for (const auto& [key, value] : config.family().defaults) {
      if (key == "num_key_value_heads") otherwise = value;
    }
    config.assume(fmt::format("num_key_value_heads is absent: {}",
                              otherwise == a.heads ? "as many as heads" : std::to_string(otherwise)));
    a.kv_heads = otherwise;
  } else {
    a.kv_heads = kv.value_or(a.heads);
  }
  const auto head_dim = config.integer({"head_dim", "attention_head_dim"}, 1, max_width);
  if (head_dim) {
    a.head_dim = *head_dim;
  } else if (config.is("gemma3")) {
    a.head_dim = config.required({"head_dim"}, 1, max_width);
  } else if (a.heads > 0 && model.hidden % a.heads == 0) {
    a.head_dim = model.hidden / a.heads;
  } else if (a.heads > 0 && model.hidden > 0) {
    config.fail("num_attention_heads",
                fmt::format("num_attention_heads {} does not divide hidden_size {}; head_dim is needed", a.heads,
                            model.hidden));
  }
  a.v_head_dim = config.integer({"v_head_dim"}, 1, max_width).value_or(a.head_dim);
}

void read_details(Config& config, Attention& a) {
  const Family& family = config.family();
  const auto attention_bias = config.text().boolean("attention_bias");
  const bool qkv_key = config.text().boolean("qkv_bias").value_or(family.qkv_bias);
  const bool use_bias = config.flag("use_bias", false);
  a.bias = attention_bias.value_or(qkv_key) || use_bias;
  a.output_bias = a.bias && family.output_bias_follows;
  if (a.mla) return;
  // Llama-4 normalises q and k without weights.
  const bool weightless = config.is("llama4");
  const bool use = config.flag("use_qk_norm", family.qk_norm || family.qk_norm_whole);
  const std::string kind = config.text().text("qk_norm_type").value_or("");
  const bool whole = family.qk_norm_whole || kind == "per_layer";
  a.qk_norm = use && !whole && !weightless;
  a.qk_norm_whole = use && whole && !weightless;
  a.output_gate = config.flag("attn_output_gate", family.output_gate);
  a.sinks = family.sinks;
}

// MiMo-V2 gives its sliding layers their own heads.
void read_sliding(Config& config, Model& model) {
  const auto heads = config.integer({"swa_num_attention_heads"}, 1, max_width);
  const auto kv = config.integer({"swa_num_key_value_heads"}, 1, max_width);
  const auto qk = config.integer({"swa_head_dim"}, 1, max_width);
  const auto v = config.integer({"swa_v_head_dim"}, 1, max_width);
  if (!heads && !kv && !qk && !v) return;
  Attention a = model.attention;
  a.heads = heads.value_or(a.heads);
  a.kv_heads = kv.value_or(a.kv_heads);
  a.head_dim = qk.value_or(a.head_dim);
  a.v_head_dim = v.value_or(a.v_head_dim);
  a.sinks = config.flag("add_swa_attention_sink_bias", a.sinks);
  model.sliding_attention = a;
}

void read_linear(Config& config, Model& model) {
  LinearAttention& linear = model.linear;
  if (config.family().linear_lightning) {
    linear.kind = LinearKind::lightning;
    linear.key_heads = linear.value_heads = model.attention.heads;
    linear.key_head_dim = linear.value_head_dim = model.attention.head_dim;
    return;
  }
  if (auto kda = config.text().object("linear_attn_config")) {
    linear.kind = LinearKind::kimi_delta;
    kda->require("num_heads");
    kda->require("head_dim");
    kda->read("num_heads", linear.key_heads, 1, max_width);
    kda->read("head_dim", linear.key_head_dim, 1, max_width);
    kda->read("short_conv_kernel_size", linear.conv_kernel, 0, max_width);
    linear.value_heads = linear.key_heads;
    linear.value_head_dim = linear.key_head_dim;
    return;
  }
  linear.key_heads = config.integer({"linear_num_key_heads"}, 1, max_width).value_or(0);
  if (linear.key_heads == 0) return;
  linear.key_head_dim = config.required({"linear_key_head_dim"}, 1, max_width);
  linear.value_heads = config.required({"linear_num_value_heads"}, 1, max_width);
  linear.value_head_dim = config.required({"linear_value_head_dim"}, 1, max_width);
  linear.conv_kernel = config.integer({"linear_conv_kernel_dim"}, 0, max_width).value_or(0);
}

void read_mamba(Config& config, Model& model) {
  if (!config.is("nemotron_h")) return;
  Mamba2& mamba = model.mamba;
  mamba.heads = config.required({"mamba_num_heads"}, 1, max_width);
  mamba.head_dim = config.required({"mamba_head_dim"}, 1, max_width);
  mamba.state = config.required({"ssm_state_size"}, 1, max_width);
  mamba.groups = config.required({"n_groups", "mamba_n_groups"}, 1, max_width);
  mamba.conv_kernel = config.integer({"conv_kernel", "mamba_d_conv"}, 1, max_width).value_or(mamba.conv_kernel);
}

}  // namespace

void read_attention(Config& config, Model& model) {
  Attention& a = model.attention;
  a.heads = config.required({"num_attention_heads", "n_head"}, 1, max_width);
  const bool mla = config.has("kv_lora_rank") && config.flag("use_mla", true);
  if (mla) {
    read_mla(config, a);
  } else {
    for (const char* key : {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"}) {
      if (config.has(key)) {
        config.assume(fmt::format("{} is left out: without kv_lora_rank, or with use_mla false, MLA is off", key));
      }
    }
    read_heads(config, model, a);
  }
  read_details(config, a);
  if (!mla) read_sliding(config, model);
  read_linear(config, model);
  read_mamba(config, model);
}

}  // namespace stepcast::models::hf
