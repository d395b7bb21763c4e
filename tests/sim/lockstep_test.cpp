// Closed forms, errors and determinism of the lockstep tier.
#include "sim/engine/lockstep.h"

#include <catch2/catch.hpp>

#include <numeric>
#include <thread>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>

#include "random_program.h"
#include "sim/engine/oracle.h"

namespace stepcast::sim {
namespace {

Instruction compute(std::uint16_t cost, Stream stream = Stream::compute) {
  Instruction in;
  in.cost = cost;
  in.stream = stream;
  return in;
}

// One cohort of `lanes` with a body called once.
Program one_cohort(int lanes, std::vector<Cost> costs, std::vector<Instruction> code) {
  Program p;
  p.ranks = lanes;
  Cohort c;
  c.name = "only";
  for (int i = 0; i < lanes; ++i) c.ranks.emplace_back(i);
  c.slots = 2;
  c.costs = std::move(costs);
  c.works.resize(1);
  GroupClass all{"all", lanes, std::vector<std::int32_t>(static_cast<std::size_t>(lanes))};
  std::iota(all.lanes.begin(), all.lanes.end(), 0);
  c.groups = {all};
  c.bodies = {{"body", std::move(code)}};
  c.calls = {{0, 0, -1}};
  p.cohorts = {c};
  return p;
}

Ticks step_of(const Program& p, const Conditions& conditions = {}, RunOptions options = {}) {
  const auto fast = run_lockstep(p, conditions, options);
  const auto exact = run_oracle(p, conditions, options);
  REQUIRE(fast.ok());
  REQUIRE(exact.ok());
  REQUIRE(fast->rank_end == exact->rank_end);
  return fast->last_step();
}

TEST_CASE("kernels on one stream add up") {
  CHECK(step_of(one_cohort(3, {{100, 0, 0}, {250, 0, 0}}, {compute(0), compute(1), compute(0)})) == 450);
}

TEST_CASE("streams overlap unless told to wait") {
  Program p = one_cohort(1, {{100, 0, 0}, {250, 0, 0}}, {compute(0), compute(1, Stream::ep)});
  CHECK(step_of(p) == 250);
  p.cohorts[0].bodies[0].instructions[1].wait_streams = bit(Stream::compute);
  CHECK(step_of(p) == 350);
}

TEST_CASE("a slot is waited for as of its place in the list") {
  Instruction first = compute(0), later = compute(1), waiting = compute(0, Stream::ep);
  first.record_slot = 0;
  waiting.wait_slot = 0;
  CHECK(step_of(one_cohort(1, {{100, 0, 0}, {150, 0, 0}}, {first, later, waiting})) == 250);
  later.record_slot = 0;
  CHECK(step_of(one_cohort(1, {{100, 0, 0}, {150, 0, 0}}, {first, later, waiting})) == 350);
}

TEST_CASE("a slow host bounds short kernels") {
  Program p = one_cohort(1, {{100, 0, 0}}, {compute(0), compute(0), compute(0)});
  p.cohorts[0].launch_ticks = 400;
  CHECK(step_of(p) == 3 * 400 + 100);
  for (Instruction& in : p.cohorts[0].bodies[0].instructions) in.flags |= flag_no_launch;
  CHECK(step_of(p) == 300);
  p.cohorts[0].step_host_ticks = 50;  // nothing is issued, so only the host's own end counts
  CHECK(step_of(p) == 300);
}

TEST_CASE("a synchronisation makes the host wait for the device") {
  Instruction sync;
  sync.op = Opcode::host_sync;
  sync.wait_streams = bit(Stream::compute);
  Program p = one_cohort(1, {{1000, 0, 0}}, {compute(0), sync, compute(0)});
  p.cohorts[0].launch_ticks = 10;
  p.cohorts[0].sync_ticks = 30;
  CHECK(step_of(p) == 10 + 1000 + 30 + 10 + 1000);
}

TEST_CASE("a barrier takes the last arrival and the longest transfer") {
  // Lane i computes for 100 (i + 1) by its slow factor; the collective takes 50 x the same factor.
  Instruction gather;
  gather.op = Opcode::collective;
  gather.stream = Stream::ep;
  gather.wait_streams = bit(Stream::compute);
  gather.cost = 1;
  gather.target = 0;
  const std::vector<float> slow = {1, 2, 3, 4};
  Conditions conditions;
  conditions.slow_by_rank = slow;
  Program p = one_cohort(4, {{100, 0, 0, NoiseKind::kernel}, {50, 0, 0, NoiseKind::kernel}}, {compute(0), gather});
  auto own = run_lockstep(p, conditions, {});
  CHECK(own->rank_end == std::vector<Ticks>{450, 500, 550, 600});
  p.cohorts[0].bodies[0].instructions[1].flags |= flag_largest;
  auto barrier = run_lockstep(p, conditions, {});
  CHECK(barrier->rank_end == std::vector<Ticks>{600, 600, 600, 600});
  CHECK(barrier->rank_ops == 8);
}

TEST_CASE("rows and the floor set a duration") {
  class Rows : public LoadSource {
    void rows(std::uint64_t, int, int, int, std::span<float> rows) const override {
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(10 * i);
    }
  };
  Instruction expert = compute(0);
  expert.load = 0;
  Program p = one_cohort(4, {{20, 3, 60, NoiseKind::none}}, {expert});
  p.loads = 1;
  const Rows rows;
  Conditions conditions;
  conditions.loads = &rows;
  CHECK(run_lockstep(p, conditions, {})->rank_end == std::vector<Ticks>{60, 60, 80, 110});
}

TEST_CASE("a pipeline of equal stages fills and drains") {
  // Forward only: p stages, m microbatches of t each, hop h: (m + p - 1) t + (p - 1) h.
  constexpr int stages = 5, microbatches = 7;
  constexpr Ticks t = 1000, hop = 70;
  Program p;
  p.ranks = stages;
  for (int s = 0; s < stages; ++s) {
    Program one = one_cohort(1, {{t, 0, 0}, {hop, 0, 0}}, {});
    Cohort c = one.cohorts[0];
    c.ranks = {RankId(s)};
    auto& code = c.bodies[0].instructions;
    if (s > 0) {
      Instruction in;
      in.op = Opcode::receive;
      in.stream = Stream::pp_receive;
      in.target = static_cast<std::uint16_t>(s - 1);
      code.push_back(in);
      p.channels.push_back({"hop", s - 1, s, {}});
    }
    code.push_back(compute(0));
    if (s > 0) code.back().wait_streams = bit(Stream::pp_receive);
    if (s + 1 < stages) {
      Instruction in;
      in.op = Opcode::send;
      in.stream = Stream::pp_send;
      in.wait_streams = bit(Stream::compute);
      in.cost = 1;
      in.target = static_cast<std::uint16_t>(s);
      code.push_back(in);
    }
    c.calls.clear();
    for (int m = 0; m < microbatches; ++m) c.calls.push_back({0, m, -1});
    p.cohorts.push_back(c);
  }
  REQUIRE(check(p).empty());
  CHECK(step_of(p) == (microbatches + stages - 1) * t + (stages - 1) * hop);
}

TEST_CASE("gathers of parameters run into the next step") {
  // The dp op of one step delays what waits for it in the next, but not the step's end.
  Instruction gather = compute(1, Stream::dp);
  gather.wait_streams = bit(Stream::compute);
  Instruction first = compute(0);
  first.wait_streams = bit(Stream::dp);
  const Program p = one_cohort(1, {{100, 0, 0}, {30, 0, 0}}, {first, gather});
  RunOptions options;
  CHECK(step_of(p, {}, options) == 100);
  options.steps = 3;
  CHECK(step_of(p, {}, options) == 130);
}

TEST_CASE("ranks that wait for each other for ever are reported with what they wait for") {
  Program p = one_cohort(2, {{100, 0, 0}}, {});
  Cohort other = p.cohorts[0];
  other.name = "other";
  other.ranks = {RankId(2), RankId(3)};
  p.ranks = 4;
  p.cohorts.push_back(other);
  p.channels = {{"there", 0, 1, {}}, {"back", 1, 0, {}}};
  for (std::size_t c = 0; c < 2; ++c) {
    Instruction receive, send;
    receive.op = Opcode::receive;
    receive.target = static_cast<std::uint16_t>(1 - c);
    send.op = Opcode::send;
    send.target = static_cast<std::uint16_t>(c);
    send.wait_streams = bit(Stream::compute);
    p.cohorts[c].bodies[0].instructions = {receive, send};
  }
  REQUIRE(check(p).empty());
  const auto result = run_lockstep(p, {}, {});
  REQUIRE_FALSE(result.ok());
  CHECK(result.errors()[0].code == ErrorCode::invalid);
  CHECK(result.errors()[0].message ==
        "ranks wait for each other for ever: cohort 'only' in call 0 ('body', microbatch 0) waits for message 0 of "
        "channel 'back' from cohort 'other'; cohort 'other' in call 0 ('body', microbatch 0) waits for message 0 of "
        "channel 'there' from cohort 'only'");
  CHECK_FALSE(run_oracle(p, {}, {}).ok());
  // On streams of their own the receives hold nobody up.
  for (Cohort& c : p.cohorts) c.bodies[0].instructions[0].stream = Stream::pp_receive;
  CHECK(step_of(p) == 100);
}

TEST_CASE("conditions that cannot be are refused") {
  const Program p = one_cohort(2, {{100, 0, 0}}, {compute(0)});
  Conditions conditions;
  conditions.kernel_sigma = 0.9;
  CHECK_FALSE(run_lockstep(p, conditions, {}).ok());
  conditions.kernel_sigma = 0;
  const std::vector<float> one = {1.0F};
  conditions.slow_by_rank = one;
  CHECK(run_lockstep(p, conditions, {}).errors()[0].message == "1 slow factors for 2 ranks");
  const std::vector<float> zero = {1.0F, 0.0F};
  conditions.slow_by_rank = zero;
  CHECK_FALSE(run_lockstep(p, conditions, {}).ok());
  RunOptions none;
  none.steps = 0;
  CHECK_FALSE(run_lockstep(p, {}, none).ok());
}

TEST_CASE("time never falls when a kernel gets slower") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Program p = testing::random_program(seed, false);
    const testing::HashedLoads loads(seed);
    Conditions conditions;
    conditions.loads = &loads;
    const Ticks before = run_lockstep(p, conditions, {})->last_step();
    for (Cost& cost : p.cohorts[0].costs) cost.base_ticks += 5000;
    CHECK(run_lockstep(p, conditions, {})->last_step() >= before);
  }
}

