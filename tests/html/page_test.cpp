// Pages of every command: sound, equal to their JSON, and deaf to hostile names.
#include <algorithm>
#include <limits>
#include <numeric>

#include <catch2/catch.hpp>

#include "scenarios/html/markup.h"
#include "scenarios/html/pages.h"
#include "scenarios/report/report.h"
#include "scenarios/scenario.h"
#include "tests/html/check.h"
#include "tests/html/check_page.h"
#include "validation/validate_page.h"

namespace stepcast::html_tests {
namespace {

using nlohmann::ordered_json;
using namespace scenarios;

Forecast forecast_of(const std::string& name, std::vector<std::string> sets) {
  ScenarioRequest request;
  request.catalog_root = STEPCAST_SOURCE_DIR;
  request.file = std::filesystem::path(STEPCAST_SOURCE_DIR) / "scenarios" / "library" / (name + ".json");
  request.sets = std::move(sets);
  const auto scenario = load_scenario(request);
  REQUIRE(scenario.ok());
  ForecastOptions options;
  options.threads = 1;
  options.ignore_memory = true;
  auto forecast = scenarios::forecast(*scenario, options);
  REQUIRE(forecast.ok());
  return std::move(*forecast);
}

// A pipeline of experts, small enough for sanitizers.
Forecast small_pipeline() {
  return forecast_of("mixtral-8x7b-h100-8", {"cluster.devices=16", "parallelism.pp=4", "parallelism.tp=1",
                                             "parallelism.ep=4", "parallelism.vpp=1", "workload.global_batch=32",
                                             "workload.steps=2", "routing.skew=zipf:0.5", "noise.device_sigma=0.02"});
}

StepDetail detail_of(const Forecast& forecast, const DetailLimits& limits = {}) {
  auto detail = step_detail(forecast, limits);
  REQUIRE(detail.ok());
  return std::move(*detail);
}

double sum_of(const ordered_json& rows, std::size_t first, const std::string& line) {
  double sum = 0;
  for (const auto& row : rows) {
    if (row[0] != line) continue;
    for (std::size_t c = first; c < row.size(); ++c) sum += row[c].is_number() ? row[c].get<double>() : 0;
  }
  return sum;
}

TEST_CASE("Text is escaped, and what is no UTF-8 replaced") {
  CHECK(html::escaped("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(html::escaped("\xff\xc0\xaf\xed\xa0\x80z\n\x7f") ==
        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz  ");
  CHECK(html::escaped("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") == "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK(html::shortened("\xc3\xa9\xc3\xa9\xc3\xa9", 3) == "\xc3\xa9\xc3\xa9\xc3\xa9");
  CHECK(html::shortened("\xc3\xa9\xc3\xa9\xc3\xa9", 2) == "\xc3\xa9\xe2\x80\xa6");
  CHECK(html::coordinate(-0.001) == "0");
  CHECK(html::coordinate(10) == "10");
  CHECK(html::coordinate(1.256) == "1.26");
}

TEST_CASE("The page of a pipeline is sound, equals its JSON, and its charts add up") {
  const Forecast forecast = small_pipeline();
  const StepDetail detail = detail_of(forecast);
  const std::string page = html::simulate_page(forecast, detail);
  check_page(page, to_json(forecast));
  CHECK(numbers_in(page) > 200);
  const ordered_json charts = ordered_json::parse(data_of(page))["charts"];
  CHECK(charts["waterfall"]["rows"].back()[3].get<double>() == Approx(forecast.step_time.mean_s).epsilon(1e-5));
  const double duration = to_seconds(forecast.report.duration).value;
  std::size_t drawn = 0;
  for (const auto& row : charts["timeline"]["rows"]) drawn += row[0].get<std::string>().ends_with("schedule") ? 1 : 0;
  CHECK(drawn > 10);
  REQUIRE(detail.strips.size() == 3);
  for (const RankStrip& strip : detail.strips) {
    const std::string line = strip.cohort + ", rank " + std::to_string(strip.rank);
    CHECK(sum_of(charts["timeline"]["rows"], 4, line) == Approx(duration).epsilon(1e-4));
  }
  double path = 0;
  for (const auto& row : charts["critical-path"]["rows"]) path += row[2].get<double>() - row[1].get<double>();
  CHECK(path == Approx(duration).epsilon(1e-4));
  CHECK(charts["ranks"]["rows"].size() == 16);
  CHECK(detail.slow_factors.size() == 16);
  CHECK(charts["expert-layers"]["rows"].size() == forecast.scenario.spec.model.layers.size());
}

TEST_CASE("A page with less detail is smaller, and sound") {
  const Forecast forecast = small_pipeline();
  DetailLimits limits;
  limits.pieces = limits.calls = limits.memory_points = limits.cells = limits.path_marks = 8;
  const std::string coarse = html::simulate_page(forecast, detail_of(forecast, limits));
  check_page(coarse, to_json(forecast));
  const std::string fine = html::simulate_page(forecast, detail_of(forecast));
  CHECK(coarse.size() < fine.size());
  const auto chosen = html::simulate_page(forecast, nullptr);
  REQUIRE(chosen.ok());
  CHECK(*chosen == fine);
  CHECK(ordered_json::parse(data_of(coarse))["charts"]["critical-path"]["rows"].size() <= 8);
}

TEST_CASE("What is drawn of a rank keeps every category's time, however little may be drawn") {
  const Forecast forecast = small_pipeline();
  for (const std::size_t most : {4U, 40U, 100000U}) {
    DetailLimits limits;
    limits.pieces = limits.calls = limits.memory_points = most;
    const StepDetail detail = detail_of(forecast, limits);
    for (const RankStrip& strip : detail.strips) {
      CHECK(strip.pieces.size() <= std::max<std::size_t>(most, 1));
      CHECK(strip.calls.size() <= most);
      double at = 0;
      std::array<double, sim::category_count> seconds{};
      for (const StripPiece& piece : strip.pieces) {
        CHECK(piece.begin_s == at);
        at = piece.end_s;
        for (std::size_t c = 0; c < seconds.size(); ++c) seconds[c] += piece.seconds[c];
      }
      const auto& partition = forecast.report.by_rank[static_cast<std::size_t>(strip.rank)];
      for (std::size_t c = 0; c < seconds.size(); ++c) {
        CHECK(seconds[c] == Approx(to_seconds(partition[c]).value).margin(1e-9));
      }
    }
    double highest = 0;
    for (std::size_t i = 0; i < detail.memory.at_s.size(); ++i) {
      double total = 0;
      for (const auto& part : detail.memory.bytes) total += part[i];
      highest = std::max(highest, total);
      CHECK((i == 0 || detail.memory.at_s[i] >= detail.memory.at_s[i - 1]));
    }
    CHECK(detail.memory.rank == forecast.memory.peak_rank);
    CHECK(highest == Approx(forecast.report.memory.bytes).epsilon(1e-9));
  }
}

TEST_CASE("The page of a dense model on one stage is sound") {
  const Forecast forecast = forecast_of("llama-3-8b-h100-8", {"workload.steps=1"});
  check_page(html::simulate_page(forecast, detail_of(forecast)), to_json(forecast));
}

TEST_CASE("Hostile names stay text") {
  Forecast forecast = forecast_of("olmoe-1b-7b-h100-8", {"workload.steps=1"});
  forecast.scenario.name = hostile;
  forecast.scenario.spec.model.name = hostile;
  forecast.scenario.resolved["description"] = hostile;
  forecast.warnings.push_back(hostile);
  forecast.assumptions.push_back(hostile);
  forecast.memory.by_part[hostile + "/~"] = 1e9;
  forecast.communication.front().kind = hostile;
  const std::string page = html::simulate_page(forecast, detail_of(forecast));
  check_page(page, to_json(forecast));
  CHECK(page.find("<b>") == std::string::npos);
  CHECK(page.find("<img") == std::string::npos);
}

TEST_CASE("Pages of scale and compare are sound, with hostile names too") {
  ScaleCurve curve;
  curve.kind = ScalingKind::strong;
  curve.baseline_devices = 8;
  for (const int devices : {8, 16, 32, 64}) {
    ScalePoint p;
    p.devices = devices;
    p.feasible = devices != 64;
    p.global_batch = 64;
    if (!p.feasible) p.why = hostile;
    if (p.feasible) {
      p.step_time_s = 8.0 / devices + 0.1;
      p.tokens_per_s = 1e6 / p.step_time_s;
      p.speedup = 1.1 / p.step_time_s;
      p.efficiency = p.speedup * 8 / devices;
      p.mfu = 0.4 * p.efficiency;
      p.breakdown = {{"gemm", 8.0 / devices}, {"exposed_dp", 0.1}};
      if (devices == 16) p.breaks = {"dp leaves the NVLink domain", hostile};
      p.layout = hostile;
      if (devices == 32) p.not_scaling = {"batch: 64 -> 63", hostile};
    }
    curve.points.push_back(p);
  }
  curve.warnings = {hostile};
  check_page(html::scale_page(curve, hostile), to_json(curve));

  RunSummary a;
  a.name = hostile;
  a.devices = 8;
  a.step_time_s = 2;
  a.tokens_per_step = 1e6;
  a.mfu = a.hfu = 0.3;
  a.peak_memory_bytes = 6e10;
  a.breakdown_s = {{"gemm", 1.5}, {"bubble", 0.3}, {"wait_ep", 0.2}, {hostile + "/~", 0.1}};
  a.memory_bytes = {{"weights", 4e10}, {hostile, 2e10}};
  a.scenario = {{"model", {{"name", hostile}}}};
  RunSummary b = a;
  b.step_time_s = 1.5;
  b.breakdown_s = {{"gemm", 1.2}, {"bubble", 0.32}};
  const Comparison comparison = compare(a, b);
  check_page(html::compare_page(comparison), to_json(comparison));
  const Comparison same = compare(a, a);
  check_page(html::compare_page(same), to_json(same));
}

TEST_CASE("The page of a validation is sound, and stays under 1 MB with many rows") {
  validation::Validation v;
  for (int i = 0; i < 5000; ++i) {
    validation::RowResult r;
    r.id = i == 0 ? hostile : "row-" + std::to_string(i);
    r.family = i % 3 == 0 ? "own" : hostile;
    r.kind = i % 2 == 0 ? "moe" : "dense";
    r.device = "h100";
    r.measured_s = 1 + i % 17;
    r.predicted_s = r.measured_s * (0.6 + 0.0001 * i);
    r.error = r.predicted_s / r.measured_s - 1;
    r.assumed.assign(8, "recompute: none, for the row does not say");
    v.rows.push_back(r);
  }
  v.refused = {{hostile, 7, hostile}};
  v.all = v.memory = {5000, 0.2, 0.4, -0.1, 0.5};
  v.by_kind = {{"moe", v.all}, {"", v.all}};
  v.by_family = {{hostile, v.all}};
  v.layout_rank_correlation = {{hostile + "/~", 0.75}};
  const std::string page = validation::validate_page(v, hostile);
  const auto faults = faults_of(page);
  CAPTURE(faults);
  CHECK(faults.empty());
  const ordered_json data = ordered_json::parse(data_of(page));
  CHECK(data["result"]["summary"] == written(to_json(v))["summary"]);
  CHECK(data["charts"]["scatter"]["rows"].size() == 4000);
  v.rows.resize(20);
  check_page(validation::validate_page(v, "runs.csv"), to_json(v));
}

}  // namespace
}  // namespace stepcast::html_tests
