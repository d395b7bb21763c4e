// Every scenario of the library loads, describes itself, round-trips and runs.
#include <catch2/catch.hpp>

#include "scenarios/forecast.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {

TEST_CASE("the library loads") {
  const auto entries = list_library(source_dir);
  INFO((entries ? std::string() : shown(entries.errors())));
  REQUIRE(entries.ok());
  CHECK(entries->size() >= 12);
  for (const LibraryEntry& entry : *entries) {
    INFO(entry.name);
    CHECK(entry.summary.size() > 40);
    ScenarioRequest request;
    request.file = entry.name;  // by name, without folder and extension
    request.catalog_root = source_dir;
    const auto scenario = load_scenario(request);
    INFO((scenario ? std::string() : shown(scenario.errors())));
    REQUIRE(scenario.ok());
    CHECK(scenario->name == entry.name);
    CHECK(scenario->spec.software.name != "generic");
    const auto again = load_text(scenario->resolved.dump());
    REQUIRE(again.ok());
    CHECK(again->resolved == scenario->resolved);
  }
}

TEST_CASE("every scenario of the library forecasts a step and fits its devices") {
  const auto entries = list_library(source_dir);
  REQUIRE(entries.ok());
  for (const LibraryEntry& entry : *entries) {
    ScenarioRequest request;
    request.file = entry.name;
    request.sets = {"workload.steps=1"};
    request.catalog_root = source_dir;
    const auto scenario = load_scenario(request);
    REQUIRE(scenario.ok());
    ForecastOptions options;
    options.representative = true;
    options.critical_path = false;
    const auto step = forecast(*scenario, options);
    INFO(entry.name << " " << (step ? std::string() : shown(step.errors())));
    REQUIRE(step.ok());
    CHECK(step->step_time.mean_s > 0);
    CHECK(step->memory.fits);
  }
}

}  // namespace stepcast::scenarios
