// Whole runs: worked case G, conservation of time, Young and Daly against sampled optima, the Llama 3 run.
#include <cmath>

#include <catch2/catch.hpp>

#include "scenarios/reliability/interval.h"
#include "scenarios/reliability/run_forecast.h"
#include "scenarios/reliability/settings_of.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

constexpr double hour = 3600;

Scenario library(const std::string& name, const std::vector<std::string>& sets = {}) {
  ScenarioRequest request;
  request.file = name;
  request.catalog_root = source_dir;
  request.sets = sets;
  auto scenario = load_scenario(request);
  INFO((scenario ? std::string() : shown(scenario.errors())));
  REQUIRE(scenario.ok());
  return std::move(*scenario);
}

double tokens_of(const Scenario& scenario) {
  return static_cast<double>(scenario.spec.workload.sequence_length) * scenario.spec.workload.global_batch;
}

RunPlan plan_of(const Scenario& scenario, double step_s) {
  return make_run_plan(scenario.spec, reliability_of(scenario.resolved), {step_s, tokens_of(scenario), 0.8});
}

RunForecast run_of(const Scenario& scenario, double step_s, const RunOptions& options = {}) {
  auto run = forecast_run(plan_of(scenario, step_s), options);
  INFO((run ? std::string() : shown(run.errors())));
  REQUIRE(run.ok());
  return std::move(*run);
}

// Failures of the job at a mean of `mtbf_s`, checkpoints that cost `cost_s`.
RunPlan simple_plan(double mtbf_s, double cost_s) {
  RunPlan plan;
  plan.step_s = 1;
  plan.tokens_per_step = 1000;
  plan.devices = 64;
  plan.devices_per_node = 8;
  plan.work_s = 200 * mtbf_s;
  plan.failures_per_s = {0, 0, 0, 1 / mtbf_s};
  plan.blocking_s = cost_s;
  plan.interval_s = daly_interval(cost_s, mtbf_s);
  plan.rule = IntervalRule::daly;
  plan.detect_s = 0.001 * mtbf_s;
  plan.restart_s = 0.01 * mtbf_s;
  return plan;
}

