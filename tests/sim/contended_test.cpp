// The contention tier against the oracle, op by op, and what contention does to times.
#include <catch2/catch.hpp>

#include "shared_links.h"
#include "sim/engine/contended.h"
#include "sim/engine/oracle.h"
#include "sim/engine/split.h"

namespace stepcast::sim {
namespace {

using testing::KeepingSink;

// Lockstep with the delays that the contention tier found, and the oracle: the same times on every op. Returns what the
// contention tier counts.
FlowStats compare(const Program& program, const Conditions& conditions, const RunOptions& options) {
  const auto contended = run_contended(program, conditions, options);
  const auto oracle = run_oracle(program, conditions, options);
  REQUIRE(contended.ok() == oracle.ok());
  if (!oracle.ok()) return {};
  CHECK(contended->result.step_end == oracle->step_end);
  CHECK(contended->result.rank_end == oracle->rank_end);
  Conditions delayed = conditions;
  delayed.delays = &contended->delays;
  KeepingSink fast_seen, exact_seen;
  RunOptions fast = options, exact = options;
  fast.sink = &fast_seen;
  exact.sink = &exact_seen;
  const auto lockstep = run_lockstep(program, delayed, fast);
  REQUIRE(lockstep.ok());
  REQUIRE(run_oracle(program, conditions, exact).ok());
  CHECK(lockstep->step_end == oracle->step_end);
  CHECK(testing::first_difference(fast_seen, exact_seen) == "");
  return contended->flows;
}

TEST_CASE("random programs on shared links run alike in the contention tier and in the oracle") {
  std::int64_t slowed = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    Program program = testing::random_program(seed, seed % 3 == 0);
    testing::share_randomly(program, seed);
    REQUIRE(check(program).empty());
    const testing::HashedLoads loads(seed);
    Conditions conditions;
    conditions.seed = seed;
    conditions.loads = &loads;
    conditions.kernel_sigma = seed % 2 == 0 ? 0.1 : 0;
    slowed += compare(program, conditions, {}).slowed;
  }
  CHECK(slowed > 100);
}

namespace {

// How many random programs both engines complete in order; every one ends alike in them.
template <class Prepare>
int compare_ends(std::uint64_t first, std::uint64_t last, Prepare prepare) {
  int compared = 0;
  for (std::uint64_t seed = first; seed < last; ++seed) {
    Program program = testing::random_program(seed, seed % 3 == 0);
    testing::share_randomly(program, seed);
    prepare(program, seed);
    const testing::HashedLoads loads(seed);
    Conditions conditions;
    conditions.seed = seed;
    conditions.loads = &loads;
    const auto fast = run_contended(program, conditions, {});
    const auto exact = run_oracle(program, conditions, {});
    if (fast.ok() != exact.ok()) FAIL("seed " << seed << ": one engine finds a deadlock");
    if (!fast.ok() || fast->flows.late > 0) continue;
    ++compared;
    if (fast->result.step_end != exact->step_end || fast->result.rank_end != exact->rank_end) FAIL("seed " << seed);
  }
  return compared;
}

}  // namespace

TEST_CASE("a thousand random programs on shared links end alike in the contention tier and in the oracle") {
  CHECK(compare_ends(1000, 2000, [](Program&, std::uint64_t) {}) > 700);
}

TEST_CASE("cut into flows of boxes and NICs, random programs run alike in the contention tier and in the oracle") {
  FlowStats sum;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Program program = testing::random_program(seed, seed % 3 == 0);
    testing::share_randomly(program, seed);
    testing::cut_traffic(program);
    REQUIRE(check(program).empty());
    const testing::HashedLoads loads(seed);
    Conditions conditions;
    conditions.seed = seed;
    conditions.loads = &loads;
    for (const auto level : testing::every_level) {
      INFO("seed " << seed << " level " << (level ? name(*level) : "auto"));
      program.flow_rule.level = level;
      sum.add(compare(program, conditions, {}));
    }
  }
  CHECK(sum.promoted > 30);
  for (const FlowStats::Level& level : sum.levels) CHECK(level.operations > 100);
}

TEST_CASE("cut into flows of boxes and NICs, hundreds of random programs end alike in both engines") {
  const auto cut = [](Program& program, std::uint64_t seed) {
    testing::cut_traffic(program);
    program.flow_rule.level = testing::every_level[seed % 4];
  };
  CHECK(compare_ends(2000, 2400, cut) > 250);
}

