// Out of memory: the error names what holds it and the single changes that would fit, each with its own step time.
#include <catch2/catch.hpp>

#include "scenarios/memory_advice.h"
#include "tests/scenarios/load.h"

using namespace stepcast;
using namespace stepcast::scenarios;

namespace {

// 8 billion parameters on eight devices of 80 GB with long sequences: activations are too many.
Scenario too_large() {
  return loaded(R"({"model": "llama-3-8b", "cluster": "h100:8", "parallelism": {"sharding": "zero1"},
                   "workload": {"sequence_length": 8192, "global_batch": 16, "micro_batch": 2}, "precision": "bf16",
                   "software": "megatron-core-2025"})");
}

}  // namespace

TEST_CASE("a layout that does not fit is refused with the largest parts and changes that fit") {
  ForecastOptions options;
  options.threads = 1;
  options.advice_catalog = source_dir;
  const auto refused = forecast(too_large(), options);
  REQUIRE(!refused.ok());
  const Error& error = refused.errors().front();
  CHECK(error.code == ErrorCode::infeasible);
  CHECK(error.message.find("largest: ") != std::string::npos);
  CHECK(error.message.find("single changes that fit") != std::string::npos);
  CHECK(error.message.find("--set ") != std::string::npos);
  CHECK(error.message.find(" s a step") != std::string::npos);
}

TEST_CASE("each change fits, is the fastest first, and forecasts as the scenario itself would") {
  const Scenario scenario = too_large();
  ForecastOptions one_thread;
  one_thread.threads = 1;
  const MemoryAdvice advice = memory_advice(scenario, source_dir, one_thread);
  REQUIRE(!advice.changes.empty());
  CHECK(advice.tried + advice.refused >= 8);
  for (std::size_t i = 1; i < advice.changes.size(); ++i) {
    CHECK(advice.changes[i - 1].step_time_s <= advice.changes[i].step_time_s);
  }
  const MemoryChange& best = advice.changes.front();
  CHECK(best.peak_bytes <= scenario.spec.cluster.device.hbm.value);
  ScenarioRequest request;
  request.text = scenario.resolved.dump();
  request.text_name = "again";
  request.sets = best.sets;
  request.catalog_root = source_dir;
  const auto again = load_scenario(request);
  REQUIRE(again.ok());
  ForecastOptions options;
  options.threads = 1;
  const auto forecast = scenarios::forecast(*again, options);
  REQUIRE(forecast.ok());
  CHECK(forecast->step_time.mean_s == Approx(best.step_time_s));
  CHECK(forecast->memory.peak_bytes == Approx(best.peak_bytes));
}
