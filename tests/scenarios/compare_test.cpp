// Worked case C: what is scaling, and what is not.
#include "scenarios/compare.h"

#include <catch2/catch.hpp>

namespace stepcast::scenarios {
namespace {

using Kind = Comparison::Kind;

RunSummary run(int devices, double seconds, double tokens) {
  RunSummary r;
  r.name = "run";
  r.devices = devices;
  r.step_time_s = seconds;
  r.tokens_per_step = tokens;
  r.mfu = 0.3;
  r.hfu = 0.35;
  r.peak_memory_bytes = 60e9;
  r.breakdown_s = {{"gemm", 0.6 * seconds}, {"exposed_ep", 0.4 * seconds}};
  r.memory_bytes = {{"weights", 40e9}, {"activations", 20e9}};
  r.spans = {{"ep", "8 ranks in one NVLink domain"}};
  r.scenario = nlohmann::ordered_json::parse(R"({
    "schema": "stepcast.scenario/1", "model": {"name": "mixtral-8x7b", "hidden": 4096},
    "parallelism": {"tp": 1, "ep": 8}, "workload": {"sequence_length": 4096, "global_batch": 256},
    "precision": {"recipe": "bf16"}, "recompute": {"mode": "none"},
    "routing": {"skew": "balanced", "capacity_factor": null, "drop": "none", "node_limit": 0}})");
  r.scenario["workload"]["global_batch"] = static_cast<int>(tokens / 4000);
  return r;
}

TEST_CASE("Case C: strong scaling") {
  const auto s = scaling(ScalingKind::strong, 8, 8.0, 64, 1.4);
  CHECK(s.speedup == Approx(5.714).epsilon(1e-3));
  CHECK(s.efficiency == Approx(0.714).epsilon(1e-3));
  CHECK(s.warning.empty());
}

TEST_CASE("Case C: weak scaling") {
  const auto s = scaling(ScalingKind::weak, 8, 10.0, 1024, 11.2);
  CHECK(s.efficiency == Approx(0.893).epsilon(1e-3));
  CHECK(s.speedup == Approx(128 * 0.8929).epsilon(1e-3));
}

TEST_CASE("Efficiency above 100 % warns and is never called superlinear") {
  const auto s = scaling(ScalingKind::strong, 8, 8.0, 16, 3.9);
  CHECK(s.efficiency > 1);
  CHECK_FALSE(s.warning.empty());
  CHECK(s.warning.find("superlinear") == std::string::npos);
  const auto c = compare(run(8, 8.0, 1e6), run(16, 3.9, 1e6));
  REQUIRE(c.warnings.size() == 1);
  CHECK(to_table(c, false).find("superlinear") == std::string::npos);
}

TEST_CASE("The kind follows from tokens and devices") {
  CHECK(compare(run(8, 8.0, 1e6), run(64, 1.4, 1e6)).kind == Kind::strong_scaling);
  CHECK(compare(run(8, 10.0, 1e6), run(1024, 11.2, 128e6)).kind == Kind::weak_scaling);
  CHECK(compare(run(8, 8.0, 1e6), run(8, 7.0, 1e6)).kind == Kind::variants);
  CHECK(compare(run(8, 8.0, 1e6), run(64, 4.0, 4e6)).kind == Kind::different_work);
  CHECK(compare(run(8, 8.0, 1e6), run(8, 16.0, 2e6)).kind == Kind::different_work);
}

TEST_CASE("A batch that is nearly the same is another one") {
  CHECK(compare(run(8, 8.0, 1e6), run(64, 1.4, 1.004e6)).kind == Kind::different_work);
  CHECK(compare(run(8, 8.0, 1e6), run(64, 8.4, 7.996e6)).kind == Kind::different_work);
  const auto variant = compare(run(8, 8.0, 1e6), run(8, 7.0, 1.004e6));
  CHECK(variant.kind == Kind::different_work);
  CHECK_FALSE(to_json(variant).contains("speedup"));
  // Effective tokens of the same batch: packed documents of another draw.
  RunSummary packed = run(64, 1.4, 1.004e6);
  packed.scenario["workload"]["global_batch"] = 250;
  CHECK(compare(run(8, 8.0, 1e6), packed).kind == Kind::strong_scaling);
}

TEST_CASE("Different work gives throughput only") {
  struct Change {
    const char* pointer;
    nlohmann::ordered_json value;
  };
  const auto change = GENERATE(Change{"/precision/recipe", "fp8-blockwise"}, Change{"/recompute/mode", "full"},
                               Change{"/routing/capacity_factor", 1.25}, Change{"/routing/drop", "pad"},
                               Change{"/routing/skew", "zipf:0.5"}, Change{"/routing/node_limit", 4},
                               Change{"/workload/sequence_length", 8192}, Change{"/model/name", "mixtral-8x22b"});
  RunSummary b = run(64, 1.4, 1e6);
  b.scenario[nlohmann::ordered_json::json_pointer(change.pointer)] = change.value;
  const auto c = compare(run(8, 8.0, 1e6), b);
  CAPTURE(change.pointer);
  CHECK(c.kind == Kind::different_work);
  REQUIRE(c.work_differences.size() == 1);
  CHECK(c.throughput_ratio == Approx(8.0 / 1.4));
  const auto json = to_json(c);
  CHECK_FALSE(json.contains("efficiency"));
  CHECK_FALSE(json.contains("speedup"));
  const std::string text = to_table(c, false);
  CHECK(text.find("efficiency") == std::string::npos);
  CHECK(text.find("no scaling result") != std::string::npos);
}

TEST_CASE("A layout may differ in a scaling result, and is named") {
  RunSummary b = run(64, 1.4, 1e6);
  b.scenario["parallelism"]["ep"] = 16;
  const auto c = compare(run(8, 8.0, 1e6), b);
  CHECK(c.kind == Kind::strong_scaling);
  REQUIRE(c.other_differences.size() == 1);
  CHECK(c.other_differences.front() == "parallelism/ep: 8 -> 16");
}

TEST_CASE("An EP group that leaves the box is a break in the curve") {
  RunSummary b = run(64, 1.4, 1e6);
  b.spans["ep"] = "16 ranks over 2 NVLink domains";
  const auto c = compare(run(8, 8.0, 1e6), b);
  REQUIRE(c.breaks.size() == 1);
  CHECK(c.breaks.front().find("ep group") != std::string::npos);
  CHECK(compare(run(8, 8.0, 1e6), run(64, 1.4, 1e6)).breaks.empty());
}

TEST_CASE("Traffic that crosses a leaf switch is a break in the curve") {
  RunSummary a = run(256, 8.0, 1e6), b = run(512, 4.4, 1e6);
  a.crosses_leaf = {{"dp", false}, {"tp", false}};
  b.crosses_leaf = {{"dp", true}, {"tp", false}, {"pp", true}};
  const auto c = compare(a, b);
  REQUIRE(c.breaks.size() == 1);
  CHECK(c.breaks.front().find("dp traffic crosses a leaf switch") != std::string::npos);
}

TEST_CASE("Parts are sorted by how far they moved") {
  const auto c = compare(run(8, 8.0, 1e6), run(64, 1.4, 1e6));
  REQUIRE(c.parts.size() == 2);
  CHECK(c.parts[0].name == "gemm");
  double moved = 0;
  for (const Moved& m : c.parts) moved += m.b - m.a;
  CHECK(moved == Approx(1.4 - 8.0));
}

TEST_CASE("A result is read strictly") {
  const auto read = [](const char* text) {
    const auto document = parse_json(text, "a.json");
    REQUIRE(document.ok());
    return read_run(*document);
  };
  const auto other = read(R"({"schema": "stepcast.account/1"})");
  REQUIRE_FALSE(other.ok());
  CHECK(other.errors().front().message.find("stepcast.forecast/1") != std::string::npos);
  const auto empty = read(R"({"schema": "stepcast.forecast/1"})");
  REQUIRE_FALSE(empty.ok());
  CHECK(empty.errors().size() >= 6);
  const auto negative = read(R"({"schema": "stepcast.forecast/1",
    "scenario": {"model": {}, "cluster": {}, "workload": {}}, "engine": {"devices": 8}, "step_time_s": {"mean": -1},
    "throughput": {"tokens_per_s": 1}, "utilisation": {"mfu": 0.3, "hfu": 0.3}, "memory": {"peak_bytes": 1},
    "breakdown": {"gemm": {"mean_s": 1}}})");
  REQUIRE_FALSE(negative.ok());
  CHECK(negative.errors().size() == 1);
  CHECK(negative.errors().front().where.find("/step_time_s/mean") != std::string::npos);
  const auto bare = read(R"({"schema": "stepcast.forecast/1", "scenario": {"model": {}, "cluster": 3},
    "engine": {"devices": 8}, "step_time_s": {"mean": 1}, "throughput": {"tokens_per_s": 1},
    "utilisation": {"mfu": 0.3, "hfu": 0.3}, "memory": {"peak_bytes": 1}, "breakdown": {}})");
  REQUIRE_FALSE(bare.ok());
  REQUIRE(bare.errors().size() == 2);
  CHECK(bare.errors()[0].where.find("/scenario/cluster") != std::string::npos);
  CHECK(bare.errors()[1].message == "key 'workload' is missing");
}

}  // namespace
}  // namespace stepcast::scenarios
