// Scaling curves: definitions of worked case C, infeasible sizes, layouts planned at every size, comparability.
#include <algorithm>

#include <catch2/catch.hpp>

#include "scenarios/plan/plan.h"
#include "scenarios/scale.h"
#include "tests/scenarios/load.h"

using namespace stepcast;
using namespace stepcast::scenarios;

namespace {

ScenarioRequest olmoe(const std::vector<std::string>& more = {}) {
  ScenarioRequest request;
  request.file = "olmoe-1b-7b-h100-8";
  request.catalog_root = source_dir;
  request.sets = {"workload.global_batch=64", "workload.micro_batch=1"};
  request.sets.insert(request.sets.end(), more.begin(), more.end());
  return request;
}

ScaleOptions sizes(std::vector<int> devices) {
  ScaleOptions options;
  options.devices = std::move(devices);
  options.forecast.threads = 1;
  return options;
}

ScaleOptions replanned(std::vector<int> devices) {
  ScaleOptions options = sizes(std::move(devices));
  options.layout = LayoutRule::replan;
  options.space.tp = {1, 2};
  options.space.cp = {1};
  options.space.pp = {1, 2};
  options.space.ep = {4, 8, 16};
  options.space.etp = {1};
  options.space.vpp = {1};
  options.space.micro_batch = {1, 2};
  options.space.schedule = {"1f1b"};
  options.space.sharding = {"zero1"};
  return options;
}

bool has(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& s) { return s.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("strong scaling keeps the batch, weak scaling the batch a device") {
  ScaleOptions options = sizes({8, 16, 32});
  options.forecast.ignore_memory = true;
  const auto strong = scale(olmoe(), options);
  REQUIRE(strong.ok());
  REQUIRE(strong->points.size() == 3);
  CHECK(strong->baseline_devices == 8);
  for (const ScalePoint& p : strong->points) {
    CHECK(p.comparable());
    CHECK(p.global_batch == 64);
    CHECK(p.speedup == Approx(strong->points[0].step_time_s / p.step_time_s));
    CHECK(p.efficiency == Approx(p.speedup * 8 / p.devices));
  }
  options.kind = ScalingKind::weak;
  const auto weak = scale(olmoe(), options);
  REQUIRE(weak.ok());
  CHECK(weak->points[2].global_batch == 256);
  CHECK(weak->points[2].efficiency == Approx(weak->points[0].step_time_s / weak->points[2].step_time_s));
  CHECK(has(weak->points[1].breaks, "leaves the NVLink domain"));
}

TEST_CASE("a size that cannot run is shown with the reason and is no baseline") {
  ScaleOptions options = sizes({1, 8});
  options.forecast.ignore_memory = true;
  const auto curve = scale(olmoe(), options);
  REQUIRE(curve.ok());
  CHECK_FALSE(curve->points[0].feasible);
  CHECK_FALSE(curve->points[0].why.empty());
  CHECK(curve->baseline_devices == 8);
  options.devices = {1};
  CHECK_FALSE(scale(olmoe(), options).ok());
}

TEST_CASE("a curve planned at every size has plan's best layout there") {
  for (const auto kind : {ScalingKind::strong, ScalingKind::weak}) {
    ScaleOptions options = replanned({1, 8, 16});
    options.kind = kind;
    const ScenarioRequest request = olmoe({"runtime.dispatcher=alltoall", "workload.steps=2"});
    const auto curve = scale(request, options);
    REQUIRE(curve.ok());
    REQUIRE(curve->points.size() == 3);
    CHECK_FALSE(curve->points[0].feasible);
    CHECK(curve->points[0].why.find("no layout of") != std::string::npos);
    CHECK(curve->baseline_devices == 8);
    options.layout = LayoutRule::data_parallel;
    options.devices = {8, 16};
    const auto fixed = scale(request, options);
    for (std::size_t i = 1; i < curve->points.size(); ++i) {
      const ScalePoint& p = curve->points[i];
      CAPTURE(p.devices, p.layout);
      REQUIRE(p.comparable());
      plan::PlanOptions planning;
      planning.space = replanned({}).space;
      planning.space.devices = {p.devices};
      planning.space.global_batch = {static_cast<int>(p.global_batch)};
      planning.space.recompute = {"scenario"};
      planning.space.dispatcher = {"alltoall"};
      planning.fronts = false;
      const auto planned = plan::plan(request, planning);
      REQUIRE(planned.ok());
      CHECK(has(p.settings, "runtime.dispatcher=alltoall"));
      CHECK(p.settings == planned->layouts.front().settings);
      CHECK(p.step_time_s == Approx(planned->layouts.front().step_time_s).epsilon(1e-12));
      CHECK(p.layouts_valid == planned->counts.valid);
      const auto json = to_json(*curve)["points"][i];
      CHECK(json["layout"] == p.layout);
      CHECK(json["settings"].size() == p.settings.size());
      if (fixed) CHECK(p.tokens_per_s >= fixed->points[i - 1].tokens_per_s * (1 - 1e-9));
    }
    CHECK(to_table(*curve).find("layout: tp 1") != std::string::npos);
  }
}

TEST_CASE("the scenario's own layout is among those that are searched") {
  // Neither is usual: 7 chunks a rank, 8 sequences a microbatch, sharding within a node.
  ScenarioRequest request =
      olmoe({"cluster.devices=16", "model.layers=28", "parallelism.pp=2", "parallelism.vpp=7",
             "parallelism.schedule=interleaved", "parallelism.sharding=hsdp", "workload.micro_batch=8"});
  const auto scenario = load_scenario(request);
  REQUIRE(scenario.ok());
  const auto space = plan::make_space(*scenario, {});
  REQUIRE(space.ok());
  CHECK(space->vpp == std::vector<int>{1, 2, 4, 7});
  CHECK(space->micro_batch == std::vector<int>{1, 2, 4, 8});
  CHECK(space->sharding.back() == parallelism::Sharding::hsdp);
  plan::SpaceRequest given;
  given.vpp = {1};
  CHECK(plan::make_space(*scenario, given)->vpp == std::vector<int>{1});
}

TEST_CASE("headroom and wrong values of axes reach the plan of every size") {
  ScaleOptions options = replanned({8});
  options.headroom = 0.9;
  const auto none = scale(olmoe(), options);
  REQUIRE_FALSE(none.ok());
  CHECK(none.errors().front().code == ErrorCode::infeasible);
  CHECK(none.errors().front().message.find("cannot fit") != std::string::npos);
  options = replanned({8});
  options.space.schedule = {"1f1c"};
  const auto wrong = scale(olmoe(), options);
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.errors().front().where == "--schedule");
  const auto block = scale(olmoe({"recompute={\"mode\":\"full\",\"method\":\"block\",\"layers\":2}"}), replanned({8}));
  REQUIRE_FALSE(block.ok());
  CHECK(block.errors().front().message.find("method block") != std::string::npos);
}

TEST_CASE("a batch that had to be rounded is not called scaling") {
  // 3 sequences on 16 devices: 1.5 on 8.
  ScaleOptions options = replanned({8, 16, 32});
  options.kind = ScalingKind::weak;
  options.space.tp = {8};
  options.space.pp = {1, 2, 4};
  options.space.ep = {1, 8};
  options.space.etp = {1, 8};
  options.space.micro_batch = {1};
  const auto curve = scale(olmoe({"cluster.devices=16", "workload.global_batch=3"}), options);
  REQUIRE(curve.ok());
  REQUIRE(curve->points.size() == 3);
  const ScalePoint& rounded = curve->points[0];
  CHECK(rounded.feasible);
  CHECK(rounded.global_batch == 2);
  CHECK_FALSE(rounded.comparable());
  CHECK(has(rounded.not_scaling, "sequences a device"));
  CHECK(curve->baseline_devices == 16);
  CHECK(curve->points[1].efficiency == 1);
  CHECK(curve->points[2].comparable());
  const auto json = to_json(*curve)["points"][0];
  CHECK(json["comparable"] == false);
  CHECK_FALSE(json.contains("speedup"));
  CHECK_FALSE(json.contains("efficiency"));
  CHECK(json["not_scaling"].size() == 1);
  CHECK(to_table(*curve).find("not scaling, the work differs: sequences a device") != std::string::npos);
  CHECK(to_csv(*curve).find("8,1,0,2,") != std::string::npos);
  CHECK(to_csv(*curve).find("sequences a device") != std::string::npos);
  // Named as the baseline, it is the others that are no scaling of it.
  options.baseline_devices = 8;
  const auto named = scale(olmoe({"cluster.devices=16", "workload.global_batch=3"}), options);
  REQUIRE(named.ok());
  CHECK(named->points[0].efficiency == 1);
  CHECK_FALSE(named->points[1].comparable());
  CHECK_FALSE(named->points[2].comparable());
}
