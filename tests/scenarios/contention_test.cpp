// Contention through the whole product: what overlapping transfers cost on a fabric, and when they cost nothing.
#include <catch2/catch.hpp>

#include "load.h"
#include "scenarios/samples.h"
#include "sim/engine/oracle.h"
#include "sim/program/program.h"

namespace stepcast::scenarios {
namespace {

// 64-way experts' little sister: 16-way over two boxes, gradients reduced beside the last backward.
const char* const moe = R"({
  "model": "olmoe-1b-7b",
  "cluster": {"preset": "h100", "devices": 32, "leaf_radix": 2},
  "parallelism": {"tp": 1, "pp": 2, "ep": 16, "schedule": "1f1b", "sharding": "zero1"},
  "workload": {"sequence_length": 2048, "global_batch": 64, "micro_batch": 1, "steps": 1},
  "routing": {"skew": "zipf:0.1"},
  "overlap": {"gradients": true, "gradient_bucket_bytes": 50000000},
  "noise": {"device_sigma": 0.01},
  "seed": 3
})";

const std::vector<std::string> narrow_and_scattered = {"fabric.contention=on", "cluster.oversubscription=4",
                                                       "cluster.placement=scattered"};
const std::vector<std::string> flow_levels = {"auto", "macro", "box", "nic"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

struct Ran {
  double seconds = 0;
  sim::FlowStats flows;
  bool shares = false;
};

Ran run(const std::string& text, std::vector<std::string> sets, int threads = 1) {
  const Scenario scenario = loaded(text, sets);
  const auto lowered = parallelism::lower(scenario.spec);
  REQUIRE(lowered.ok());
  Simulated simulated;
  choose_program(scenario.spec, *lowered, false, simulated);
  const auto samples = run_samples(scenario.spec, *lowered, simulated, {threads, {}, {}});
  REQUIRE(samples.ok());
  return {samples->seconds.front(), samples->flows, sim::shares_links(lowered->program)};
}

TEST_CASE("a gradient reduction beside the expert exchange costs time on shared NICs") {
  const Ran off = run(moe, {});
  const Ran on = run(moe, {"fabric.contention=on"});
  CHECK_FALSE(off.shares);
  REQUIRE(on.shares);
  CHECK(on.flows.slowed > 0);
  CHECK(on.flows.late == 0);
  CHECK(on.seconds > off.seconds);
}

TEST_CASE("one kind of transfer alone has its links to itself") {
  const char* const dense = R"({
    "model": "llama-3-8b", "cluster": "h100:16",
    "parallelism": {"tp": 1, "pp": 1, "sharding": "zero1"},
    "workload": {"sequence_length": 4096, "global_batch": 32, "micro_batch": 1, "steps": 1}
  })";
  const Ran off = run(dense, {});
  const Ran on = run(dense, {"fabric.contention=on"});
  CHECK_FALSE(on.shares);
  CHECK(on.seconds == off.seconds);
}

TEST_CASE("fewer uplinks, another job and scattered boxes cost time, and never give any") {
  const Ran wide = run(moe, {"fabric.contention=on"});
  const Ran narrow = run(moe, {"fabric.contention=on", "cluster.oversubscription=4"});
  const Ran scattered = run(moe, {"fabric.contention=on", "cluster.oversubscription=4", "cluster.placement=scattered"});
  const Ran background = run(moe, {"fabric.contention=on", "cluster.oversubscription=4", "cluster.placement=scattered",
                                   "fabric.background=0.5"});
  CHECK(narrow.seconds >= wide.seconds);
  CHECK(scattered.seconds > narrow.seconds);  // packed, the exchange stays under one leaf
  CHECK(background.seconds > scattered.seconds);
}

TEST_CASE("hashed routing costs at least what sprayed does") {
  const std::vector<std::string> common = {"fabric.contention=on", "cluster.placement=scattered"};
  std::vector<std::string> hashed = common;
  hashed.emplace_back("cluster.routing=hashed");
  CHECK(run(moe, hashed).seconds >= run(moe, common).seconds);
}

