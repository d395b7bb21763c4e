#include <algorithm>
#include <filesystem>

#include "tests/models/support.h"

namespace stepcast::models {

TEST_CASE("The catalogue holds at least thirty models, each under its own name") {
  const auto catalog = list_models(STEPCAST_SOURCE_DIR);
  REQUIRE(catalog.ok());
  CHECK(catalog->size() >= 30);
  for (const CatalogEntry& entry : *catalog) {
    INFO(entry.name);
    CHECK(!entry.summary.empty());
    const Model model = catalog_model(entry.name);
    CHECK(model.name == entry.name);
    CHECK(!model.source.empty());
    CHECK(!model.family.empty());
    CHECK(std::none_of(entry.name.begin(), entry.name.end(),
                       [](char c) { return c == '_' || c == ' ' || (c >= 'A' && c <= 'Z'); }));
  }
}

TEST_CASE("An unknown name is refused with the nearest one") {
  const auto model = load_model(STEPCAST_SOURCE_DIR, "deepseek-v33");
  REQUIRE(!model.ok());
  CHECK(model.errors().front().code == ErrorCode::not_found);
  CHECK(model.errors().front().message.find("did you mean 'deepseek-v3'?") != std::string::npos);
  CHECK(!load_model(STEPCAST_SOURCE_DIR, "../catalog/deepseek-v3").ok());
  CHECK(!load_model(STEPCAST_SOURCE_DIR, "").ok());
  CHECK(!load_model("/nonexistent", "deepseek-v3").ok());
  CHECK(!list_models("/nonexistent").ok());
}

TEST_CASE("Overrides replace members and are checked like the rest") {
  using Json = nlohmann::ordered_json;
  const auto cut = load_model(STEPCAST_SOURCE_DIR, "deepseek-v3",
                              Json::parse(R"({"layers": 5, "mtp_layers": null, "moe": {"experts": 64}})"));
  REQUIRE(cut.ok());
  CHECK(cut->layer_count() == 5);
  CHECK(cut->mtp_layers == 0);
  CHECK(cut->moe.experts == 64);
  CHECK(cut->moe.top_k == 8);
  CHECK(cut->layers[2].ffn == FfnKind::dense);
  CHECK(cut->layers[3].ffn == FfnKind::moe);
  const auto wrong = load_model(STEPCAST_SOURCE_DIR, "deepseek-v3", Json::parse(R"({"moe": {"topk": 4}})"));
  REQUIRE(!wrong.ok());
  CHECK(all_messages(wrong.errors()).find("did you mean 'top_k'?") != std::string::npos);
  CHECK(all_messages(wrong.errors()).find("/moe/topk") != std::string::npos);
  CHECK(!load_model(STEPCAST_SOURCE_DIR, "deepseek-v3", Json::parse("[1]")).ok());
}

TEST_CASE("Every model survives being written and read again") {
  const auto catalog = list_models(STEPCAST_SOURCE_DIR);
  REQUIRE(catalog.ok());
  for (const CatalogEntry& entry : *catalog) {
    INFO(entry.name);
    const Model model = catalog_model(entry.name);
    const std::string text = model_to_json(model).dump();
    const auto again = parse_model_json(text, "written");
    INFO((again ? "" : all_messages(again.errors())));
    REQUIRE(again.ok());
    CHECK(model_to_json(*again).dump() == text);
    CHECK(again->layers == model.layers);
    CHECK(parameters(*again).total() == parameters(model).total());
    CHECK(parameters(*again).mtp == parameters(model).mtp);
    CHECK(flops_per_token(*again, 10000, {}) == flops_per_token(model, 10000, {}));
  }
}

}  // namespace stepcast::models