bool warned(const RunForecast& run, const std::string& text) {
  for (const std::string& warning : run.warnings) {
    if (warning.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("run: worked case G comes out exactly") {
  const RunForecast run = run_of(library("goodput-worked-case"), 1.0);
  CHECK(run.replicas == 1);
  const double wall = run.days.mean * 86400;
  CHECK(wall == Approx(3600).epsilon(1e-12));
  CHECK(run.goodput.mean * wall == Approx(2980).epsilon(1e-12));
  CHECK(std::round(1000 * run.goodput.mean) == 828);
  CHECK(run.lost_by_part_s(Part::checkpoint) == Approx(20).epsilon(1e-12));
  CHECK(run.events[static_cast<std::size_t>(Cause::checkpoint)] == 1);
  CHECK(run.lost_by_cause_s(Cause::job) == Approx(600).epsilon(1e-12));
  CHECK(run.events[static_cast<std::size_t>(Cause::job)] == 2);
}

TEST_CASE("run: the rate between two checkpoints is their tokens over the wall time between them") {
  RunPlan plan;
  plan.step_s = 10;
  plan.tokens_per_step = 2e9 / 178;
  plan.interval_s = 1780;
  plan.blocking_s = 20;
  CHECK(plan.tokens_per_s_between_checkpoints() == Approx(2e9 / 1800).epsilon(1e-12));
  CHECK(std::round(plan.tokens_per_s_between_checkpoints() / 1e4) == 111);
}

TEST_CASE("run: productive and lost time add up to the wall time") {
  const Scenario scenario = loaded(
      R"({"model": "mixtral-8x7b", "cluster": "h100:64", "parallelism": {"ep": 8},
          "reliability": {"device_mtbf_hours": 300, "node_mtbf_hours": 400, "link_mtbf_hours": 900,
                          "job_mtbf_hours": 20, "spare_nodes": 1, "repair_hours": 6, "planned_interval_hours": 50,
                          "asynchronous_checkpoint": true, "checkpoint_write_s": 200, "rollback_checkpoints": 1,
                          "total_tokens": 1e11}})");
  const RunPlan plan = plan_of(scenario, 2.5);
  for (std::uint64_t r = 0; r < 50; ++r) {
    const RunOutcome o = simulate_run(plan, r);
    CHECK(o.finished);
    CHECK(o.productive_s == plan.work_s);
    CHECK(o.productive_s + o.lost_s() == Approx(o.wall_s).epsilon(1e-9));
    CHECK(o.wall_s == simulate_run(plan, r).wall_s);
  }
  const RunForecast run = run_of(scenario, 2.5, {200, false});
  for (const Part part :
       {Part::checkpoint, Part::rework, Part::detection, Part::restart, Part::waiting_for_node, Part::planned_stop}) {
    CAPTURE(name(part));
    CHECK(run.lost_by_part_s(part) > 0);
  }
  CHECK(run.days.p10 <= run.days.p50);
  CHECK(run.days.p50 <= run.days.p90);
}

TEST_CASE("run: sampled failures come as often as their means say") {
  const Scenario scenario = loaded(
      R"({"model": "mixtral-8x7b", "cluster": "h100:64", "parallelism": {"ep": 8},
          "reliability": {"device_mtbf_hours": 6400, "node_mtbf_hours": 1600, "job_mtbf_hours": 100,
                          "duration_hours": 1000, "checkpoint_interval_s": 600}})");
  const RunForecast run = run_of(scenario, 2.5, {4000, false});
  // 10 of devices, 5 of nodes, 10 of the job in 1000 hours, less those that fall into detection; 4000 runs.
  CHECK(run.events[0] == Approx(10).epsilon(0.02));
  CHECK(run.events[1] == Approx(5).epsilon(0.02));
  CHECK(run.events[2] == 0);
  CHECK(run.events[3] == Approx(10).epsilon(0.02));
}

TEST_CASE("run: the sampled wall time is that of Daly's formula") {
  for (const double cost : {0.001, 0.01, 0.1}) {
    RunPlan plan = simple_plan(10000, cost * 10000);
    plan.detect_s = 0;
    RunOptions options;
    options.replicas = 2000;
    options.check_interval = false;
    const auto run = forecast_run(plan, options);
    REQUIRE(run.ok());
    const double expected = expected_stretch(plan.interval_s, plan.blocking_s, plan.restart_s, 10000);
    CHECK(run->days.mean * 86400 / plan.work_s == Approx(expected).epsilon(0.003));
  }
}

TEST_CASE("run: Daly's interval is within 2 % of the sampled optimum where its assumptions hold") {
  for (const double cost : {0.001, 0.01, 0.1, 0.5}) {
    CAPTURE(cost);
    const RunPlan plan = simple_plan(10000, cost * 10000);
    RunOptions options;
    options.replicas = 10;
    const auto run = forecast_run(plan, options);
    REQUIRE(run.ok());
    CHECK(std::abs(plan.interval_s / run->sampled_s - 1) < 0.02);
    CHECK_FALSE(warned(*run, "Daly"));
  }
  // Young's rule is the first order of the same; it agrees for small costs and says so for large ones.
  RunPlan young = simple_plan(10000, 2);
  young.rule = IntervalRule::young;
  young.interval_s = young_interval(2, 10000);
  auto run = forecast_run(young, {10, true});
  REQUIRE(run.ok());
  CHECK(std::abs(young.interval_s / run->sampled_s - 1) < 0.02);
  young.blocking_s = 1000;
  young.interval_s = young_interval(1000, 10000);
  run = forecast_run(young, {10, true});
  REQUIRE(run.ok());
  CHECK(warned(*run, "Young"));
}

TEST_CASE("run: a warning where the rules' assumptions do not hold") {
  const auto check = [](RunPlan plan, const char* why) {
    const auto run = forecast_run(std::move(plan), {10, true});
    REQUIRE(run.ok());
    INFO(run->sampled_s);
    CHECK(warned(*run, why));
  };
  RunPlan expensive = simple_plan(10000, 15000);
  expensive.work_s = 1e6;
  check(expensive, "as long as the time between failures");
  RunPlan rollback = simple_plan(10000, 50);
  rollback.rollback = 2;
  check(rollback, "rollback");
  const Scenario background = loaded(
      R"({"model": "mixtral-8x7b", "cluster": "h100:64", "parallelism": {"ep": 8},
          "reliability": {"job_mtbf_hours": 3, "checkpoint_blocking_s": 1, "checkpoint_write_s": 1001,
                          "duration_hours": 1000}})");
  const RunForecast slow_write = run_of(background, 2.5, {10, true});
  CHECK(slow_write.plan.interval_s == 1000);
  CHECK(warned(slow_write, "the one before must be durable"));
}

TEST_CASE("run: 16,384 devices for 54 days as published for Llama 3") {
  const Scenario scenario = library("llama-3.1-405b-h100-16384");
  const RunForecast run = run_of(scenario, 6.4, {500, false});
  CHECK(run.days.mean == Approx(54).epsilon(1e-12));
  CHECK(run.interruptions.mean == Approx(466).epsilon(0.05));
  CHECK(run.events[static_cast<std::size_t>(Cause::planned)] == Approx(47).epsilon(0.05));
  CHECK(run.goodput.p10 > 0.90);
  CHECK(run.goodput.p90 < 0.97);
}

