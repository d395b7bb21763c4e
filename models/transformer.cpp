#include "models/transformer.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace stepcast::models {
namespace {

constexpr int max_layers = 100'000;
constexpr int max_width = 100'000'000;

// Collects what is wrong, each with the member it concerns.
class Findings {
 public:
  explicit Findings(const std::string& model) : model_(model) {}

  void check(bool good, const std::string& what) {
    if (!good) errors_.push_back(make_error(ErrorCode::invalid, what, model_.empty() ? "model" : "model " + model_));
  }
  void positive(const char* field, int value) {
    check(value > 0 && value <= max_width, fmt::format("{} is {}; allowed: 1 to {}", field, value, max_width));
  }
  void not_negative(const char* field, int value) {
    check(value >= 0 && value <= max_width, fmt::format("{} is {}; allowed: 0 to {}", field, value, max_width));
  }
  Errors take() { return std::move(errors_); }

 private:
  std::string model_;
  Errors errors_;
};

bool any(const Model& model, bool (*predicate)(const Layer&)) {
  return std::any_of(model.layers.begin(), model.layers.end(), predicate);
}

void check_attention(const Attention& attention, Findings& findings) {
  findings.positive("attention.heads", attention.heads);
  if (attention.mla) {
    const Mla& mla = *attention.mla;
    findings.not_negative("attention.mla.q_lora_rank", mla.q_lora_rank);
    findings.positive("attention.mla.kv_lora_rank", mla.kv_lora_rank);
    findings.positive("attention.mla.qk_nope_head_dim", mla.qk_nope_head_dim);
    findings.not_negative("attention.mla.qk_rope_head_dim", mla.qk_rope_head_dim);
    findings.positive("attention.mla.v_head_dim", mla.v_head_dim);
    return;
  }
  findings.positive("attention.kv_heads", attention.kv_heads);
  findings.positive("attention.head_dim", attention.head_dim);
  findings.positive("attention.v_head_dim", attention.v_head_dim);
  if (attention.kv_heads > 0) {
    findings.check(
        attention.heads % attention.kv_heads == 0,
        fmt::format("attention.kv_heads {} must divide attention.heads {}", attention.kv_heads, attention.heads));
  }
  const LowRankProjections& low_rank = attention.low_rank;
  findings.not_negative("attention.low_rank.q_rank", low_rank.q_rank);
  findings.not_negative("attention.low_rank.output_groups", low_rank.output_groups);
  if (low_rank.output_groups > 0) {
    findings.positive("attention.low_rank.output_rank", low_rank.output_rank);
    findings.check(attention.heads % low_rank.output_groups == 0,
                   fmt::format("attention.low_rank.output_groups {} must divide attention.heads {}",
                               low_rank.output_groups, attention.heads));
  }
}

void check_moe(const Moe& moe, Findings& findings) {
  findings.positive("moe.experts", moe.experts);
  findings.positive("moe.expert_ffn", moe.expert_ffn);
  findings.not_negative("moe.shared_ffn", moe.shared_ffn);
  findings.not_negative("moe.latent", moe.latent);
  findings.check(moe.top_k >= 1 && moe.top_k <= moe.experts,
                 fmt::format("moe.top_k is {}; allowed: 1 to the number of experts, {}", moe.top_k, moe.experts));
  findings.check(moe.groups >= 0 && (moe.groups == 0 || moe.experts % moe.groups == 0),
                 fmt::format("moe.groups {} must divide moe.experts {}", moe.groups, moe.experts));
  findings.check(moe.groups == 0 || (moe.top_groups >= 1 && moe.top_groups <= moe.groups),
                 fmt::format("moe.top_groups is {}; allowed: 1 to moe.groups, {}", moe.top_groups, moe.groups));
  if (moe.groups > 0 && moe.top_groups > 0 && moe.experts > 0) {
    const long long reachable = static_cast<long long>(moe.top_groups) * (moe.experts / moe.groups);
    findings.check(moe.top_k <= reachable, fmt::format("moe.top_k {} exceeds the {} experts of moe.top_groups {}",
                                                       moe.top_k, reachable, moe.top_groups));
  }
  findings.check(!moe.shared_gate || moe.shared_ffn > 0, "moe.shared_gate is set without a shared expert");
}

void check_linear(const LinearAttention& linear, Findings& findings) {
  findings.positive("linear.key_heads", linear.key_heads);
  findings.positive("linear.key_head_dim", linear.key_head_dim);
  findings.positive("linear.value_heads", linear.value_heads);
  findings.positive("linear.value_head_dim", linear.value_head_dim);
  findings.not_negative("linear.conv_kernel", linear.conv_kernel);
  if (linear.key_heads > 0) {
    findings.check(
        linear.value_heads % linear.key_heads == 0,
        fmt::format("linear.key_heads {} must divide linear.value_heads {}", linear.key_heads, linear.value_heads));
  }
}

void check_mamba(const Mamba2& mamba, Findings& findings) {
  findings.positive("mamba.heads", mamba.heads);
  findings.positive("mamba.head_dim", mamba.head_dim);
  findings.positive("mamba.state", mamba.state);
  findings.positive("mamba.groups", mamba.groups);
  findings.positive("mamba.conv_kernel", mamba.conv_kernel);
  if (mamba.groups > 0) {
    findings.check(mamba.heads % mamba.groups == 0,
                   fmt::format("mamba.groups {} must divide mamba.heads {}", mamba.groups, mamba.heads));
  }
}

}  // namespace

