#include "scenarios/overrides.h"

#include <catch2/catch.hpp>

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

Json after(const std::string& text, const std::vector<std::string>& sets) {
  Json tree = Json::parse(text);
  std::vector<Override> overrides;
  for (const std::string& set : sets) {
    const Status status = apply_set(set, tree, overrides);
    INFO(set);
    REQUIRE(status.ok());
  }
  return tree;
}

std::string refusal(const std::string& text, const std::string& set) {
  Json tree = Json::parse(text);
  std::vector<Override> overrides;
  const Status status = apply_set(set, tree, overrides);
  REQUIRE_FALSE(status.ok());
  CHECK(status.errors().front().code == ErrorCode::usage);
  return status.errors().front().where + ": " + status.errors().front().message;
}

}  // namespace

TEST_CASE("values of --set are JSON or bare texts") {
  CHECK(after("{}", {"a.b=3"}) == Json::parse(R"({"a": {"b": 3}})"));
  CHECK(after("{}", {"a=zipf:0.3"}) == Json::parse(R"({"a": "zipf:0.3"})"));
  CHECK(after("{}", {"a=[1, 2]"}) == Json::parse(R"({"a": [1, 2]})"));
  CHECK(after("{}", {"a=true", "b=null", "c=\"7\""}) == Json::parse(R"({"a": true, "b": null, "c": "7"})"));
  CHECK(after(R"({"a": [5, 6]})", {"a.1=9"}) == Json::parse(R"({"a": [5, 9]})"));
  CHECK(after("{}", {"a=1e400"}) == Json::parse(R"({"a": "1e400"})"));
  CHECK(after("{}", {"a.b=1", "a.b=2"}) == Json::parse(R"({"a": {"b": 2}})"));
}

TEST_CASE("an override opens short forms") {
  CHECK(after(R"({"cluster": "h800:64"})", {"cluster.rails=4"}) ==
        Json::parse(R"({"cluster": {"preset": "h800:64", "rails": 4}})"));
  CHECK(after(R"({"model": "x/config.json"})", {"model.mtp_layers=0"}) ==
        Json::parse(R"({"model": {"config": "x/config.json", "mtp_layers": 0}})"));
}

TEST_CASE("malformed --set is refused and named") {
  CHECK(refusal("{}", "parallelism.ep").find("--set parallelism.ep: ") == 0);
  CHECK(refusal("{}", "=3").find("path=value") != std::string::npos);
  CHECK(refusal("{}", "a..b=3").find("single dots") != std::string::npos);
  CHECK(refusal("{}", "a=").find("no value") != std::string::npos);
  CHECK(refusal("{}", "a=[1,").find("not valid JSON") != std::string::npos);
  CHECK(refusal(R"({"seed": 1})", "seed.x=3").find("no member 'x'") != std::string::npos);
  CHECK(refusal(R"({"a": [1]})", "a.4=3").find("list of 1") != std::string::npos);
}

TEST_CASE("errors under a flag's value name the flag") {
  Json tree = Json::object();
  std::vector<Override> overrides;
  REQUIRE(apply_set("parallelism.ep=48", tree, overrides).ok());
  Errors errors = {make_error(ErrorCode::invalid, "x", "f.json:1:2 /parallelism/ep"),
                   make_error(ErrorCode::invalid, "y", "f.json:1:2 /parallelism/epp"),
                   make_error(ErrorCode::invalid, "z", "f.json:1:2")};
  name_flags(overrides, false, errors);
  CHECK(errors[0].where == "--set parallelism.ep=48");
  CHECK(errors[1].where == "f.json:1:2 /parallelism/epp");
  CHECK(errors[2].where == "f.json:1:2");
}

}  // namespace stepcast::scenarios
