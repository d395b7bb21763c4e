// Pages of headroom, plan and calibrate: sound, equal to their JSON, and deaf to hostile names.
#include <catch2/catch.hpp>

#include "scenarios/html/pages.h"
#include "scenarios/report/report.h"
#include "scenarios/scenario.h"
#include "tests/html/check_page.h"
#include "validation/calibrate/calibrate_page.h"

namespace stepcast::html_tests {
namespace {

using nlohmann::ordered_json;
using namespace scenarios;

ordered_json charts_of(const std::string& page) { return ordered_json::parse(data_of(page))["charts"]; }

Headroom some_headroom() {
  Headroom h;
  h.name = hostile;
  h.step_time_s = 2;
  h.samples = 1;
  h.rows = {{"no_bubble", hostile, 1.5, 0.5, 4.0 / 3},
            {"no_host", "launches take no time", 1.9999, 0.0001, 1.00005},
            {hostile, "slower", 2.1, -0.1, 2 / 2.1}};
  h.left_out = {hostile};
  h.assumptions = {hostile};
  return h;
}

plan::PlanResult small_plan(const std::vector<int>& devices) {
  ScenarioRequest request;
  request.catalog_root = STEPCAST_SOURCE_DIR;
  request.model = "olmoe-1b-7b";
  request.cluster = "h100:8";
  request.sets = {"workload.global_batch=32"};
  plan::PlanOptions options;
  options.space.devices = devices;
  options.space.tp = {1, 2};
  options.space.pp = {1, 2};
  options.space.micro_batch = {1};
  options.space.schedule = {"1f1b"};
  options.space.sharding = {"zero1"};
  options.price_per_device_hour = 2;
  auto result = plan::plan(request, options);
  REQUIRE(result.ok());
  return std::move(*result);
}

validation::Calibration some_calibration() {
  using namespace validation;
  Calibration c;
  for (int i = 0; i < 8; ++i) {
    FittedValue v;
    v.constant.name = i == 0 ? hostile : "constant " + std::to_string(i);
    v.constant.meaning = i == 1 ? hostile : "what it is";
    v.constant.form = i % 2 == 0 ? CalibrationConstant::Form::factor : CalibrationConstant::Form::share;
    v.constant.prior = i % 2 == 0 ? 1 : 0.5;
    v.value = v.constant.prior * (0.8 + 0.05 * i);
    v.low = i == 3 ? -0.2 : 0.9 * v.value;
    v.high = 1.2 * v.value;
    v.told = 0.1 * i;
    v.rows = i == 7 ? 0 : i;
    v.at_bound = i == 2;
    c.values.push_back(v);
  }
  for (int i = 0; i < 30; ++i) {
    const double measured = 0.5 + i;
    c.rows.push_back({i == 0 ? hostile : std::to_string(i), "own", "h100", "megatron", 1, measured, 0.8 * measured,
                      (0.95 + 0.003 * i) * measured, 0.9 * measured, 0});
  }
  c.diagnosis.blind = {hostile};
  c.diagnosis.ridges = {{0.02, {{hostile, 1.2}, {"constant 1", 0.8}}}, {0.4, {{"constant 2", 1.1}}}};
  c.diagnosis.correlations = {{hostile, "constant 1", -0.9}, {"constant 2", "constant 3", 0.85}};
  c.diagnosis.outliers = {{hostile, -0.4, 4.2}};
  c.diagnosis.next = {{hostile, "", 0.2, 0.1}, {"constant 4", "a GEMM", 0.2, 0.15}};
  for (int i = 0; i < 3; ++i) {
    Prediction p;
    p.id = i == 0 ? hostile : "large " + std::to_string(i);
    p.measured_s = i == 1 ? 0 : 3;
    p.plain_s = 2.5;
    p.predicted_s = 2.8;
    p.low_s = 2.2;
    p.high_s = 3.5;
    p.nearest = hostile;
    p.breaks = {hostile};
    c.predicted.rows.push_back(p);
  }
  c.predicted.measured = 2;
  c.predicted.inside = 2;
  c.refused = c.predicted.refused = {{hostile, 7, hostile}};
  c.warnings = {hostile};
  c.before = {30, 0.2, 0.3, -0.2, 0.3};
  c.after = c.left_out = {30, 0.02, 0.04, 0.01, 0.05};
  c.sigma = 0.03;
  c.family_sigma = 0.05;
  return c;
}

TEST_CASE("The page of headroom is sound, alone and in a forecast's page") {
  const Headroom headroom = some_headroom();
  const std::string page = html::headroom_page(headroom);
  check_page(page, to_json(headroom));
  CHECK(page.find("<img") == std::string::npos);
  CHECK(charts_of(page)["headroom"]["rows"].size() == 3);
  check_page(html::headroom_page(Headroom{"none", 1, 1, {}, {"nothing applies"}, {}, true}),
             to_json(Headroom{"none", 1, 1, {}, {"nothing applies"}, {}, true}));

  ScenarioRequest request;
  request.catalog_root = STEPCAST_SOURCE_DIR;
  request.file = std::filesystem::path(STEPCAST_SOURCE_DIR) / "scenarios" / "library" / "olmoe-1b-7b-h100-8.json";
  request.sets = {"workload.steps=1"};
  const auto scenario = load_scenario(request);
  REQUIRE(scenario.ok());
  ForecastOptions options;
  options.threads = 1;
  const auto forecast = scenarios::forecast(*scenario, options);
  REQUIRE(forecast.ok());
  const auto detail = step_detail(*forecast, {});
  REQUIRE(detail.ok());
  ordered_json both = to_json(*forecast);
  both["headroom"] = to_json(headroom);
  const std::string whole = html::simulate_page(*forecast, *detail, &headroom);
  check_page(whole, both);
  CHECK(charts_of(whole).contains("headroom"));
}

TEST_CASE("The page of a plan is sound, equals its JSON, and its points add up") {
  for (const std::vector<int>& devices : {std::vector<int>{8}, std::vector<int>{8, 16}}) {
    const plan::PlanResult result = small_plan(devices);
    const std::string page = html::plan_page(result);
    check_page(page, to_json(result));
    CHECK(numbers_in(page) > 60);
    const ordered_json charts = charts_of(page);
    CHECK(charts.contains("devices-front") == (devices.size() > 1));
    std::int64_t points = 0, front = 0;
    for (const auto& row : charts["searched"]["rows"]) points += row[1].get<std::int64_t>();
    CHECK(points == result.counts.enumerated);
    for (const auto& row : charts["memory-front"]["rows"]) front += row[0] == "front" ? 1 : 0;
    CHECK(front == static_cast<std::int64_t>(result.memory_front.size()));
    CHECK(charts.contains("against-second"));
  }
}

TEST_CASE("The page of a plan takes hostile names, and results without a front or a second layout") {
  plan::PlanResult result = small_plan({8});
  result.model = result.cluster = result.scenario = hostile;
  result.layouts.front().words = hostile;
  result.layouts.front().settings.push_back(hostile);
  result.warnings = result.assumptions = {hostile};
  result.winner_arguments.title = hostile;
  result.against_runner_up.front().other_differences = {hostile};
  const std::string page = html::plan_page(result);
  check_page(page, to_json(result));
  CHECK(page.find("<img") == std::string::npos);
  result.memory_front.clear();
  result.against_runner_up.clear();
  result.interrupted = true;
  check_page(html::plan_page(result), to_json(result));
}

TEST_CASE("The page of a calibration is sound, equals its JSON, and takes hostile names") {
  const validation::Calibration c = some_calibration();
  const std::string page = validation::calibrate_page(c, hostile);
  check_page(page, to_json(c));
  CHECK(page.find("<img") == std::string::npos);
  const ordered_json charts = charts_of(page);
  CHECK(charts["factors"]["rows"].size() + charts["shares"]["rows"].size() == 6);  // two are not seen
  CHECK(charts["residuals"]["rows"].size() == 30);
  CHECK(charts["ridges"]["rows"].size() == 3);
  CHECK(charts["predictions"]["rows"].size() == 3);
  validation::Calibration bare;
  bare.rows = {c.rows.front()};
  check_page(validation::calibrate_page(bare, "runs.csv"), to_json(bare));
}

TEST_CASE("The page of a calibration stays under 1 MB with many rows") {
  validation::Calibration c = some_calibration();
  for (int i = 0; i < 3000; ++i) {
    c.rows.push_back({"a row with a long name " + std::to_string(i), "family", "h100", "megatron-core-2025", 1,
                      1.0 + i % 13, 1.1, 1.2, 1.3, 0.01});
  }
  const auto faults = faults_of(validation::calibrate_page(c, "runs.csv"));
  CAPTURE(faults);
  CHECK(faults.empty());
}

}  // namespace
}  // namespace stepcast::html_tests
