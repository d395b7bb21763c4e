#include <algorithm>

#include <fmt/format.h>

#include "models/hf/parts.h"

namespace stepcast::models::hf {
namespace {

void read_dense_width(Config& config, Model& model) {
  const Family& family = config.family();
  const auto own = config.integer({"intermediate_size_mlp", "dense_intermediate_size"}, 1, max_width);
  const auto usual = config.integer({"intermediate_size", "n_inner"}, 1, max_width);
  if (own) {
    model.dense_ffn = *own;
  } else if (usual) {
    model.dense_ffn = *usual;
  } else if (family.name == "gpt2") {
    model.dense_ffn = 4 * model.hidden;  // n_inner: null
  } else if (!family.moe) {
    config.required({"intermediate_size"}, 1, max_width);
  }
}

void read_experts(Config& config, Moe& moe) {
  moe.experts =
      config.required({"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}, 1, max_width);
  moe.top_k = config.required(
      {"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts"}, 1,
      max_width);
  if (config.family().expert_width == ExpertWidth::moe_intermediate) {
    moe.expert_ffn = config.required({"moe_intermediate_size"}, 1, max_width);
  } else {
    const auto own = config.integer({"moe_intermediate_size"}, 1, max_width);
    moe.expert_ffn = own ? *own : config.required({"intermediate_size"}, 1, max_width);
  }
  moe.latent = config.integer({"moe_latent_size"}, 0, max_width).value_or(0);
}

void read_shared(Config& config, Moe& moe) {
  const Family& family = config.family();
  // Two ways to say it: how many experts of the routed width, or the width itself.
  const auto count = config.integer(
      {"n_shared_experts", "num_shared_expert", "num_shared_experts", "moe_num_shared_experts"}, 0, max_width);
  const auto width = config.integer({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                                     "share_expert_dim", "shared_intermediate_size"},
                                    0, max_width);
  const bool mixed = config.flag("use_mixed_mlp_moe", true);  // Hunyuan: the switch of its shared expert
  long long total = 0;
  if (width) {
    total = *width * (config.is("nemotron_h") ? static_cast<long long>(count.value_or(1)) : 1LL);
  } else if (count && mixed) {
    total = static_cast<long long>(*count) * moe.expert_ffn;
  } else if (family.shared_like_routed) {
    total = moe.expert_ffn;
  }
  if (total > max_width) {
    config.fail("n_shared_experts",
                fmt::format("the shared experts are {} wide in all; allowed: at most {}", total, max_width));
    return;
  }
  moe.shared_ffn = static_cast<int>(total);
  moe.shared_gate = family.shared_gate && moe.shared_ffn > 0;
}

void read_routing(Config& config, Moe& moe) {
  const auto groups = config.integer({"n_group", "num_expert_group"}, 0, max_width);
  const auto top = config.integer({"topk_group"}, 0, max_width);
  const std::string method = config.text().text("topk_method").value_or("");
  if (groups.value_or(0) > 1 && method != "greedy") {
    moe.groups = *groups;
    moe.top_groups = top.value_or(0);
    if (!top) config.fail("topk_group", "key topk_group is missing; n_group is set");
  }
  const bool correction =
      method == "noaux_tc" || config.flag("use_routing_bias", false) || config.flag("moe_use_aux_free", false);
  moe.router_bias = config.family().router_bias || correction;
  moe.expert_bias = config.family().expert_bias;
}

}  // namespace

void read_ffn(Config& config, Model& model) {
  read_dense_width(config, model);
  const bool patterned = config.is("nemotron_h");  // its dense hybrids have no experts
  const bool moe =
      std::any_of(model.layers.begin(), model.layers.end(), [](const Layer& l) { return l.ffn == FfnKind::moe; });
  if (config.family().moe && (!patterned || moe)) {
    read_experts(config, model.moe);
    read_shared(config, model.moe);
    read_routing(config, model.moe);
    return;
  }
  if (patterned) return;
  for (const char* key : {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"}) {
    const auto experts = config.integer({key}, 0, max_width);
    if (experts.value_or(0) > 1) {
      config.fail(key, fmt::format("{} is {} but {} is a dense family; is model_type right?", key, *experts,
                                   config.family().name));
    }
  }
}

}  // namespace stepcast::models::hf
