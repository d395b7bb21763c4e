// Scaling curves: definitions of worked case C, infeasible sizes, named breaks.
#include <catch2/catch.hpp>

#include "scenarios/scale.h"
#include "tests/scenarios/load.h"

using namespace stepcast;
using namespace stepcast::scenarios;

namespace {

ScenarioRequest olmoe() {
  ScenarioRequest request;
  request.file = "olmoe-1b-7b-h100-8";
  request.catalog_root = source_dir;
  request.sets = {"workload.global_batch=64", "workload.micro_batch=1"};
  return request;
}

}  // namespace

TEST_CASE("strong scaling keeps the batch, weak scaling the batch a device") {
  ScaleOptions options;
  options.devices = {8, 16, 32};
  options.forecast.threads = 1;
  options.forecast.ignore_memory = true;
  const auto strong = scale(olmoe(), options);
  REQUIRE(strong.ok());
  REQUIRE(strong->points.size() == 3);
  CHECK(strong->baseline_devices == 8);
  for (const ScalePoint& p : strong->points) {
    CHECK(p.global_batch == 64);
    CHECK(p.speedup == Approx(strong->points[0].step_time_s / p.step_time_s));
    CHECK(p.efficiency == Approx(p.speedup * 8 / p.devices));
  }
  options.kind = ScaleKind::weak;
  const auto weak = scale(olmoe(), options);
  REQUIRE(weak.ok());
  CHECK(weak->points[2].global_batch == 256);
  CHECK(weak->points[2].efficiency == Approx(weak->points[0].step_time_s / weak->points[2].step_time_s));
  bool leaves = false;
  for (const auto& b : weak->points[1].breaks)
    leaves = leaves || b.find("leaves the NVLink domain") != std::string::npos;
  CHECK(leaves);
}

TEST_CASE("a size that cannot run is shown with the reason and is no baseline") {
  ScaleOptions options;
  options.devices = {1, 8};
  options.forecast.threads = 1;
  options.forecast.ignore_memory = true;
  const auto curve = scale(olmoe(), options);
  REQUIRE(curve.ok());
  CHECK_FALSE(curve->points[0].feasible);
  CHECK_FALSE(curve->points[0].why.empty());
  CHECK(curve->baseline_devices == 8);
  options.devices = {1};
  CHECK_FALSE(scale(olmoe(), options).ok());
}
