// Baselines: what is recorded, what counts as moved, and files that are none.
#include "scenarios/baseline.h"

#include <catch2/catch.hpp>

#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

Json result(double step, double gemm, double wait) {
  return {{"schema", "stepcast.forecast/1"},
          {"name", "case"},
          {"scenario", {{"seed", 1}, {"workload", {{"global_batch", 8}}}}},
          {"step_time_s", {{"mean", step}, {"p50", step}}},
          {"throughput", {{"tokens_per_s", 1000 / step}}},
          {"breakdown", {{"gemm", {{"mean_s", gemm}}}, {"wait_ep", {{"mean_s", wait}}}}},
          {"memory", {{"peak_bytes", 6e10}, {"by_part", {{"weights", 4e10}}}}}};
}

Baseline baseline(const Json& json) {
  auto b = baseline_of(JsonDocument{json, "result.json", nullptr});
  REQUIRE(b.ok());
  return std::move(*b);
}

}  // namespace

TEST_CASE("baseline: a file of one value a line reads back as it was written") {
  Baseline b = baseline(result(10, 6, 0.001));
  b.tolerance = 0.02;
  b.tolerances["breakdown"] = 0.05;
  b.versions["stepcast"] = "1";
  b.environment["system"] = "Linux";
  CHECK(b.kind == "forecast");
  CHECK(b.values.at("breakdown.gemm") == 6);
  CHECK(b.values.at("memory.by_part.weights") == 4e10);
  const std::string text = baseline_text(b);
  CHECK(text.find("  \"breakdown.gemm\": 6.0,\n") != std::string::npos);
  const auto document = parse_json(text, "base.json");
  REQUIRE(document.ok());
  const auto again = read_baseline(*document);
  INFO((again ? std::string() : shown(again.errors())));
  REQUIRE(again.ok());
  CHECK(baseline_text(*again) == text);
}

TEST_CASE("baseline: parts of the step are judged against the step, others against themselves") {
  Baseline recorded = baseline(result(10, 6, 0.001));
  CHECK(check_baseline(recorded, recorded).passed());
  // A wait that doubles, from a ten-thousandth of the step.
  CHECK(check_baseline(recorded, baseline(result(10, 6, 0.002))).passed());
  // A tenth of the products, 6 % of the step.
  const auto moved = check_baseline(recorded, baseline(result(10, 6.6, 0.001)));
  CHECK_FALSE(moved.passed());
  CHECK(moved.values.front().name == "breakdown.gemm");
  CHECK(moved.values.front().change == Approx(0.06));
  recorded.tolerances["breakdown.gemm"] = 0.1;
  CHECK(check_baseline(recorded, baseline(result(10, 6.6, 0.001))).passed());
  const auto slower = check_baseline(recorded, baseline(result(10.2, 6, 0.001)));
  CHECK_FALSE(slower.passed());
  CHECK(to_table(slower, false).find("step_time_s.mean") != std::string::npos);
  CHECK(to_json(slower)["passed"] == false);
}

TEST_CASE("baseline: what is missing or configured otherwise is told") {
  const Baseline recorded = baseline(result(10, 6, 0.001));
  Json fewer = result(10, 6, 0.001);
  fewer["breakdown"].erase("gemm");
  fewer["scenario"]["workload"]["global_batch"] = 16;
  const auto check = check_baseline(recorded, baseline(fewer));
  CHECK_FALSE(check.passed());
  REQUIRE(check.missing.size() == 1);
  REQUIRE(check.differences.size() == 1);
  CHECK(check.differences[0] == "scenario workload/global_batch: 8 -> 16");
  Baseline measured = baseline(fewer);
  measured.kind = "profile";
  CHECK(check_baseline(recorded, measured).passed());
  Baseline nothing;
  nothing.kind = "measured";
  CHECK_FALSE(check_baseline(recorded, nothing).passed());
}

TEST_CASE("baseline: files that are none are refused") {
  const auto refused = [](const char* text) {
    const auto document = parse_json(text, "base.json");
    REQUIRE(document.ok());
    const auto b = read_baseline(*document);
    CAPTURE(text);
    REQUIRE_FALSE(b.ok());
    return shown(b.errors());
  };
  CHECK(refused(R"({"schema": "stepcast.forecast/1"})").find("stepcast.baseline/1") != std::string::npos);
  CHECK(refused(R"({"schema": "stepcast.baseline/1", "kind": "forecast"})").find("values") != std::string::npos);
  CHECK(refused(R"({"schema": "stepcast.baseline/1", "kind": "forecast", "values": {}})").find("no values") !=
        std::string::npos);
  CHECK(refused(R"({"schema": "stepcast.baseline/1", "kind": "x", "values": {"a": "b"}})").find("number") !=
        std::string::npos);
  CHECK(refused(R"({"schema": "stepcast.baseline/1", "kind": "x", "values": {"a": 1}, "tolerances": {"a": -1}})")
            .find("from 0") != std::string::npos);
  CHECK(refused(R"({"schema": "stepcast.baseline/1", "kind": "x", "values": {"a": 1}, "extra": 1})").find("extra") !=
        std::string::npos);
  CHECK_FALSE(baseline_of(JsonDocument{Json{{"schema", "stepcast.scale/1"}}, "x", nullptr}).ok());
  CHECK_FALSE(baseline_of(JsonDocument{Json{{"schema", "stepcast.run/1"}}, "x", nullptr}).ok());
}

}  // namespace stepcast::scenarios
