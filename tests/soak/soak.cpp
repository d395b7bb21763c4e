// Engines against each other on random programs and random scenarios, until the time is up. Not part of the default
// tests. Usage: soak SECONDS [FIRST_SEED]; ends with 1 at the first disagreement and names its seed.
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "scenarios/samples.h"
#include "scenarios/scenario.h"
#include "sim/engine/contended.h"
#include "sim/engine/oracle.h"
#include "tests/sim/shared_links.h"

namespace {

using namespace stepcast;

bool same(const sim::RunResult& a, const sim::RunResult& b) {
  return a.step_end == b.step_end && a.rank_end == b.rank_end;
}

bool random_programs(std::uint64_t seed, std::int64_t& late) {
  sim::Program program = sim::testing::random_program(seed, seed % 3 == 0);
  const sim::testing::HashedLoads loads(seed);
  sim::Conditions conditions;
  conditions.seed = seed;
  conditions.loads = &loads;
  conditions.kernel_sigma = seed % 2 == 0 ? 0.1 : 0;
  const auto lockstep = sim::run_lockstep(program, conditions, {});
  const auto oracle = sim::run_oracle(program, conditions, {});
  if (lockstep.ok() != oracle.ok() || (oracle.ok() && !same(*lockstep, *oracle))) return false;
  sim::testing::share_randomly(program, seed);
  const auto contended = sim::run_contended(program, conditions, {});
  const auto shared = sim::run_oracle(program, conditions, {});
  if (contended.ok() != shared.ok()) return false;
  // Flows that begin late (flows.h) begin when their engine gets to them: such programs are not comparable.
  if (shared.ok() && contended->flows.late > 0) {
    ++late;
    return true;
  }
  return !shared.ok() || same(contended->result, *shared);
}

// A library scenario of up to `most_devices` with a few microbatches and random noise, skew and sharing.
bool random_scenario(std::uint64_t seed, const std::vector<scenarios::LibraryEntry>& library, int most_devices) {
  sim::testing::Draws draws(seed);
  scenarios::ScenarioRequest request;
  request.catalog_root = STEPCAST_SOURCE_DIR;
  request.file = library[static_cast<std::size_t>(draws.below(static_cast<int>(library.size())))].name;
  const auto whole = scenarios::load_scenario(request);
  if (!whole || whole->spec.cluster.devices > most_devices) return true;
  const auto& d = whole->spec.degrees;
  const int pipelines = whole->spec.cluster.devices / (d.tp * d.cp * d.pp);
  const int microbatches = d.pp * (1 + draws.below(2));
  request.sets = {fmt::format("workload.global_batch={}", pipelines * whole->spec.workload.micro_batch * microbatches),
                  fmt::format("fabric.contention={}", draws.chance(70) ? "on" : "off"),
                  fmt::format("cluster.oversubscription={}", 1 + draws.below(4)),
                  fmt::format("cluster.leaf_radix={}", 1 + draws.below(4)),
                  fmt::format("cluster.placement={}", draws.chance(50) ? "packed" : "scattered"),
                  fmt::format("cluster.routing={}", draws.chance(50) ? "sprayed" : "hashed"),
                  fmt::format("noise.kernel_sigma=0.0{}", draws.below(9)),
                  fmt::format("noise.device_sigma=0.0{}", draws.below(9)),
                  fmt::format("seed={}", seed)};
  const auto scenario = scenarios::load_scenario(request);
  if (!scenario) return true;
  const auto lowered = parallelism::lower(scenario->spec);
  if (!lowered) return true;
  const scenarios::SampleConditions met(scenario->spec, *lowered, lowered->routing.get(), 0);
  const auto exact = sim::run_oracle(lowered->program, met.conditions(), {});
  if (!sim::shares_links(lowered->program)) {
    const auto fast = sim::run_lockstep(lowered->program, met.conditions(), {});
    return fast.ok() == exact.ok() && (!exact.ok() || same(*fast, *exact));
  }
  const auto fast = sim::run_contended(lowered->program, met.conditions(), {});
  return fast.ok() == exact.ok() && (!exact.ok() || same(fast->result, *exact));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 60;
  std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const int most_devices = argc > 3 ? std::atoi(argv[3]) : 64;
  const auto library = scenarios::list_library(STEPCAST_SOURCE_DIR);
  if (!library) return 2;
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t programs = 0, scenario_runs = 0, late = 0;
  for (; std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds; ++seed) {
    ++programs;
    if (!random_programs(seed, late)) {
      fmt::print("engines disagree on the random program of seed {}\n", seed);
      return 1;
    }
    if (seed % 100 != 0) continue;
    ++scenario_runs;
    if (!random_scenario(seed, *library, most_devices)) {
      fmt::print("engines disagree on the random scenario of seed {}\n", seed);
      return 1;
    }
  }
  fmt::print(
      "{} random programs ({} of them with late flows, not compared) and {} random scenarios: all engines agree\n",
      programs, late, scenario_runs);
  return 0;
}
