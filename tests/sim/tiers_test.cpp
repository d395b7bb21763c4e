// Lockstep and the stored-graph oracle on the same random programs: every op's times must agree to the picosecond.
#include <catch2/catch.hpp>

#include "random_program.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/machine.h"
#include "sim/engine/oracle.h"
#include "sim/engine/replay.h"

namespace stepcast::sim {
namespace {

using testing::KeepingSink;

// Conditions that vary with the seed: speed, noise or neither.
struct RandomRun {
  RandomRun(std::uint64_t seed, bool reordered) : program(testing::random_program(seed, reordered)), loads(seed) {
    conditions.seed = seed;
    conditions.loads = &loads;
    testing::Draws draws(seed + 1000);
    if (draws.chance(60)) {
      for (int r = 0; r < program.ranks; ++r) slow.push_back(0.9F + 0.001F * static_cast<float>(draws.below(300)));
      conditions.slow_by_rank = slow;
    }
    if (draws.chance(50)) conditions.kernel_sigma = 0.01 * draws.below(50);
    options.first_step = static_cast<std::uint64_t>(draws.below(5));
    options.steps = 1 + draws.below(3);
  }
  Program program;
  testing::HashedLoads loads;
  std::vector<float> slow;
  Conditions conditions;
  RunOptions options;
};

// Both engines' events and results; false when both find a deadlock.
bool compare(const RandomRun& run) {
  KeepingSink fast_seen, exact_seen;
  RunOptions fast = run.options, exact = run.options;
  fast.sink = &fast_seen;
  exact.sink = &exact_seen;
  const auto silent = run_lockstep(run.program, run.conditions, run.options);
  const auto lockstep = run_lockstep(run.program, run.conditions, fast);
  const auto oracle = run_oracle(run.program, run.conditions, exact);
  REQUIRE(silent.ok() == oracle.ok());
  REQUIRE(lockstep.ok() == oracle.ok());
  if (!oracle.ok()) {
    CHECK(silent.errors()[0].message.find("wait for each other for ever") != std::string::npos);
    return false;
  }
  CHECK(testing::first_difference(fast_seen, exact_seen) == "");
  CHECK(silent->step_end == oracle->step_end);
  CHECK(silent->rank_end == oracle->rank_end);
  CHECK(lockstep->step_end == oracle->step_end);
  CHECK(lockstep->rank_end == oracle->rank_end);
  CHECK(silent->rank_ops == oracle->rank_ops);
  CHECK(silent->rank_ops == run.program.rank_ops() * run.options.steps);
  return true;
}

TEST_CASE("lockstep agrees with the oracle op by op on random programs") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    const RandomRun run(seed, false);
    REQUIRE(check(run.program) == std::vector<std::string>{});
    REQUIRE(compare(run));
  }
}

TEST_CASE("lockstep looks past receives and joins as far as the oracle") {
  int completed = 0, deadlocked = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    const RandomRun run(seed, true);
    REQUIRE(check(run.program) == std::vector<std::string>{});
    compare(run) ? ++completed : ++deadlocked;
  }
  // Both outcomes must occur for the comparison to mean something.
  CHECK(completed > 100);
  CHECK(deadlocked > 5);
}

TEST_CASE("every instruction set gives the same bits") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const RandomRun run(seed, false);
    const auto widest = run_lockstep(run.program, run.conditions, run.options);
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
      const Kernels* chosen = kernels(isa);
      if (chosen == nullptr) continue;
      const auto result = run_silent(run.program, run.conditions, run.options, *chosen);
      CHECK(result->rank_end == widest->rank_end);
      CHECK(result->step_end == widest->step_end);
    }
  }
}

TEST_CASE("every call can be evaluated again from its checkpoint") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const RandomRun run(seed, seed % 2 == 0);
    KeepingSink all;
    const auto replay = Replay::run(run.program, run.conditions, run.options, &all);
    if (!replay.ok()) continue;
    KeepingSink again;
    for (std::size_t c = 0; c < run.program.cohorts.size(); ++c) {
      for (std::size_t call = 0; call < run.program.cohorts[c].calls.size(); ++call) {
        REQUIRE(replay->reevaluate(static_cast<int>(c), static_cast<int>(call), again).ok());
      }
    }
    again.step_ends = all.step_ends;
    CHECK(testing::first_difference(all, again) == "");
    CHECK_FALSE(replay->reevaluate(99, 0, again).ok());
  }
}

TEST_CASE("a replayed receive names the send whose message it takes") {
  int receives = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const RandomRun run(seed, false);
    KeepingSink all;
    const auto replay = Replay::run(run.program, run.conditions, run.options, &all);
    REQUIRE(replay.ok());
    const auto find = [&](const Replay::Place& p) {
      for (const auto& s : all.seen) {
        if (s.event.cohort == p.cohort && s.event.call == p.call && s.event.pc == p.pc) return &s;
      }
      return static_cast<const testing::Seen*>(nullptr);
    };
    for (const auto& s : all.seen) {
      const Replay::Place here{s.event.cohort, s.event.call, s.event.pc};
      if (s.event.instruction->op == Opcode::receive) {
        ++receives;
        const auto* sent = find(replay->sender_of(here));
        REQUIRE(sent != nullptr);
        REQUIRE(sent->event.instruction->op == Opcode::send);
        const Channel& channel = run.program.channels[s.event.instruction->target];
        for (std::size_t i = 0; i < s.end.size(); ++i) {
          const std::size_t from = channel.from_lane.empty() ? i : static_cast<std::size_t>(channel.from_lane[i]);
          REQUIRE(s.end[i] == std::max(s.ready[i], sent->end[from]));
        }
      }
      if (s.event.instruction->op == Opcode::join) {
        const auto members = replay->members_of(here);
        REQUIRE(std::find(members.begin(), members.end(), here) != members.end());
        for (const auto& m : members) REQUIRE(find(m)->event.instruction->op == Opcode::join);
      }
    }
  }
  CHECK(receives > 100);
}

}  // namespace
}  // namespace stepcast::sim