const Attention& attention_of(const Model& model, AttentionKind kind) {
  return kind == AttentionKind::sliding && model.sliding_attention ? *model.sliding_attention : model.attention;
}

bool has_scores(AttentionKind kind) {
  return kind == AttentionKind::full || kind == AttentionKind::sliding || kind == AttentionKind::chunked;
}

Layer mtp_layer(const Model& model) {
  if (model.mtp_kind) return *model.mtp_kind;
  Layer layer{AttentionKind::full, FfnKind::none};
  for (const Layer& decoder : model.layers) {
    if (decoder.ffn != FfnKind::none) layer.ffn = decoder.ffn;
  }
  return layer;
}

std::string_view name(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::full:
      return "full";
    case AttentionKind::sliding:
      return "sliding";
    case AttentionKind::chunked:
      return "chunked";
    case AttentionKind::linear:
      return "linear";
    case AttentionKind::mamba2:
      return "mamba2";
    case AttentionKind::none:
      return "none";
  }
  return "unknown";
}

std::string_view name(FfnKind kind) {
  switch (kind) {
    case FfnKind::dense:
      return "dense";
    case FfnKind::moe:
      return "moe";
    case FfnKind::none:
      return "none";
  }
  return "unknown";
}

std::string_view name(LinearKind kind) {
  switch (kind) {
    case LinearKind::gated_delta:
      return "gated_delta";
    case LinearKind::lightning:
      return "lightning";
    case LinearKind::kimi_delta:
      return "kimi_delta";
  }
  return "unknown";
}

Status validate(const Model& model) {
  Findings findings(model.name);
  findings.positive("hidden", model.hidden);
  findings.positive("vocab", model.vocab);
  findings.check(!model.layers.empty() && model.layers.size() <= max_layers,
                 fmt::format("{} layers; allowed: 1 to {}", model.layers.size(), max_layers));
  findings.not_negative("dense_ffn", model.dense_ffn);
  findings.check(model.norms_per_layer >= 1 && model.norms_per_layer <= 8,
                 fmt::format("norms_per_layer is {}; allowed: 1 to 8", model.norms_per_layer));
  findings.check(model.mtp_layers >= 0 && model.mtp_layers <= 64,
                 fmt::format("mtp_layers is {}; allowed: 0 to 64", model.mtp_layers));
  if (model.learned_positions) findings.positive("max_positions", model.max_positions);

  const bool mtp = model.mtp_layers > 0;
  const Layer extra = mtp_layer(model);
  const auto scores = [](const Layer& l) { return has_scores(l.attention); };
  const auto sliding = [](const Layer& l) { return l.attention == AttentionKind::sliding; };
  const auto windowed = [](const Layer& l) {
    return l.attention == AttentionKind::sliding || l.attention == AttentionKind::chunked;
  };
  const auto linear = [](const Layer& l) { return l.attention == AttentionKind::linear; };
  const auto mamba = [](const Layer& l) { return l.attention == AttentionKind::mamba2; };
  const auto moe = [](const Layer& l) { return l.ffn == FfnKind::moe; };
  const auto dense = [](const Layer& l) { return l.ffn == FfnKind::dense; };
  const auto empty = [](const Layer& l) { return l.attention == AttentionKind::none && l.ffn == FfnKind::none; };

  if (any(model, scores) || (mtp && scores(extra))) check_attention(model.attention, findings);
  if (model.sliding_attention && any(model, sliding)) check_attention(*model.sliding_attention, findings);
  if (any(model, windowed) || (mtp && windowed(extra)))
    findings.positive("window (of sliding and chunked layers)", model.window);
  if (any(model, linear)) check_linear(model.linear, findings);
  if (any(model, mamba)) check_mamba(model.mamba, findings);
  if (any(model, moe) || (mtp && moe(extra))) check_moe(model.moe, findings);
  if (any(model, dense) || (mtp && dense(extra))) findings.positive("dense_ffn (of dense layers)", model.dense_ffn);
  findings.check(!any(model, empty), "a layer has neither a mixer nor an FFN");
  findings.check(model.moe.experts == 0 || any(model, moe), "moe.experts is set but no layer is an MoE layer");

  Errors errors = findings.take();
  if (!errors.empty()) return errors;
  return Unit{};
}

}  // namespace stepcast::models
