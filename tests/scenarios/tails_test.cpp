// What makes sampled steps differ, the intervals of percentiles, and headroom.
#include <catch2/catch.hpp>

#include <algorithm>

#include "load.h"
#include "scenarios/forecast.h"
#include "scenarios/headroom.h"
#include "scenarios/samples.h"
#include "sim/base/stats.h"

namespace stepcast::scenarios {
namespace {

// Not bound by the host, so that what devices do shows.
const char* const small = R"({
  "model": "olmoe-1b-7b",
  "cluster": "h100:8",
  "parallelism": {"tp": 1, "pp": 1, "ep": 8, "sharding": "zero1"},
  "workload": {"sequence_length": 4096, "global_batch": 16, "micro_batch": 1, "steps": 12},
  "runtime": {"host_launch_us": 0.2, "host_sync_us": 0},
  "seed": 5
})";

std::vector<double> samples(const std::vector<std::string>& sets) {
  const Scenario scenario = loaded(small, sets);
  const auto lowered = parallelism::lower(scenario.spec);
  REQUIRE(lowered.ok());
  Simulated simulated;
  choose_program(scenario.spec, *lowered, false, simulated);
  const auto run = run_samples(scenario.spec, *lowered, simulated, {2, {}, {}});
  REQUIRE(run.ok());
  return run->seconds;
}

bool all_equal(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

TEST_CASE("hot experts that persist spread sampled steps, fresh ones average out") {
  const auto persistent = samples({"routing.skew=zipf:0.6", "routing.persistence=1", "workload.global_batch=64"});
  const auto fresh = samples({"routing.skew=zipf:0.6", "routing.persistence=0", "workload.global_batch=64"});
  CHECK(standard_deviation(persistent) > 1.5 * standard_deviation(fresh));
}

TEST_CASE("device speeds are drawn for each sampled step, or once for the run") {
  CHECK(all_equal(samples({})));
  CHECK_FALSE(all_equal(samples({"noise.device_sigma=0.02"})));
  CHECK(all_equal(samples({"noise.device_sigma=0.02", "noise.draws=run"})));
}

TEST_CASE("layouts meet the same devices") {
  const Scenario a = loaded(small, {"noise.device_sigma=0.02"});
  const Scenario b = loaded(small, {"noise.device_sigma=0.02", "parallelism.ep=4", "workload.global_batch=32"});
  std::vector<DeviceId> devices;
  for (int d = 0; d < 8; ++d) devices.emplace_back(d);
  CHECK(parallelism::draw_tails(a.spec, devices, 3).slow == parallelism::draw_tails(b.spec, devices, 3).slow);
  CHECK(parallelism::draw_tails(a.spec, devices, 3).slow != parallelism::draw_tails(a.spec, devices, 4).slow);
}

TEST_CASE("rare events strike a share of steps and only lengthen them") {
  const double plain = samples({}).front();
  for (const char* set :
       {R"(noise.gc_stalls={"probability": 0.1, "mean_s": 0.2})",
        R"(noise.data_stalls={"probability": 0.5, "mean_s": 0.2})",
        R"(noise.checkpoint_stalls={"probability": 0.5, "mean_s": 0.2})",
        R"(noise.slow_devices={"share": 0.1, "factor": 1.3})", R"(noise.node_epochs={"share": 0.5, "factor": 1.2})"}) {
    INFO(set);
    const auto struck = samples({set});
    const auto longer = std::count_if(struck.begin(), struck.end(), [&](double s) { return s > plain; });
    CHECK(*std::min_element(struck.begin(), struck.end()) >= plain);
    CHECK(longer > 0);
    CHECK(longer < static_cast<std::ptrdiff_t>(struck.size()));
  }
}

TEST_CASE("degraded links slow transfers over the network only") {
  const std::vector<std::string> two_boxes = {"cluster.devices=16", "parallelism.ep=16", "workload.global_batch=32"};
  std::vector<std::string> struck = two_boxes;
  struck.emplace_back(R"(noise.degraded_links={"share": 0.5, "factor": 2})");
  CHECK(mean(samples(struck)) > mean(samples(two_boxes)));
  CHECK(samples({R"(noise.degraded_links={"share": 0.5, "factor": 2})"}) == samples({}));  // one box: NVLink
}

TEST_CASE("percentiles come with intervals of order statistics") {
  const Scenario scenario = loaded(small, {"noise.device_sigma=0.02", "workload.steps=200"});
  const auto forecast = scenarios::forecast(scenario, {});
  REQUIRE(forecast.ok());
  const StepTimeStats& s = forecast->step_time;
  REQUIRE(s.p95_interval);
  CHECK(s.p95_interval->low <= s.p95_s);
  CHECK(s.p95_s <= s.p95_interval->high);
  CHECK(s.p95_interval->low < s.p95_interval->high);
  CHECK_FALSE(s.p99_interval);
}

TEST_CASE("headroom ranks what each ideal saves, with the scenario's own draws") {
  const Scenario scenario = loaded(
      small, {"workload.steps=3", "routing.skew=zipf:0.6", "noise.device_sigma=0.02", "noise.kernel_sigma=0.05"});
  const auto result = headroom(scenario, {});
  REQUIRE(result.ok());
  const auto saved = [&](const char* ideal) {
    const auto row =
        std::find_if(result->rows.begin(), result->rows.end(), [&](const auto& r) { return r.ideal == ideal; });
    REQUIRE(row != result->rows.end());
    CHECK(row->saved_s == Approx(result->step_time_s - row->step_time_s));
    return row->saved_s;
  };
  CHECK(std::is_sorted(result->rows.begin(), result->rows.end(),
                       [](const auto& a, const auto& b) { return a.saved_s > b.saved_s; }));
  CHECK(saved("balanced_routing") > 0);
  CHECK(saved("no_stragglers") > 0);
  CHECK(saved("free_ep") > 0);
  CHECK(saved("free_communication") >= saved("free_ep"));
  CHECK(saved("free_communication") >= saved("free_dp"));
  CHECK(saved("endless_memory_bandwidth") > 0);
  CHECK(std::any_of(result->left_out.begin(), result->left_out.end(),
                    [](const std::string& line) { return line.starts_with("free_tp"); }));
  CHECK(to_json(*result)["ideals"].size() == result->rows.size());
}

}  // namespace
}  // namespace stepcast::scenarios