// Skewed rows, in units of eight lanes.
bench::Shape skewed_shape() {
  bench::Shape shape;
  shape.devices = 64;
  shape.stages = 4;
  shape.expert_parallel = 8;
  shape.microbatches = 6;
  shape.layers = 2;
  shape.forward_ops = shape.backward_ops = 24;
  shape.skewed = true;
  shape.barrier = false;
  return shape;
}

TEST_CASE("a pipeline with skewed rows runs alike in both engines at every level of flows") {
  const bench::Shape shape = skewed_shape();
  Program program = testing::shared_pipeline(shape);
  testing::cut_traffic(program);
  REQUIRE(check(program).empty());
  const bench::TableLoads loads(program.loads, shape.microbatches, 16);
  const std::vector<float> speeds = bench::device_speeds(shape.devices);
  Conditions conditions;
  conditions.loads = &loads;
  conditions.slow_by_rank = speeds;
  RunOptions options;
  options.steps = 2;
  for (const auto level : testing::every_level) {
    INFO("level " << (level ? name(*level) : "auto"));
    program.flow_rule.level = level;
    const FlowStats flows = compare(program, conditions, options);
    CHECK(flows.slowed > 0);
    CHECK(flows.late == 0);
    CHECK((flows.promoted > 0) == !level);
    if (level && *level != FlowLevel::macro) CHECK(flows.levels[0].operations == 0);
  }
}

TEST_CASE("links that do not bind change nothing at any level of flows") {
  const bench::Shape shape = skewed_shape();
  Program program = testing::shared_pipeline(shape);
  testing::cut_traffic(program);
  for (LinkPattern& pattern : program.patterns) {  // a tenth of every link
    for (auto& list : pattern.of_unit) {
      for (LinkShare& share : list) share.nic *= 0.1F;
    }
    for (auto* cuts : {&pattern.boxes, &pattern.nics}) {
      for (LinkParts& cut : *cuts) {
        for (LinkParts::Part& part : cut.parts) {
          for (LinkParts::Load& load : part.loads) load.nic *= 0.1F;
        }
      }
    }
  }
  const bench::TableLoads loads(program.loads, shape.microbatches, 16);
  const std::vector<float> speeds = bench::device_speeds(shape.devices);
  Conditions conditions;
  conditions.loads = &loads;
  conditions.slow_by_rank = speeds;
  const auto lockstep = run_lockstep(program, conditions, {});
  REQUIRE(lockstep.ok());
  for (const auto level : testing::every_level) {
    INFO("level " << (level ? name(*level) : "auto"));
    program.flow_rule.level = level;
    const auto contended = run_contended(program, conditions, {});
    REQUIRE(contended.ok());
    CHECK(contended->flows.flows > 0);
    CHECK(contended->delays.size() == 0);
    CHECK(contended->result.rank_end == lockstep->rank_end);
  }
}

TEST_CASE("a pipeline of units on shared links runs alike in the contention tier and in the oracle") {
  for (const bool skewed : {false, true}) {
    bench::Shape shape;
    shape.devices = 64;
    shape.stages = 4;
    shape.expert_parallel = 8;
    shape.microbatches = 6;
    shape.layers = 2;
    shape.forward_ops = shape.backward_ops = 24;
    shape.skewed = skewed;
    shape.barrier = !skewed;
    const Program program = testing::shared_pipeline(shape);
    REQUIRE(check(program).empty());
    REQUIRE(separable(program));
    const bench::TableLoads loads(std::max(1, program.loads), shape.microbatches, 16);
    const std::vector<float> speeds = bench::device_speeds(shape.devices);
    Conditions conditions;
    conditions.loads = &loads;
    conditions.slow_by_rank = speeds;
    RunOptions options;
    options.steps = 2;
    CHECK(compare(program, conditions, options).slowed > 0);
    CHECK(run_contended(program, conditions, options)->flows.late == 0);
  }
}

TEST_CASE("units run on several threads give the bits of one") {
  bench::Shape shape;
  shape.devices = 256;
  shape.stages = 4;
  shape.expert_parallel = 8;
  shape.microbatches = 8;
  shape.layers = 2;
  shape.skewed = true;
  shape.barrier = false;
  Program program = testing::shared_pipeline(shape);
  const bench::TableLoads loads(program.loads, shape.microbatches, 64);
  const std::vector<float> speeds = bench::device_speeds(shape.devices);
  Conditions conditions;
  conditions.loads = &loads;
  conditions.slow_by_rank = speeds;
  conditions.kernel_sigma = 0.02;
  RunOptions options;
  options.steps = 2;
  const auto one = run_lockstep(program, conditions, options);
  REQUIRE(one.ok());
  for (const int threads : {2, 3, 8}) {
    options.threads = threads;
    const auto several = run_lockstep(program, conditions, options);
    REQUIRE(several.ok());
    CHECK(several->step_end == one->step_end);
    CHECK(several->rank_end == one->rank_end);
    CHECK(several->rank_ops == one->rank_ops);
  }
}

