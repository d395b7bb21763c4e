#include "tests/models/support.h"

namespace stepcast::models {
namespace {

std::string errors_of(const std::string& text) {
  const auto model = parse_model_json(text, "m.json");
  return model.ok() ? "" : all_messages(model.errors());
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string small = R"("hidden": 64, "vocab": 100, "dense_ffn": 128, "attention": {"heads": 4})";

}  // namespace

TEST_CASE("The smallest description: everything else has the usual value") {
  const auto model = parse_model_json("{" + small + R"(, "layers": 2})", "m.json");
  REQUIRE(model.ok());
  CHECK(model->attention.kv_heads == 4);
  CHECK(model->attention.head_dim == 16);
  CHECK(model->attention.v_head_dim == 16);
  CHECK(model->layers == std::vector<Layer>(2));
}

TEST_CASE("Layer patterns") {
  const std::string moe = "{" + small + R"(, "moe": {"experts": 8, "top_k": 2, "expert_ffn": 32}, )";
  const auto interval = parse_model_json(
      moe + R"("layers": 6, "moe_interval": 2, "window": 8, "attention_pattern": ["sliding", "sliding", "full"]})",
      "m");
  REQUIRE(interval.ok());
  CHECK(interval->layers[0] == Layer{AttentionKind::sliding, FfnKind::dense});
  CHECK(interval->layers[1] == Layer{AttentionKind::sliding, FfnKind::moe});
  CHECK(interval->layers[5] == Layer{AttentionKind::full, FfnKind::moe});
  const auto list =
      parse_model_json(moe + R"("layers": [{"ffn": "dense"}, {"repeat": 3}, {"attention": "none"}]})", "m");
  REQUIRE(list.ok());
  CHECK(list->layer_count() == 5);
  CHECK(list->layers[0].ffn == FfnKind::dense);
  CHECK(list->layers[3].ffn == FfnKind::moe);
  CHECK(list->layers[4].attention == AttentionKind::none);
  const auto hybrid = parse_model_json(
      moe + R"("mamba": {"heads": 4, "head_dim": 8, "state": 16, "groups": 2}, "hybrid_pattern": "ME*-"})", "m");
  REQUIRE(hybrid.ok());
  CHECK(hybrid->layers[0] == Layer{AttentionKind::mamba2, FfnKind::none});
  CHECK(hybrid->layers[3] == Layer{AttentionKind::none, FfnKind::dense});
}

TEST_CASE("Errors name the place, what was found and what is allowed") {
  const std::string unknown = errors_of("{" + small + ",\n \"layers\": 2,\n \"hiden\": 3}");
  CHECK(mentions(unknown, "m.json:3:2 /hiden: unknown key 'hiden'; did you mean 'hidden'?"));
  const std::string type = errors_of("{" + small + ",\n \"layers\": \"two\"}");
  CHECK(mentions(type, "m.json:2:12 /layers"));
  CHECK(mentions(type, "layers is \"two\"; a whole number from 1"));
  CHECK(mentions(errors_of("{\"layers\": 2}"), "key 'hidden' is missing"));
  CHECK(mentions(errors_of("{" + small + R"(, "layers": 2, "moe_interval": 0})"), "moe_interval is 0"));
  CHECK(mentions(errors_of("{" + small + R"(, "layers": 1000000000})"), "allowed") == false);
  CHECK(!errors_of("{" + small + R"(, "layers": 1000000000})").empty());
  CHECK(mentions(errors_of("{" + small + R"(, "hybrid_pattern": "MX"})"), "'X'; allowed: M (Mamba)"));
  CHECK(mentions(errors_of("{" + small + R"(, "hybrid_pattern": "--", "layers": 3})"), "hybrid_pattern has 2"));
  CHECK(mentions(errors_of("{" + small + R"(, "layers": [{"repeat": 2, "ffn": "moee"}]})"), "did you mean 'moe'?"));
  CHECK(mentions(errors_of("{" + small + R"(, "layers": 2, "attention_pattern": ["fool"]})"), "/attention_pattern/0"));
  CHECK(mentions(errors_of("{" + small + R"(, "layers": 2, "attention_pattern": ["sliding"]})"), "window"));
  CHECK(mentions(errors_of(R"({"hidden": 65, "vocab": 9, "dense_ffn": 9, "attention": {"heads": 4}, "layers": 1})"),
                 "does not divide"));
  CHECK(mentions(errors_of("[1]"), "an object {...} is expected"));
  CHECK(mentions(errors_of("{" + small + R"(, "layers": 2, "moe": {"experts": 4, "top_k": 5, "expert_ffn": 3}})"),
                 "moe.top_k is 5; allowed: 1 to the number of experts, 4"));
}

TEST_CASE("Several errors come at once") {
  const auto model = parse_model_json(R"({"hidden": -1, "vocab": "x", "layers": 1.5, "foo": 1})", "m.json");
  REQUIRE(!model.ok());
  CHECK(model.errors().size() == 4);
}

}  // namespace stepcast::models
