// Contention through the whole product: what overlapping transfers cost on a fabric, and when they cost nothing.
#include <catch2/catch.hpp>

#include "load.h"
#include "scenarios/samples.h"
#include "sim/engine/oracle.h"

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

struct Ran {
  double seconds = 0;
  sim::FlowStats flows;
  bool shares = false;
};

Ran run(const std::string& text, std::vector<std::string> sets) {
  const Scenario scenario = loaded(text, sets);
  const auto lowered = parallelism::lower(scenario.spec);
  REQUIRE(lowered.ok());
  Simulated simulated;
  choose_program(scenario.spec, *lowered, false, simulated);
  const auto samples = run_samples(scenario.spec, *lowered, simulated, {1, {}, {}});
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

TEST_CASE("background load without contention is refused with its reason") {
  const auto scenario = load_text(moe, {"fabric.background=0.5"});
  REQUIRE_FALSE(scenario.ok());
  CHECK(shown(scenario.errors()).find("fabric.contention") != std::string::npos);
}

}  // namespace
}  // namespace stepcast::scenarios