TEST_CASE("sampled steps give the same bits on any number of threads") {
  const Program p = testing::random_program(11, false);
  const testing::HashedLoads loads(11);
  Conditions conditions;
  conditions.loads = &loads;
  conditions.kernel_sigma = 0.1;
  constexpr std::size_t samples = 64;
  const auto run_all = [&](std::size_t threads) {
    const oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism, threads);
    std::vector<std::vector<Ticks>> ends(samples);
    oneapi::tbb::parallel_for(std::size_t{0}, samples, [&](std::size_t i) {
      RunOptions options;
      options.first_step = i;
      options.steps = 2;
      ends[i] = run_lockstep(p, conditions, options)->rank_end;
    });
    return ends;
  };
  const auto one = run_all(1);
  CHECK(one == run_all(2));
  CHECK(one == run_all(8));
  CHECK(one[0] != one[1]);
}

// On plain threads, whose synchronisation the thread sanitizer sees; Debian's oneTBB is not instrumented.
TEST_CASE("concurrent steps on plain threads share nothing", "[parallel]") {
  const Program p = testing::random_program(12, false);
  const testing::HashedLoads loads(12);
  Conditions conditions;
  conditions.loads = &loads;
  conditions.kernel_sigma = 0.1;
  constexpr std::size_t threads = 8;
  std::vector<std::vector<Ticks>> together(threads), alone(threads);
  const auto run = [&](std::size_t i) {
    RunOptions options;
    options.first_step = i;
    options.steps = 2;
    return run_lockstep(p, conditions, options)->rank_end;
  };
  {
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < threads; ++i) workers.emplace_back([&, i] { together[i] = run(i); });
    for (std::thread& worker : workers) worker.join();
  }
  for (std::size_t i = 0; i < threads; ++i) alone[i] = run(i);
  CHECK(together == alone);
}

}  // namespace
}  // namespace stepcast::sim
