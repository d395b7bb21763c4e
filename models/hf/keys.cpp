// Keys that are not part of the shape: refused where they would change the answer, ignored where they are known to
// change nothing that stepcast counts, named as an assumption otherwise.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "models/hf/parts.h"

namespace stepcast::models::hf {
namespace {

using Json = nlohmann::ordered_json;

// Tokens, generation, initialisation, numerics, routing arithmetic, positions, storage: no FLOPs, bytes or parameters
// that the ledger counts.
constexpr std::array harmless_names = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "activation_function",
    "add_classification_head",
    "add_cross_attention",
    "architectures",
    "attention_value_scale",
    "attn_temperature_tuning",
    "auto_map",
    "aux_loss_alpha",
    "block_size",
    "chunk_size",
    "class_num",
    "chunk_size_feed_forward",
    "diversity_penalty",
    "dense_list",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "ep_size",
    "expand",
    "expert_dtype",
    "final_logit_softcapping",
    "group_limited_greedy",
    "gradient_checkpointing",
    "hidden_act",
    "hidden_activation",
    "id2label",
    "initializer_range",
    "initializer_factor",
    "initial_context_length",
    "is_decoder",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "lm_head_bias",
    "logits_soft_cap",
    "mamba_hidden_act",
    "mamba_proj_bias",
    "mamba_ssm_cache_dtype",
    "max_length",
    "mla_use_nope",
    "mlp_hidden_act",
    "model_type",
    "moe_aux_loss_coeff",
    "moe_capacity",
    "moe_drop_tokens",
    "moe_multimodal_paired_experts",
    "moe_random_routing_dropped_token",
    "moe_renormalize",
    "moe_router_activation_func",
    "moe_router_dtype",
    "moe_use_hard_gate",
    "norm_eps",
    "norm_topk_prob",
    "norm_type",
    "num_logits_to_keep",
    "num_media_embeds",
    "org_vocab_size",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "partial_rotary_factor",
    "pool_type",
    "position_embedding_xdrope",
    "postnorm",
    "pretraining_tp",
    "problem_type",
    "qk_norm_eps",
    "quantization_config",
    "query_pre_attn_scalar",
    "attn_logit_softcapping",
    "reorder_and_upcast_attn",
    "rescale_prenorm_residual",
    "residual_in_fp32",
    "return_dict",
    "rms_norm_eps",
    "routed_scaling_factor",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "input_jitter_noise",
    "routing_bias_update_rate",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "scoring_func",
    "score_func",
    "seq_aux",
    "skip_cls_token",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "swiglu_limit",
    "floor_scale",
    "shared_moe_mode",
    "swiglu_alpha",
    "task_specific_params",
    "time_step_floor",
    "time_step_limit",
    "time_step_max",
    "time_step_min",
    "time_step_rank",
    "torch_dtype",
    "transformers_version",
    "transformers.js_config",
    "use_cache",
    "use_conv_bias",
    "use_grouped_topk",
    "use_mamba_kernels",
    "use_qk_l2_norm",
    "use_rmsnorm",
    "use_rotary_pos_emb",
    "moe_router_enable_expert_bias",
    "xdrope_section",
    "mamba_ssm_dtype",
    "max_window_layers",
    "use_sliding_window",
    "attention_chunk_size",
    "moe_multimodal_dispatch_use_allgather",
    "moe_multimodal_dispatch",
    "layernorm_epsilon",
    "norm_epsilon",
    "rotary_pct",
    "rotary_emb_base",
    "use_parallel_residual",
    "classifier_dropout",
    "cla_share_factor",
    "eos_token",
    "rope_parameters",
    "tie_encoder_decoder",
    "num_labels",
    "bos_token",
    "pad_token",
    "model_max_length",
    "seq_length",
    "max_sequence_length",
    "use_routing_bias",
    "partial_rotary_dim",
    "mtp_use_dedicated_embeddings",
    "mtp_loss_scaling_factor",
    "moe_shared_expert_overlap",
    "use_aux_loss_free",
    "z_loss_alpha",
};

constexpr std::array harmless_prefixes = {"rope_",  "rotary_",  "vit_",   "anyres_",    "image_",
                                          "video_", "vision_",  "mm_",    "layernorm_", "swa_rope",
                                          "init_",  "mamba_dt", "mscale", "im_",        "audio_token"};
constexpr std::array harmless_suffixes = {"_id", "_token_index", "_eps", "_token_ids"};

bool harmless(std::string_view key) {
  const auto same = [&](const char* name) { return key == name; };
  const auto begins = [&](const char* prefix) { return key.starts_with(prefix); };
  const auto ends = [&](const char* suffix) { return key.ends_with(suffix); };
  return std::any_of(harmless_names.begin(), harmless_names.end(), same) ||
         std::any_of(harmless_prefixes.begin(), harmless_prefixes.end(), begins) ||
         std::any_of(harmless_suffixes.begin(), harmless_suffixes.end(), ends);
}

// False, zero, an empty list, an empty object: the feature is off.
bool switched_off(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_array() || value.is_object()) return value.empty();
  return value.is_string() && value.get<std::string>().empty();
}