TEST_CASE("run: cost and energy follow from prices and power") {
  const Scenario scenario = loaded(
      R"({"model": "mixtral-8x7b", "cluster": "h100:64", "parallelism": {"ep": 8},
          "reliability": {"failures_at_s": [], "checkpoint_interval_s": 1e8, "duration_hours": 10,
                          "price_per_device_hour": 2, "price_per_kwh": 0.1, "currency": "EUR", "spare_nodes": 1,
                          "busy_power_w": 700, "idle_power_w": 100, "host_power_w": 300, "pue": 1.2}})");
  const RunForecast run = run_of(scenario, 2.5);
  CHECK(run.goodput.mean == Approx(1));
  CHECK(run.device_hours == Approx(72 * 10));
  // 64 devices at 300 + 100 + 600 x 0.8 W and 8 idle spares at 400 W, ten hours, times the facility's 1.2.
  CHECK(run.energy_kwh == Approx((64 * 880 + 8 * 400) * 1.2 * 10 / 1000));
  CHECK(run.cost == Approx(720 * 2 + 0.1 * run.energy_kwh));
  const auto json = to_json(run);
  const double tokens = 10 * hour / 2.5 * tokens_of(scenario);
  CHECK(json["cost_per_million_tokens"].get<double>() == Approx(run.cost / tokens * 1e6));
}

TEST_CASE("run: every default is an assumption, and an explicit block has none") {
  const Scenario bare = loaded(R"({"model": "mixtral-8x7b", "cluster": "h100:64", "parallelism": {"ep": 8}})");
  const RunPlan plan = plan_of(bare, 2.5);
  std::string all;
  for (const std::string& a : plan.assumptions) all += a + "\n";
  for (const char* key : {"MTBF", "checkpoint_gb ", "checkpoint_gb_per_s", "asynchronous_checkpoint", "restart_s",
                          "detect_s", "spare_nodes", "total_tokens", "checkpoint_interval_s", "busy_power_w",
                          "idle_power_w", "host_power_w", "pue"}) {
    CAPTURE(key);
    CHECK(all.find(key) != std::string::npos);
  }
  const RunPlan case_g = plan_of(library("goodput-worked-case"), 1);
  for (const std::string& a : case_g.assumptions) {
    CAPTURE(a);
    CHECK((a.find("power") != std::string::npos || a.find("pue") != std::string::npos));
  }
}

TEST_CASE("run: a run that gets nowhere is refused, not simulated for ever") {
  RunPlan plan = simple_plan(60, 30);
  plan.restart_s = 600;
  const auto run = forecast_run(plan, {});
  REQUIRE_FALSE(run.ok());
  CHECK(run.errors().front().code == ErrorCode::infeasible);
  CHECK(run.errors().front().message.find("gets nowhere") != std::string::npos);
  RunPlan many = simple_plan(60, 0.01);
  many.work_s = 1e9;
  const auto refused = forecast_run(many, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.errors().front().message.find("replicas") != std::string::npos);
}

TEST_CASE("run: bad reliability blocks are refused with their place") {
  const auto refused = [](const std::string& block) {
    const auto s = load_text(
        R"({"model": "mixtral-8x7b", "cluster": "h100:8", "parallelism": {"ep": 8}, "reliability": )" + block + "}");
    CAPTURE(block);
    REQUIRE_FALSE(s.ok());
    CHECK(s.errors().front().where.find("/reliability") != std::string::npos);
    return shown(s.errors());
  };
  CHECK(refused(R"({"checkpoint_interval_s": "dayl"})").find("daly") != std::string::npos);
  CHECK(refused(R"({"checkpoint_interval_s": 0})").find("from 1") != std::string::npos);
  CHECK(refused(R"({"device_mtbf_hour": 5})").find("device_mtbf_hours") != std::string::npos);
  CHECK(refused(R"({"failures_at_s": [5, 3]})").find("ascending") != std::string::npos);
  CHECK(refused(R"({"failures_at_s": [-1]})").find("ascending") != std::string::npos);
  CHECK(refused(R"({"failures_at_s": [1], "job_mtbf_hours": 3})").find("one of them") != std::string::npos);
  CHECK(refused(R"({"total_tokens": 1e9, "duration_hours": 3})").find("one of them") != std::string::npos);
  CHECK(refused(R"({"planned_stop_s": 3})").find("planned_interval_hours") != std::string::npos);
  CHECK(refused(R"({"repair_hours": 3})").find("spare_nodes") != std::string::npos);
  CHECK(refused(R"({"idle_power_w": 700, "busy_power_w": 100})").find("busy_power_w") != std::string::npos);
  CHECK(refused(R"({"asynchronous_checkpoint": false, "checkpoint_blocking_s": 3})").find("asynchronous") !=
        std::string::npos);
  CHECK(refused(R"({"pue": 0.5})").find("from 1") != std::string::npos);
}

}  // namespace stepcast::scenarios
