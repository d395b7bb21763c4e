#include <vector>

#include "tests/models/support.h"

namespace stepcast::models {
namespace {

struct Published {
  const char* model;
  double total_b;
  double active_b;  // 0: not published in this convention (embedding and output counted)
};

const std::vector<Published> published = {
    {"deepseek-v3", 671.0, 37.55},
    {"deepseek-v2", 235.7, 0},
    {"deepseek-v2-lite", 15.7, 0},
    {"kimi-k2", 1026.4, 32.86},
    {"qwen3-235b-a22b", 235.1, 22.2},
    {"qwen3-30b-a3b", 30.53, 3.35},
    {"qwen3-next-80b-a3b", 79.67, 3.87},
    {"qwen2-57b-a14b", 57.4, 14.2},
    {"qwen1.5-moe-a2.7b", 14.3, 2.7},
    {"mixtral-8x22b", 140.6, 39.2},
    {"mixtral-8x7b", 46.70, 12.88},
    {"gpt-oss-120b", 116.8, 0},
    {"gpt-oss-20b", 20.91, 4.19},
    {"llama4-maverick", 400.7, 17.2},
    {"llama4-scout", 107.77, 17.17},
    {"olmoe-1b-7b", 6.92, 1.28},
    {"hunyuan-a13b", 80.39, 12.75},
    {"ernie-4.5-21b-a3b", 21.83, 3.35},
    {"minimax-m2.5", 228.69, 11.03},
    {"glm-4.5-air", 106.85, 13.42},
    {"dbrx", 131.6, 36.5},
    {"phi-3.5-moe", 41.87, 6.6},
    {"llama-3.1-405b", 405.85, 405.85},
    {"llama-3-8b", 8.03, 8.03},
    {"llama-3-70b", 70.55, 70.55},
    {"llama-2-7b", 6.74, 6.74},
    {"llama-2-70b", 68.98, 68.98},
    {"gpt3-175b", 174.6, 174.6},
    {"bloom-176b", 176.25, 176.25},
    {"gpt-neox-20b", 20.55, 20.55},
    {"nemotron-3-nano-30b-a3b", 31.6, 3.6},
    {"mistral-7b", 7.24, 7.24},
    {"qwen2.5-72b", 72.71, 72.71},
    {"qwen3-8b", 8.19, 8.19},
    {"qwen3-32b", 32.76, 32.76},
};

}  // namespace

TEST_CASE("Parameter totals are the published ones within 0.3 %, active ones within 1.5 %") {
  for (const Published& p : published) {
    INFO(p.model);
    const ParameterAccount account = parameters(catalog_model(p.model));
    CHECK(account.total() / 1e9 == Approx(p.total_b).epsilon(0.003));
    if (p.active_b > 0) CHECK(account.active / 1e9 == Approx(p.active_b).epsilon(0.015));
  }
}

TEST_CASE("Layers add up to the whole, active never exceeds total") {
  const auto catalog = list_models(STEPCAST_SOURCE_DIR);
  REQUIRE(catalog.ok());
  for (const CatalogEntry& entry : *catalog) {
    INFO(entry.name);
    const Model model = catalog_model(entry.name);
    const ParameterAccount account = parameters(model);
    double sum = account.embedding + account.output + final_norm_parameters(model);
    double routed = 0;
    for (int i = 0; i < model.layer_count(); ++i) {
      sum += layer_parameters(model, i).total();
      routed += layer_parameters(model, i).routed_experts;
    }
    CHECK(sum == Approx(account.total()).epsilon(1e-12));
    CHECK(routed == Approx(account.routed_experts));
    CHECK(account.active <= account.total());
    CHECK((account.mtp > 0) == (model.mtp_layers > 0));
    if (!model.is_moe()) CHECK(account.active == account.total());
  }
}

TEST_CASE("Closed form of a GPT layer: 12 h^2 and its biases and norms") {
  const Model model = catalog_model("gpt3-175b");
  const double h = 12288;
  const LayerParameters layer = layer_parameters(model, 0);
  CHECK(layer.total() == 12 * h * h + 3 * h + h + 4 * h + h + 4 * h);
  CHECK(layer.routed_experts == 0);
  CHECK(layer.replicated == 4 * h + h + h);  // two norms with bias, two output biases
}

TEST_CASE("DeepSeek-V3's MTP module is a layer, a projection and three norms") {
  const Model model = catalog_model("deepseek-v3");
  const double h = 7168;
  CHECK(mtp_parameters(model).total() == layer_parameters(model, 60).total() + 2 * h * h + 3 * h);
  CHECK(parameters(model).mtp / 1e9 == Approx(11.6).epsilon(0.01));
}

TEST_CASE("Shared MTP weights are stored once and computed at every repeat") {
  Model model = catalog_model("nemotron-3-super-120b-a12b");
  const double once = parameters(model).mtp;
  model.mtp_shared_weights = false;
  CHECK(parameters(model).mtp == 2 * once);
}

}  // namespace stepcast::models
