// Real configs against the mapping that was checked on them by hand (canonical.json).
#include <filesystem>
#include <map>

#include "sim/base/json_reader.h"
#include "tests/models/support.h"

namespace stepcast::models {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path folder = std::filesystem::path(STEPCAST_SOURCE_DIR) / "tests" / "data" / "hf_configs";

int or_zero(const Json& value) { return value.is_null() ? 0 : value.get<int>(); }

void compare(const Model& model, const Json& expected) {
  CHECK(model.layer_count() == expected["layers"].get<int>());
  CHECK(model.hidden == expected["hidden"].get<int>());
  CHECK(model.attention.heads == expected["heads"].get<int>());
  CHECK(model.vocab == expected["vocab"].get<int>());
  CHECK(model.tied_embeddings == expected["tied"].get<bool>());
  CHECK(model.mtp_layers == expected["mtp"].get<int>());
  CHECK(model.moe.experts == expected["experts"].get<int>());
  CHECK(model.moe.top_k == expected["top_k"].get<int>());
  CHECK(model.moe.shared_ffn == expected["shared_expert_ffn"].get<int>());
  CHECK(model.moe.expert_ffn == or_zero(expected["moe_ffn"]));
  CHECK(model.window == or_zero(expected["window"]));
  CHECK(model.dense_ffn == expected["ffn"].get<int>());
  REQUIRE(model.attention.mla.has_value() == !expected["mla"].is_null());
  if (model.attention.mla) {
    CHECK(model.attention.mla->q_lora_rank == expected["mla"]["q_lora_rank"].get<int>());
    CHECK(model.attention.mla->kv_lora_rank == expected["mla"]["kv_lora_rank"].get<int>());
    CHECK(model.attention.mla->qk_nope_head_dim == expected["mla"]["qk_nope_head_dim"].get<int>());
    CHECK(model.attention.mla->qk_rope_head_dim == expected["mla"]["qk_rope_head_dim"].get<int>());
    CHECK(model.attention.mla->v_head_dim == expected["mla"]["v_head_dim"].get<int>());
  } else {
    CHECK(model.attention.kv_heads == expected["kv_heads"].get<int>());
    CHECK(model.attention.head_dim == expected["head_dim"].get<int>());
  }
  std::map<std::string, int> kinds;
  int moe = 0;
  for (const Layer& layer : model.layers) {
    ++kinds[std::string(name(layer.attention))];
    moe += layer.ffn == FfnKind::moe ? 1 : 0;
  }
  CHECK(moe == expected["moe_layers"].get<int>());
  CHECK(model.layer_count() - moe == expected["dense_layers"].get<int>());
  for (const auto& [kind, count] : expected["attention"].items()) CHECK(kinds[kind] == count.get<int>());
  for (int i = 0; i < expected["first_dense"].get<int>(); ++i) {
    CHECK(model.layers[static_cast<std::size_t>(i)].ffn == FfnKind::dense);
  }
  const ParameterAccount account = parameters(model);
  CHECK(account.total() / 1e9 == Approx(expected["params_total_b"].get<double>()).epsilon(0.003));
  CHECK(account.active / 1e9 == Approx(expected["params_active_b"].get<double>()).epsilon(0.003));
}

}  // namespace

TEST_CASE("Real configs of every sampled family agree with the checked mapping") {
  const auto canonical = read_json_file(folder / "canonical.json");
  REQUIRE(canonical.ok());
  CHECK(canonical->root.size() == 13);
  for (const auto& [config, expected] : canonical->root.items()) {
    INFO(config);
    const auto model = import_hf_config(folder / (config + ".json"));
    INFO((model ? "" : all_messages(model.errors())));
    REQUIRE(model.ok());
    CHECK(model->name == config);
    compare(*model, expected);
  }
}

TEST_CASE("Imported samples equal their catalogue entries") {
  const std::map<std::string, std::string> same = {{"mixtral-8x7b", "mixtral-8x7b"},
                                                   {"qwen3-30b-a3b", "qwen3-30b-a3b"},
                                                   {"deepseek-v3", "deepseek-v3"},
                                                   {"gpt-oss-20b", "gpt-oss-20b"},
                                                   {"olmoe-1b-7b-0924", "olmoe-1b-7b"},
                                                   {"hunyuan-a13b", "hunyuan-a13b"},
                                                   {"minimax-m2.5", "minimax-m2.5"},
                                                   {"glm-4.5-air", "glm-4.5-air"},
                                                   {"kimi-k2-instruct", "kimi-k2"},
                                                   {"llama-3.1-405b-dense", "llama-3.1-405b"},
                                                   {"ernie-4.5-21b-a3b", "ernie-4.5-21b-a3b"}};
  for (const auto& [config, entry] : same) {
    INFO(config);
    const auto imported = import_hf_config(folder / (config + ".json"));
    REQUIRE(imported.ok());
    const Model listed = catalog_model(entry);
    CHECK(imported->layers == listed.layers);
    CHECK(parameters(*imported).total() == parameters(listed).total());
    CHECK(flops_per_token(*imported, 4096, {}) == flops_per_token(listed, 4096, {}));
  }
}

}  // namespace stepcast::models
