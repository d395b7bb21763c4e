// Sweep files: values, ranges, crossing and zipping, and their faults.
#include <catch2/catch.hpp>

#include "scenarios/sweep/sweep_file.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

Result<Sweep> load(const std::string& text, const std::vector<std::string>& sets = {}) {
  SweepRequest request;
  request.file = write_file("sweep.json", text);
  request.sets = sets;
  request.catalog_root = source_dir;
  request.version = "test";
  return load_sweep(request);
}

Sweep sweep_of(const std::string& text) {
  auto sweep = load(text);
  INFO((sweep ? std::string() : shown(sweep.errors())));
  REQUIRE(sweep.ok());
  return std::move(*sweep);
}

std::string with(const std::string& vary) {
  return R"({"scenario": {"model": "olmoe-1b-7b", "cluster": "h100:8"}, "vary": )" + vary + "}";
}

std::string values(const Sweep& sweep, std::int64_t point) { return Json(sweep.values(point)).dump(); }

}  // namespace

TEST_CASE("entries of a sweep are crossed, keys of one entry go together") {
  const Sweep sweep = sweep_of(with(R"([{"parallelism.tp": [1, 2], "parallelism.ep": [8, 4]},
                                        {"workload.micro_batch": {"from": 1, "to": 4, "factor": 2}}])"));
  CHECK(sweep.points == 6);
  CHECK(sweep.keys() == std::vector<std::string>{"parallelism.tp", "parallelism.ep", "workload.micro_batch"});
  CHECK(values(sweep, 0) == "[1,8,1]");
  CHECK(values(sweep, 2) == "[1,8,4]");
  CHECK(values(sweep, 3) == "[2,4,1]");
  CHECK(values(sweep, 5) == "[2,4,4]");
  CHECK(sweep.request(5).sets ==
        std::vector<std::string>{"parallelism.tp=2", "parallelism.ep=4", "workload.micro_batch=4"});
}

TEST_CASE("ranges of a sweep hold their ends") {
  const auto all = [](const std::string& key, const std::string& range) {
    const Sweep sweep = sweep_of(with("[{\"" + key + "\": " + range + "}]"));
    Json list = Json::array();
    for (std::int64_t i = 0; i < sweep.points; ++i) list.push_back(sweep.values(i).front());
    return list.dump();
  };
  CHECK(all("workload.micro_batch", R"({"from": 1, "to": 4})") == "[1,2,3,4]");
  CHECK(all("workload.micro_batch", R"({"from": 8, "to": 1, "step": -3})") == "[8,5,2]");
  CHECK(all("noise.device_sigma", R"({"from": 0, "to": 0.3, "step": 0.1})") == "[0.0,0.1,0.2,0.30000000000000004]");
  CHECK(all("workload.global_batch", R"({"from": 1, "to": 1024, "factor": 4})") == "[1,4,16,64,256,1024]");
  CHECK(all("workload.global_batch", R"({"from": 512, "to": 512})") == "[512]");
  CHECK(all("noise.device_sigma", R"({"from": 0.01, "to": 0.04, "factor": 2})") == "[0.01,0.02,0.04]");
}

TEST_CASE("a sweep of many points is only numbers") {
  const Sweep sweep = sweep_of(with(R"([{"seed": {"from": 1, "to": 1000000}},
                                        {"noise.device_sigma": {"from": 0, "to": 0.099, "step": 0.001}}])"));
  CHECK(sweep.points == 100'000'000);
  CHECK(sweep.axes.front().keys.front().list.empty());
  CHECK(values(sweep, 99'999'999).starts_with("[1000000,0.099"));
}

TEST_CASE("values of a sweep may be of any kind") {
  const Sweep sweep = sweep_of(with(R"([{"model": ["olmoe-1b-7b", {"name": "mixtral-8x7b", "layers": 8}]},
                                        {"routing.skew": ["balanced", "zipf:0.5"]},
                                        {"routing.capacity_factor": [null, 1.25]}])"));
  CHECK(sweep.points == 8);
  ScenarioRequest last = sweep.request(7);
  const auto scenario = load_scenario(last);
  INFO((scenario ? std::string() : shown(scenario.errors())));
  REQUIRE(scenario.ok());
  CHECK(scenario->spec.model.layer_count() == 8);
  CHECK(scenario->spec.routing.capacity_factor == 1.25);
}

