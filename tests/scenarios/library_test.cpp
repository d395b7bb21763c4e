// Every scenario of the library loads, describes itself, and round-trips.
#include <catch2/catch.hpp>

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

}  // namespace stepcast::scenarios