// Two ranks; an exchange on `ep` and a reduction on `dp`, issued together, each 1 ms alone.
Program two_transfers(std::int32_t link_of_exchange, std::int32_t link_of_reduction) {
  Program program;
  program.ranks = 2;
  Cohort cohort;
  cohort.name = "all";
  cohort.ranks = {RankId(0), RankId(1)};
  cohort.costs = {{1e9, 0, 0, NoiseKind::none}, {1e9, 0, 0, NoiseKind::none}};
  cohort.works.resize(1);
  cohort.groups = {{"ep", 2, {0, 1}}};
  cohort.uses = {{1e9, 0, 0, 0, 0}, {1e9, 0, 0, 0, 1}};
  cohort.static_bytes = {0};
  Instruction exchange;
  exchange.op = Opcode::collective;
  exchange.stream = Stream::ep;
  exchange.flags = flag_largest | flag_shared;
  exchange.target = 0;
  Instruction reduction = exchange;
  reduction.stream = Stream::dp;
  reduction.cost = 1;
  Instruction wait;
  wait.wait_streams = static_cast<std::uint8_t>(bit(Stream::ep) | bit(Stream::dp));
  wait.cost = 0;
  cohort.bodies = {{"body", {exchange, reduction, wait}}};
  cohort.calls = {{0, 0, -1}};
  program.cohorts = {cohort};
  program.memory_parts = {"none"};
  program.patterns = {{{{{link_of_exchange, 1, 0}}}}, {{{{link_of_reduction, 1, 0}}}}};
  program.link_capacity = {1, 1};
  return program;
}

TEST_CASE("a reduction beside an exchange on one NIC costs time, on links of their own it costs none") {
  const Program shared = two_transfers(0, 0);
  const Program apart = two_transfers(0, 1);
  REQUIRE(check(shared).empty());
  const auto together = run_contended(shared, {}, {});
  const auto alone = run_contended(apart, {}, {});
  const auto lockstep = run_lockstep(apart, {}, {});
  REQUIRE((together.ok() && alone.ok() && lockstep.ok()));
  CHECK(alone->result.last_step() == lockstep->last_step());
  CHECK(alone->delays.size() == 0);
  CHECK(together->result.last_step() == lockstep->last_step() + 1'000'000'000);  // both end after 2 ms
  compare(shared, {}, {});
}

TEST_CASE("another job's load slows what fills the link") {
  Program program = two_transfers(0, 1);
  const auto before = run_contended(program, {}, {});
  program.link_capacity = {0.5, 1};
  program.patterns[1].of_unit[0][0].link = 0;  // both on the half that is left
  const auto after = run_contended(program, {}, {});
  REQUIRE((before.ok() && after.ok()));
  CHECK(after->result.last_step() > before->result.last_step());
}

TEST_CASE("stalls and slow links strike alike in every engine") {
  Program program = testing::random_program(3, false);
  for (Cohort& cohort : program.cohorts) {
    for (std::size_t i = 0; i < cohort.costs.size(); i += 2) cohort.costs[i].noise = NoiseKind::link;
  }
  const testing::HashedLoads loads(3);
  std::vector<float> links(static_cast<std::size_t>(program.ranks), 1.0F);
  std::vector<Ticks> stalls(static_cast<std::size_t>(program.ranks), 0);
  links[0] = 1.5F;
  stalls.back() = 12'345'678;
  Conditions conditions;
  conditions.loads = &loads;
  conditions.link_slow_by_rank = links;
  conditions.stall_by_rank = stalls;
  conditions.stall_step = 1;
  KeepingSink fast_seen, exact_seen;
  RunOptions fast, exact;
  fast.steps = exact.steps = 2;
  fast.sink = &fast_seen;
  exact.sink = &exact_seen;
  const auto lockstep = run_lockstep(program, conditions, fast);
  const auto oracle = run_oracle(program, conditions, exact);
  REQUIRE((lockstep.ok() && oracle.ok()));
  CHECK(testing::first_difference(fast_seen, exact_seen) == "");
  CHECK(lockstep->rank_end == oracle->rank_end);
  stalls.back() = -1;
  CHECK_FALSE(run_lockstep(program, conditions, fast).ok());
}

}  // namespace
}  // namespace stepcast::sim