TEST_CASE("a scenario with contention runs alike in the contention tier and in the oracle") {
  for (const char* schedule : {"1f1b", "coscheduled"}) {
    const Scenario scenario = loaded(
        moe, {"fabric.contention=on", "workload.global_batch=32", std::string("parallelism.schedule=") + schedule});
    const auto lowered = parallelism::lower(scenario.spec);
    REQUIRE(lowered.ok());
    const SampleConditions met(scenario.spec, *lowered, lowered->routing.get(), 0);
    const auto fast = sim::run_contended(lowered->program, met.conditions(), {});
    const auto exact = sim::run_oracle(lowered->program, met.conditions(), {});
    REQUIRE((fast.ok() && exact.ok()));
    CHECK(fast->flows.slowed > 0);
    CHECK(fast->result.step_end == exact->step_end);
    CHECK(fast->result.rank_end == exact->rank_end);
  }
}

TEST_CASE("a scenario at every level of flows runs alike in the contention tier and in the oracle") {
  for (const char* routing : {"sprayed", "hashed"}) {
    for (const std::string& level : flow_levels) {
      INFO(routing << " " << level);
      const Scenario scenario =
          loaded(moe, with(narrow_and_scattered, {"workload.global_batch=16", "fabric.flow_level=" + level,
                                                  std::string("cluster.routing=") + routing, "routing.skew=zipf:0.5"}));
      const auto lowered = parallelism::lower(scenario.spec);
      REQUIRE(lowered.ok());
      REQUIRE(sim::check(lowered->program).empty());
      const SampleConditions met(scenario.spec, *lowered, lowered->routing.get(), 0);
      const auto fast = sim::run_contended(lowered->program, met.conditions(), {});
      const auto exact = sim::run_oracle(lowered->program, met.conditions(), {});
      REQUIRE((fast.ok() && exact.ok()));
      const sim::FlowStats& flows = fast->flows;
      CHECK(flows.slowed > 0);
      CHECK((flows.promoted > 0) == (level == "auto"));
      if (level == "macro") CHECK(flows.levels[0].operations == flows.flows);
      if (level == "box") CHECK(flows.levels[1].operations > 0);
      if (level == "nic") CHECK(flows.levels[2].operations > 0);
      CHECK(fast->result.step_end == exact->step_end);
      CHECK(fast->result.rank_end == exact->rank_end);
    }
  }
}

TEST_CASE("where ranks have equal rows and uplinks are sprayed, no operation is cut") {
  const std::vector<std::string> even = with(narrow_and_scattered, {"routing.skew=balanced"});
  const Ran chosen = run(moe, even);
  const Ran macro = run(moe, with(even, {"fabric.flow_level=macro"}));
  CHECK(chosen.flows.slowed > 0);
  CHECK(chosen.flows.promoted == 0);
  CHECK(chosen.seconds == macro.seconds);
  // Cut all the same, its parts end together but for what leaves that do not bind give.
  CHECK(run(moe, with(even, {"fabric.flow_level=box"})).seconds == Approx(macro.seconds).epsilon(1e-3));
}

TEST_CASE("sampled steps have the same bits on one thread and on two") {
  for (const char* routing : {"sprayed", "hashed"}) {
    const auto sets = with(narrow_and_scattered, {"workload.steps=3", "workload.global_batch=16",
                                                  "routing.skew=zipf:0.5", std::string("cluster.routing=") + routing});
    const Ran one = run(moe, sets), two = run(moe, sets, 2);
    CHECK(one.seconds == two.seconds);
    CHECK(one.flows.promoted == two.flows.promoted);
    CHECK(one.flows.promoted > 0);
  }
}

TEST_CASE("levels of flows are named, and need contention") {
  const auto unknown = load_text(moe, {"fabric.contention=on", "fabric.flow_level=node"});
  REQUIRE_FALSE(unknown.ok());
  CHECK(shown(unknown.errors()).find("macro") != std::string::npos);
  const auto alone = load_text(moe, {"fabric.flow_level=box"});
  REQUIRE_FALSE(alone.ok());
  CHECK(shown(alone.errors()).find("fabric.contention") != std::string::npos);
  CHECK(load_text(moe, {"fabric.flow_level=auto"}).ok());
}

TEST_CASE("background load without contention is refused with its reason") {
  const auto scenario = load_text(moe, {"fabric.background=0.5"});
  REQUIRE_FALSE(scenario.ok());
  CHECK(shown(scenario.errors()).find("fabric.contention") != std::string::npos);
}

}  // namespace
}  // namespace stepcast::scenarios
