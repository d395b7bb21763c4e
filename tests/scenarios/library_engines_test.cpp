// Every library scenario of up to 64 devices: lockstep and oracle agree on every op of every rank to the picosecond.
// The batch is cut to a few microbatches a pipeline so that the stored graph stays small.
#include <catch2/catch.hpp>

#include <filesystem>

#include <fmt/format.h>

#include "parallelism/lower.h"
#include "scenarios/scenario.h"
#include "sim/base/rng.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/oracle.h"

using namespace stepcast;

namespace {

const std::filesystem::path root = STEPCAST_SOURCE_DIR;
constexpr int most_devices = 64;

// A sum over ops of a hash of (cohort, ordinal, lane, ready, begin, end): the same whatever the order of events.
class TimesSum final : public sim::Sink {
 public:
  void on_instruction(const sim::InstructionEvent& e) override {
    const auto key = static_cast<std::uint64_t>(e.cohort) << 40 ^ e.ordinal;
    for (std::size_t lane = 0; lane < e.end.size(); ++lane) {
      std::uint64_t h = mix64(key ^ static_cast<std::uint64_t>(lane) << 20);
      for (const Ticks t : {e.ready[lane], e.begin[lane], e.end[lane]}) h = mix64(h ^ static_cast<std::uint64_t>(t));
      sum_ += h;
      ++ops_;
    }
  }
  void on_step_end(std::uint64_t, int, std::span<const Ticks>) override {}
  [[nodiscard]] std::uint64_t sum() const { return sum_; }
  [[nodiscard]] std::int64_t ops() const { return ops_; }

 private:
  std::uint64_t sum_ = 0;
  std::int64_t ops_ = 0;
};

scenarios::Scenario small_batch(const std::string& name) {
  scenarios::ScenarioRequest request;
  request.file = name;
  request.catalog_root = root;
  const auto whole = scenarios::load_scenario(request);
  REQUIRE(whole.ok());
  const auto& spec = whole->spec;
  const int pipelines = spec.cluster.devices / (spec.degrees.tp * spec.degrees.cp * spec.degrees.pp);
  const int microbatches = spec.degrees.pp == 1 ? 2 : 2 * spec.degrees.pp;
  request.sets = {fmt::format("workload.global_batch={}", pipelines * spec.workload.micro_batch * microbatches)};
  const auto small = scenarios::load_scenario(request);
  REQUIRE(small.ok());
  return *small;
}

}  // namespace

TEST_CASE("library scenarios of up to 64 devices run alike in lockstep and in the oracle") {
  const auto entries = scenarios::list_library(root);
  REQUIRE(entries.ok());
  int compared = 0;
  for (const auto& entry : *entries) {
    scenarios::ScenarioRequest request;
    request.file = entry.name;
    request.catalog_root = root;
    const auto scenario = scenarios::load_scenario(request);
    REQUIRE(scenario.ok());
    if (scenario->spec.cluster.devices > most_devices) continue;
    INFO(entry.name);
    const scenarios::Scenario small = small_batch(entry.name);
    const auto lowered = parallelism::lower(small.spec);
    REQUIRE(lowered.ok());
    const auto slow = lowered->slow_factors(small.spec, 0);
    sim::Conditions conditions;
    conditions.seed = small.spec.seed;
    conditions.slow_by_rank = slow;
    conditions.kernel_sigma = 0.01;
    conditions.loads = lowered->routing.get();
    TimesSum fast, exact;
    sim::RunOptions options;
    options.steps = 1;
    options.sink = &fast;
    REQUIRE(sim::run_lockstep(lowered->program, conditions, options).ok());
    options.sink = &exact;
    REQUIRE(sim::run_oracle(lowered->program, conditions, options).ok());
    CHECK(fast.ops() == lowered->program.rank_ops());
    CHECK(fast.ops() == exact.ops());
    CHECK(fast.sum() == exact.sum());
    ++compared;
  }
  CHECK(compared >= 5);
}