struct Refusal {
  const char* key;
  const char* why;
};

constexpr std::array refusals = {
    Refusal{"use_cla",
            "layers that share keys and values with another layer (cross-layer attention) cannot be expressed"},
    Refusal{"num_kv_shared_layers", "layers that share keys and values with another layer cannot be expressed"},
    Refusal{"compress_ratios",
            "compressed sparse attention (DeepSeek-V4) cannot be expressed; the catalogue's deepseek-v4-flash "
            "and deepseek-v4-pro approximate it and say so"},
    Refusal{"is_encoder_decoder", "encoder-decoder models cannot be expressed; only decoders are"},
    Refusal{"attention_k_eq_v", "keys that serve as values cannot be expressed in this family"},
    Refusal{"hc_mult", "hyper-connections (several residual streams) cannot be expressed"},
    Refusal{"zero_expert_num", "experts without computation cannot be expressed"},
};

// Keys of attention that reads a chosen part of what is before a token, by the spellings of DeepSeek (index_*, and a
// config of an indexer), MiniMax and MiniCPM (sparse_*), Moonshot (moba_*) and native sparse attention (nsa_*).
bool chooses_keys(std::string_view key) {
  constexpr std::array prefixes = {"index_", "indexer", "sparse_att", "sparse_config", "moba", "nsa_", "dsa_"};
  constexpr std::array parts = {"_indexer", "sparse_attention", "sparse_attn", "attention_sparse", "attn_sparse"};
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return key.starts_with(p); }) ||
         std::any_of(parts.begin(), parts.end(), [&](const char* p) { return key.find(p) != std::string_view::npos; });
}

// Sparse attention over a top-k of keys: its scores cost less than full attention, its indexer something more.
void assume_sparse_as_full(Config& config) {
  if (const auto top = config.integer({"index_topk"}, 0, max_width); top.value_or(0) > 0) {
    for (const char* key : {"index_n_heads", "index_head_dim"}) config.integer({key}, 0, max_width);
    config.assume(
        fmt::format("sparse attention (index_topk {}) is counted as full attention; the indexer's weights and "
                    "FLOPs are left out",
                    *top));
    for (const std::string& key : config.text().unread()) {
      if (key.starts_with("index")) config.ignore({key});
    }
  }
  for (const std::string& key : config.text().unread()) {
    if (!chooses_keys(key)) continue;
    const Json* value = config.text().find(key);
    if (value == nullptr || switched_off(*value)) continue;
    config.assume(fmt::format("sparse attention ({}) is counted as full attention; its selection is left out", key));
  }
}

void name_left_out(Config& config, JsonFields& fields, const char* level) {
  for (const std::string& key : fields.unread()) {
    const Json* value = fields.find(key);
    if (key == "vision_config" || key == "audio_config") {
      config.assume(fmt::format("{} is left out: only the text model is counted", key));
      continue;
    }
    if (harmless(key) || value == nullptr || switched_off(*value)) continue;
    if (*level != 0 && config.has(key)) continue;  // the text part says it too
    config.assume(fmt::format("{}{} = {} is not understood and left out", level, key, shown(*value)));
  }
}

}  // namespace

void refuse_unsupported(Config& config) {
  for (const Refusal& refusal : refusals) {
    const Json* value = config.text().find(refusal.key);
    if (value != nullptr && !switched_off(*value) && !(value->is_number() && value->get<double>() == 1)) {
      config.fail(refusal.key, fmt::format("{} is {}: {}", refusal.key, shown(*value), refusal.why),
                  ErrorCode::unsupported);
    }
  }
  assume_sparse_as_full(config);
}

void account_for_unread(Config& config) {
  name_left_out(config, config.text(), "");
  if (config.outer()) name_left_out(config, *config.outer(), "outer level: ");
}

}  // namespace stepcast::models::hf
