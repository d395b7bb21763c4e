// The layout search: its optimum is that of simulating everything, its points are what the loader reads, and neither
// the number of threads nor an interruption changes what it says.
#include <catch2/catch.hpp>

#include <algorithm>

#include "scenarios/plan/exact.h"
#include "scenarios/plan/plan.h"
#include "tests/scenarios/load.h"

using namespace stepcast;
using namespace stepcast::scenarios;
using namespace stepcast::scenarios::plan;

namespace {

ScenarioRequest pair(const std::string& model, const std::string& cluster, const std::vector<std::string>& sets) {
  ScenarioRequest request;
  request.model = model;
  request.cluster = cluster;
  request.sets = sets;
  request.catalog_root = source_dir;
  return request;
}

SpaceRequest small_space() {
  SpaceRequest space;
  space.tp = {1, 2};
  space.cp = {1};
  space.pp = {1, 2};
  space.ep = {4, 8};
  space.etp = {1};
  space.micro_batch = {1, 2};
  space.vpp = {1, 2};
  space.schedule = {"1f1b", "interleaved", "zb-h1", "coscheduled"};
  space.sharding = {"zero1"};
  space.recompute = {"none", "full"};
  space.dispatcher = {"alltoall"};
  space.overlap = {"profile"};
  return space;
}

const std::vector<std::string> small_job = {"workload.global_batch=32", "workload.sequence_length=2048"};

// Every valid point of the space simulated, best first.
std::vector<Found> simulate_all(const ScenarioRequest& request, const SpaceRequest& asked, double headroom) {
  ScenarioRequest free = request;
  free.check_layout = false;
  const auto scenario = load_scenario(free);
  REQUIRE(scenario.ok());
  const auto space = make_space(*scenario, asked);
  REQUIRE(space.ok());
  const topology::Fabric fabric(scenario->spec.cluster);
  const double limit = scenario->spec.cluster.device.hbm.value * (1 - headroom);
  const SearchBase base{scenario->spec, *space, fabric, 1e18, 1};
  std::vector<Found> found;
  std::vector<std::int64_t> refused;
  for (const int batch : space->global_batch) {
    for (const int tp : space->tp) {
      for (const int cp : space->cp) {
        for (const int pp : space->pp) {
          for (const int ep : space->ep) {
            for (const int etp : space->etp) {
              const auto n = [](int v) { return static_cast<std::int16_t>(v); };
              OutlinerCache outliners;
              Family family(base, {batch, n(tp), n(cp), n(pp), n(ep), n(etp)}, outliners);
              for (const Judged& j : family.judge(refused)) {
                parallelism::StepSpec spec = scenario->spec;
                apply(*space, j.point, spec);
                const auto exact = simulate_layout(spec, limit);
                if (!exact || exact->memory.peak_bytes > limit) continue;
                found.push_back({j.point, exact->seconds, 0, exact->memory.peak_bytes});
              }
            }
          }
        }
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.seconds / a.point.global_batch < b.seconds / b.point.global_batch;
  });
  return found;
}

// The search's ranking against all of the space simulated.
std::size_t expect_the_same(const ScenarioRequest& request, const SpaceRequest& space, int top, double headroom) {
  PlanOptions options;
  options.space = space;
  options.top = top;
  options.headroom = headroom;
  options.fronts = false;
  const auto planned = plan::plan(request, options);
  INFO((planned ? std::string() : shown(planned.errors())));
  REQUIRE(planned.ok());
  const std::vector<Found> all = simulate_all(request, space, headroom);
  REQUIRE(planned->layouts.size() == std::min(all.size(), static_cast<std::size_t>(top)));
  for (std::size_t i = 0; i < planned->layouts.size(); ++i) {
    CHECK(planned->layouts[i].step_time_s == all[i].seconds);
    CHECK(planned->layouts[i].bound_s <= planned->layouts[i].step_time_s);
  }
  return all.size();
}

}  // namespace

TEST_CASE("the optimum is that of simulating the whole space") {
  expect_the_same(pair("olmoe-1b-7b", "h100:8", small_job), small_space(), 3, 0);
}

TEST_CASE("a search that is interrupted before a layout is simulated says what was judged") {
  PlanOptions options;
  options.space = small_space();
  options.cancelled = [] { return true; };
  const auto planned = plan::plan(pair("olmoe-1b-7b", "h100:8", small_job), options);
  REQUIRE(planned.ok());
  CHECK(planned->interrupted);
  CHECK(planned->layouts.empty());
  const auto json = to_json(*planned);
  CHECK(json["interrupted"] == true);
  CHECK(json["layouts"].empty());
  CHECK(json["counts"]["simulated"] == 0);
  CHECK(to_table(*planned, false).find("interrupted before a layout was simulated") != std::string::npos);
  const std::string csv = to_csv(*planned);
  CHECK(csv.find('\n') == csv.size() - 1);
}

TEST_CASE("the optimum of larger spaces is that of simulating all of them", "[slow]") {
  SpaceRequest wide = small_space();
  wide.pp = {1, 2, 4};
  wide.ep = {2, 4, 8};
  wide.schedule = {"1f1b", "interleaved", "zb-v", "coscheduled", "dualpipe"};
  wide.sharding = {"zero1", "zero2"};
  wide.recompute = {"none", "selective", "full"};
  wide.dispatcher = {"alltoall", "deepep"};
  SpaceRequest dense = wide;
  dense.ep = {1};
  dense.tp = {1, 2, 4, 8};
  dense.cp = {1, 2};
  dense.micro_batch = {1, 2, 4};
  dense.schedule = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"};
  dense.dispatcher = {};
  dense.overlap = {"all", "none"};
  struct Case {
    const char *model, *cluster;
    std::vector<std::string> sets;
    double headroom;
    bool moe;
  };
  const std::vector<Case> cases = {
      {"olmoe-1b-7b", "h100:8", {"workload.global_batch=32", "workload.sequence_length=2048"}, 0, true},
      {"mixtral-8x7b", "h100:32", {"workload.global_batch=64", "workload.sequence_length=4096"}, 0, true},
      {"qwen3-30b-a3b", "h100:16", {"workload.global_batch=32", "routing.skew=zipf:0.3"}, 0.1, true},
      {"llama-3-8b", "h100:32", {"workload.global_batch=64", "workload.sequence_length=8192"}, 0, false},
      {"gpt-oss-20b", "h100:16", {"workload.global_batch=32", "noise.device_sigma=0.01"}, 0, true},
  };
  for (const Case& c : cases) {
    INFO(c.model << " on " << c.cluster);
    const std::size_t points = expect_the_same(pair(c.model, c.cluster, c.sets), c.moe ? wide : dense, 5, c.headroom);
    WARN(c.model << " on " << c.cluster << ": " << points << " layouts that fit");
    CHECK(points > 500);
  }
}

TEST_CASE("a point is the step that its settings load") {
  const ScenarioRequest request = pair("olmoe-1b-7b", "h100:8", small_job);
  PlanOptions options;
  options.space = small_space();
  options.top = 4;
  options.fronts = false;
  const auto planned = plan::plan(request, options);
  INFO((planned ? std::string() : shown(planned.errors())));
  REQUIRE(planned.ok());
  for (const PlannedLayout& l : planned->layouts) {
    ScenarioRequest again = request;
    again.sets.insert(again.sets.end(), l.settings.begin(), l.settings.end());
    const auto scenario = load_scenario(again);
    INFO(l.words << (scenario ? std::string() : shown(scenario.errors())));
    REQUIRE(scenario.ok());
    const auto exact = simulate_layout(scenario->spec, 1e18);
    REQUIRE(exact.ok());
    CHECK(exact->seconds == l.step_time_s);
    CHECK(exact->memory.peak_bytes == l.peak_bytes);
    // Ranks are alike here: one lane a stage tells what all of them do.
    const auto all_ranks = simulate_layout(scenario->spec, 1e18, false);
    REQUIRE(all_ranks.ok());
    CHECK(all_ranks->seconds == exact->seconds);
    CHECK(all_ranks->memory.peak_bytes == exact->memory.peak_bytes);
  }
  // The written winner simulates to the same step.
  ScenarioRequest written;
  written.text = planned->winner.dump();
  written.text_name = "winner";
  written.catalog_root = source_dir;
  const auto winner = load_scenario(written);
  INFO((winner ? std::string() : shown(winner.errors())));
  REQUIRE(winner.ok());
  ForecastOptions forecasting;
  forecasting.threads = 1;
  const auto forecast = scenarios::forecast(*winner, forecasting);
  REQUIRE(forecast.ok());
  CHECK(forecast->step_time.mean_s == planned->layouts.front().step_time_s);
  CHECK(forecast->memory.peak_bytes == planned->layouts.front().peak_bytes);
  CHECK(forecast->utilisation.mfu == Approx(planned->layouts.front().mfu));
}

TEST_CASE("threads change nothing of a plan") {
  const ScenarioRequest request = pair("olmoe-1b-7b", "h100:8", small_job);
  PlanOptions options;
  options.space = small_space();
  const auto text = [&](int threads) {
    options.threads = threads;
    const auto planned = plan::plan(request, options);
    REQUIRE(planned.ok());
    nlohmann::ordered_json json = plan::to_json(*planned);
    json.erase("search");
    json.erase("layouts_per_s");
    return json.dump();
  };
  const std::string one = text(1);
  CHECK(one == text(2));
  CHECK(one == text(3));
}

TEST_CASE("points add up and headroom is kept") {
  const ScenarioRequest request = pair("mixtral-8x7b", "h100:16", small_job);
  PlanOptions options;
  options.space = small_space();
  options.space.devices = {16, 32};
  options.headroom = 0.2;
  options.price_per_device_hour = 2;
  const auto planned = plan::plan(request, options);
  INFO((planned ? std::string() : shown(planned.errors())));
  REQUIRE(planned.ok());
  const Counts& c = planned->counts;
  std::int64_t refused = 0;
  for (const auto n : c.refused) refused += n;
  CHECK(c.enumerated == refused + c.valid);
  CHECK(c.valid == c.pruned + c.simulated + c.out_of_memory + c.failed);
  CHECK(c.failed == 0);
  REQUIRE(!planned->devices_front.empty());
  for (const PlannedLayout& l : planned->layouts) {
    CHECK(l.free_share >= 0.2);
    CHECK(l.cost_per_million_tokens == Approx(2.0 * l.point.devices / 3600 / l.tokens_per_s * 1e6));
  }
  for (std::size_t i = 1; i < planned->memory_front.size(); ++i) {
    CHECK(planned->memory_front[i].tokens_per_s < planned->memory_front[i - 1].tokens_per_s);
    CHECK(planned->memory_front[i].free_share > planned->memory_front[i - 1].free_share);
  }
}

TEST_CASE("a plan without a layout says what was refused") {
  PlanOptions options;
  options.space = small_space();
  options.space.recompute = {"none"};
  const auto too_large = plan::plan(pair("deepseek-v3", "h100:8", small_job), options);
  REQUIRE(!too_large.ok());
  CHECK(too_large.errors().front().code == ErrorCode::infeasible);
  CHECK(too_large.errors().front().message.find("cannot fit") != std::string::npos);

  options.space.schedule = {"1f1c"};
  const auto unknown = plan::plan(pair("olmoe-1b-7b", "h100:8", small_job), options);
  REQUIRE(!unknown.ok());
  CHECK(unknown.errors().front().code == ErrorCode::usage);
  CHECK(unknown.errors().front().where == "--schedule");
  CHECK(unknown.errors().front().message.find("did you mean") != std::string::npos);
}

TEST_CASE("an interrupted plan keeps what it has found") {
  PlanOptions options;
  options.space = small_space();
  int simulated = 0;
  options.progress = [&](const char*, long long done, long long total) {
    if (total == 0) simulated = static_cast<int>(done);
  };
  options.cancelled = [&] { return simulated > 0; };
  const auto planned = plan::plan(pair("olmoe-1b-7b", "h100:8", small_job), options);
  INFO((planned ? std::string() : shown(planned.errors())));
  REQUIRE(planned.ok());
  CHECK(planned->interrupted);
  CHECK(!planned->layouts.empty());
}
