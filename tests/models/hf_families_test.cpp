// Configs written from the published shapes, one or more a family, against the published sizes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/models/support.h"

namespace stepcast::models {
namespace {

const std::filesystem::path folder =
    std::filesystem::path(STEPCAST_SOURCE_DIR) / "tests" / "data" / "hf_configs" / "written";

Model imported(const std::string& name) {
  const auto model = import_hf_config(folder / (name + ".json"));
  INFO(name << "\n" << (model ? "" : all_messages(model.errors())));
  REQUIRE(model.ok());
  return *model;
}

bool assumes(const Model& model, const std::string& part) {
  return std::any_of(model.assumptions.begin(), model.assumptions.end(),
                     [&](const std::string& a) { return a.find(part) != std::string::npos; });
}

int count(const Model& model, AttentionKind kind) {
  return static_cast<int>(
      std::count_if(model.layers.begin(), model.layers.end(), [&](const Layer& l) { return l.attention == kind; }));
}

int moe_layers(const Model& model) {
  return static_cast<int>(
      std::count_if(model.layers.begin(), model.layers.end(), [](const Layer& l) { return l.ffn == FfnKind::moe; }));
}

struct Published {
  const char* config;
  double total_b;
  double tolerance;
};

// Published sizes; 0.3 % where they are given to three digits or more.
const std::vector<Published> published = {
    {"deepseek-v2", 235.7, 0.003},
    {"deepseek-v2-lite", 15.7, 0.003},
    {"deepseek-v3.2", 671.0, 0.003},
    {"qwen3-235b-a22b", 235.1, 0.003},
    {"gpt-oss-120b", 116.8, 0.003},
    {"llama-4-maverick", 400.7, 0.003},
    {"minimax-m1", 456.0, 0.003},
    {"qwen2-57b-a14b", 57.4, 0.003},
    {"qwen1.5-moe-a2.7b", 14.3, 0.003},
    {"mixtral-8x22b", 140.6, 0.003},
    {"glm-4.5", 353.0, 0.003},
    {"glm-5", 744.0, 0.003},
    {"mimo-v2-flash", 309.0, 0.003},
    {"nemotron-3-nano", 31.6, 0.003},
    {"nemotron-3-super", 120.6, 0.003},
    {"qwen3.5-397b-a17b", 397.0, 0.003},
    {"kimi-linear-48b-a3b", 49.1, 0.003},
    {"llama-2-7b", 6.738, 0.003},
    {"qwen2.5-7b", 7.616, 0.003},
    {"qwen3-0.6b", 0.596, 0.003},
    {"mistral-7b-v0.1", 7.242, 0.003},
    {"gpt2", 0.1244, 0.003},
    {"gemma-2-27b", 27.23, 0.003},
    {"gemma-3-27b", 27.0, 0.003},
    {"phi-3.5-moe", 41.9, 0.003},
    {"gpt-neox-20b", 20.55, 0.003},
    {"nemotron-4-340b", 341.0, 0.003},
    {"kimi-k2.5", 1026.4, 0.003},
    {"moonlight-16b-a3b", 15.96, 0.003},
    {"glm-4.7-flash", 30.0, 0.003},
    {"ernie-4.5-300b-a47b", 299.5, 0.003},
};

}  // namespace

TEST_CASE("Written configs have the published sizes") {
  for (const Published& p : published) {
    INFO(p.config);
    CHECK(parameters(imported(p.config)).total() / 1e9 == Approx(p.total_b).epsilon(p.tolerance));
  }
}

TEST_CASE("Layer kinds of the families that mix them") {
  const Model maverick = imported("llama-4-maverick");
  CHECK(moe_layers(maverick) == 24);
  CHECK(maverick.layers[0].ffn == FfnKind::dense);
  CHECK(maverick.layers[1].ffn == FfnKind::moe);
  CHECK(count(maverick, AttentionKind::chunked) == 36);
  CHECK(maverick.dense_ffn == 16384);
  CHECK(maverick.moe.expert_ffn == 8192);

  const Model minimax = imported("minimax-m1");
  CHECK(count(minimax, AttentionKind::linear) == 70);
  CHECK(minimax.linear.kind == LinearKind::lightning);

  const Model mimo = imported("mimo-v2-flash");
  CHECK(count(mimo, AttentionKind::sliding) == 39);
  CHECK(moe_layers(mimo) == 47);
  REQUIRE(mimo.sliding_attention.has_value());
  CHECK(mimo.sliding_attention->kv_heads == 8);
  CHECK(mimo.attention.kv_heads == 4);
  CHECK(mimo.attention.v_head_dim == 128);

  const Model kimi = imported("kimi-linear-48b-a3b");
  CHECK(count(kimi, AttentionKind::linear) == 20);
  CHECK(kimi.linear.kind == LinearKind::kimi_delta);
  CHECK(kimi.attention.mla.has_value());

  const Model glm = imported("glm-4.7-flash");
  CHECK(moe_layers(glm) == 46);
  CHECK(moe_layers(imported("ernie-4.5-300b-a47b")) == 51);
  CHECK(count(imported("gemma-3-27b"), AttentionKind::full) == 10);
  CHECK(count(imported("mistral-7b-v0.1"), AttentionKind::sliding) == 32);
  CHECK(count(imported("qwen2.5-7b"), AttentionKind::sliding) == 0);
  CHECK(imported("qwen2.5-7b").window == 0);

  const Model nano = imported("nemotron-3-nano");
  CHECK(nano.layers == catalog_model("nemotron-3-nano-30b-a3b").layers);
  CHECK(flops_per_token(nano, 8192, {}) == flops_per_token(catalog_model("nemotron-3-nano-30b-a3b"), 8192, {}));
}

TEST_CASE("Groups count only where the method uses them") {
  CHECK(imported("deepseek-v2").moe.groups == 8);
  CHECK(imported("deepseek-v2").moe.top_groups == 3);
  CHECK(imported("deepseek-v2-lite").moe.groups == 0);
  CHECK(imported("kimi-k2.5").moe.groups == 0);
}

TEST_CASE("What is left out is named") {
  CHECK(assumes(imported("deepseek-v3.2"), "index_topk 2048) is counted as full attention"));
  CHECK(assumes(imported("glm-5"), "index_topk 2048"));
  CHECK(assumes(imported("kimi-k2.5"), "vision_config is left out"));
  CHECK(assumes(imported("gemma-3-27b"), "vocab_size is absent: 262208"));
  CHECK(assumes(imported("ernie-4.5-300b-a47b"), "ships no such weights"));
  CHECK(imported("ernie-4.5-300b-a47b").mtp_layers == 0);
  CHECK(imported("moonlight-16b-a3b").assumptions.empty());
  CHECK(imported("qwen3-235b-a22b").assumptions.empty());
}

TEST_CASE("Every spelling of sparse attention is counted as full attention and named") {
  std::ifstream file(folder / "qwen3-235b-a22b.json");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const std::string member :
       {R"("index_n_heads": 64)", R"("indexer_config": {"topk": 2048})", R"("moba_topk": 8)", R"("nsa_block_size": 64)",
        R"("sparse_config": {"topk": 64})", R"("use_sparse_attention": true)", R"("attn_sparse_topk": 16)"}) {
    std::string config = text;
    config.insert(config.find('{') + 1, member + ",");
    const auto model = import_hf_config_text(config, "config.json");
    INFO(member << "\n" << (model ? "" : all_messages(model.errors())));
    REQUIRE(model.ok());
    const std::string key = member.substr(1, member.find('"', 1) - 1);
    CHECK(assumes(*model, "sparse attention (" + key + ") is counted as full attention"));
    CHECK(model->assumptions.size() == 1);
    CHECK(model->layers == imported("qwen3-235b-a22b").layers);
  }
}

TEST_CASE("GPT-2 by its own key names") {
  const Model model = imported("gpt2");
  CHECK(model.layer_count() == 12);
  CHECK(model.dense_ffn == 3072);
  CHECK(model.tied_embeddings);
  CHECK(model.learned_positions);
  CHECK(model.attention_dropout);
  CHECK(model.hidden_dropout);
  CHECK(parameters(model).total() == 124439808);
}

}  // namespace stepcast::models