TEST_CASE("what determines a sweep's results determines its digest") {
  const std::string vary = R"([{"workload.micro_batch": [1, 2]}])";
  const std::string first = sweep_of(with(vary)).digest;
  CHECK(first.size() == 16);
  CHECK(sweep_of(with(vary)).digest == first);
  CHECK(sweep_of(with(R"([{"workload.micro_batch": [1, 4]}])")).digest != first);
  CHECK(load(with(vary), {"workload.global_batch=64"})->digest != first);
  SweepRequest other;
  other.file = write_file("sweep.json", with(vary));
  other.catalog_root = source_dir;
  other.version = "another";
  CHECK(load_sweep(other)->digest != first);
}

TEST_CASE("faults of a sweep file are named with their place") {
  const auto error_of = [](const std::string& text) {
    const auto sweep = load(text);
    INFO(text);
    REQUIRE(!sweep.ok());
    return shown(sweep.errors());
  };
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(error_of("{"), "sweep.json:1");
  has(error_of("[]"), "sweep.json");
  has(error_of(R"({"vary": [{"seed": [1]}]})"), "'scenario' is missing");
  has(error_of(R"({"scenario": "no-such", "vary": [{"seed": [1]}]})"), "no-such");
  has(error_of(R"({"scenario": 3, "vary": [{"seed": [1]}]})"), "/scenario");
  has(error_of(R"({"scenario": "olmoe-1b-7b-h100-8"})"), "'vary' is missing");
  has(error_of(R"({"scenario": "olmoe-1b-7b-h100-8", "vary": []})"), "no key is varied");
  for (const char* own : {"error", "point", "sweep", "values", "message"}) {
    const std::string text = error_of(R"({"scenario": "olmoe-1b-7b-h100-8", "vary": [{"seed": [1]}], "results": [")" +
                                      std::string(own) + "\"]}");
    has(text, "/results/0");
    has(text, "a column of every sweep");
  }
  has(error_of(R"({"scenario": "olmoe-1b-7b-h100-8",
    "vary": [{"workload.micro_batch": [4, 2]}, {"workload": [{"global_batch": 64}]}]})"),
      "workload is varied, and so is workload.micro_batch within it");
  has(error_of(R"({"scenario": "olmoe-1b-7b-h100-8", "varry": [{"seed": [1]}], "vary": [{"seed": [1]}]})"),
      "did you mean 'vary'?");
  for (const char* name : {"../evil", "", "a/b", ".hidden", "-flag", "a\\nb"}) {
    const std::string text = error_of(R"({"name": ")" + std::string(name) +
                                      R"(", "scenario": "olmoe-1b-7b-h100-8", "vary": [{"seed": [1]}]})");
    has(text, "sweep.json:1");
    has(text, "/name");
    has(text, "a plain file name is expected");
  }
  has(error_of(with("[3]")), "/vary/0");
  has(error_of(with("[{}]")), "/vary/0");
  has(error_of(with(R"([{"seed": []}])")), "/vary/0/seed");
  has(error_of(with(R"([{"seed": 3}])")), "a list of values, or a range");
  has(error_of(with(R"([{"seed": [1, 2], "workload.micro_batch": [1, 2, 3]}])")), "go together");
  has(error_of(with(R"([{"seed": [1, 2]}, {"seed": [3]}])")), "varied twice");
  has(error_of(with(R"([{"seed": {"from": 1}}])")), "to");
  has(error_of(with(R"([{"seed": {"from": 1, "to": 3, "step": 0}}])")), "the step is 0");
  has(error_of(with(R"([{"seed": {"from": 1, "to": 3, "step": -1}}])")), "holds no value");
  has(error_of(with(R"([{"seed": {"from": 1, "to": 8, "factor": 1}}])")), "factor above 1");
  has(error_of(with(R"([{"seed": {"from": 1, "to": 8, "factor": 2, "step": 2}}])")), "not both");
  has(error_of(with(R"([{"seed": {"from": 0, "to": 1e15}}])")), "more than 1000000000 values");
  has(error_of(with(R"([{"seed": {"from": 1, "to": 1e6}}, {"noise.device_sigma": {"from": 0, "to": 1e4}}])")),
      "more than 1000000000 points");
  has(error_of(with(R"([{"parallelism.tpp": [1, 2]}])")), "tpp");
  has(error_of(with(R"([{"workload.micro_batch": ["a", "b"]}])")), "micro_batch");
}

}  // namespace stepcast::scenarios
