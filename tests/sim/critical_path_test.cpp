// Recorded steps of small pipelines: closed forms, sums and the critical path.

#include "sim/record/critical_path.h"

#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "random_program.h"
#include "sim/record/recorder.h"
#include "small_pipelines.h"

using namespace stepcast;
using namespace stepcast::sim;
using namespace stepcast::sim::test;

namespace {

Ticks of(const Partition& p, Category c) { return p[static_cast<std::size_t>(c)]; }

StepReport record(const Program& program, const Conditions& conditions = {}, std::uint64_t step = 2) {
  REQUIRE(check(program).empty());
  RecordOptions options;
  options.step = step;
  auto report = record_step(program, conditions, options);
  REQUIRE(report.ok());
  return *report;
}

// What holds of every step.
void check_step(const StepReport& report) {
  for (const Partition& p : report.by_rank) {
    CHECK(std::accumulate(p.begin(), p.end(), Ticks{0}) == report.duration);
    CHECK(*std::min_element(p.begin(), p.end()) >= 0);
  }
  Ticks on_path = 0;
  for (const CategoryStats& s : report.categories) on_path += s.critical_path;
  CHECK(on_path == report.duration);
  REQUIRE_FALSE(report.critical_path.empty());
  Ticks at = report.begin;
  for (const CriticalHop& hop : report.critical_path) {
    CHECK(hop.begin == at);
    CHECK(hop.end > hop.begin);
    at = hop.end;
  }
  CHECK(at == report.begin + report.duration);
}

}  // namespace

TEST_CASE("1F1B with free communication has the bubble (p-1)(F+B) on every rank") {
  for (const int stages : {1, 2, 4, 7}) {
    for (const int microbatches : {1, 4, 16}) {
      for (const bool join : {false, true}) {
        PipelineShape shape;
        shape.stages = stages;
        shape.microbatches = microbatches;
        shape.lanes = 3;
        shape.join = join;
        const StepReport report = record(one_f_one_b(shape));
        check_step(report);
        CHECK(report.memory.returns_to_level);
        const Ticks bubble = 300 * (stages - 1);
        CHECK(report.duration == bubble + 300 * microbatches);
        for (const Partition& p : report.by_rank) {
          CHECK(of(p, Category::bubble) == bubble);
          CHECK(of(p, Category::gemm) == 100 * microbatches);
          CHECK(of(p, Category::attention) == 200 * microbatches);
        }
        CHECK(report.categories[static_cast<std::size_t>(Category::bubble)].critical_path == 0);
        CHECK(report.executed_flops == 3000.0 * microbatches * stages * 3);
        // The first stage holds one more microbatch than each next one, up to their number.
        CHECK(report.memory.bytes == 1000 + 64 * std::min(stages, microbatches));
        CHECK(report.memory.rank == RankId(0));
      }
    }
  }
}

TEST_CASE("transfers between stages are exposed, not bubble, and on the critical path") {
  PipelineShape shape;
  shape.stages = 2;
  shape.microbatches = 1;
  shape.transfer = 50;
  const StepReport report = record(one_f_one_b(shape));
  check_step(report);
  CHECK(report.duration == 100 + 50 + 100 + 200 + 50 + 200);
  CHECK(of(report.by_rank[1], Category::bubble) == 100 + 200);
  CHECK(of(report.by_rank[1], Category::exposed_pp) == 100);
  CHECK(of(report.by_rank[0], Category::bubble) == 300);
  CHECK(of(report.by_rank[0], Category::exposed_pp) == 100);
  CHECK(report.categories[static_cast<std::size_t>(Category::exposed_pp)].critical_path == 100);
  REQUIRE(report.communication.size() == 1);
  const CommunicationStats& pp = report.communication[0];
  CHECK(pp.collective == "send_receive");
  CHECK(pp.group == "pp");
  CHECK(pp.calls == 1);
  CHECK(pp.payload_bytes == 4096);
  CHECK(pp.raw == 50);
  CHECK(pp.exposed_mean == 100);
  REQUIRE(report.critical_path.size() == 6);
  CHECK(report.critical_path[1].name == "send");
  CHECK(report.critical_path[2].rank == RankId(1));
}

namespace {

// Backward kernels of 41 ms, 40 ms of gradient all-reduce from the tenth on, then the optimizer; or no all-reduce.
Program overlapped_reduction(bool reduces) {
  constexpr double ms = 1e9;
  Program p;
  p.ranks = 2;
  p.memory_parts = {"weights"};
  Instruction reduce = op(Opcode::collective, Stream::dp, 1, 0);
  reduce.wait_streams = bit(Stream::compute);
  Instruction adam = op(Opcode::compute, Stream::compute, 2);
  adam.wait_streams = bit(Stream::dp);
  std::vector<Instruction> code = {op(Opcode::compute, Stream::compute, 0), op(Opcode::compute, Stream::compute, 3),
                                   adam};
  if (reduces) code.insert(code.begin() + 1, reduce);
  for (Instruction& in : code) in.flags = flag_no_launch;
  p.cohorts.push_back(cohort("all", 0, 2,
                             {work("backward", Category::gemm), work("gradients", Category::other, "all_reduce"),
                              work("adam", Category::optimizer), work("backward", Category::gemm)},
                             code));
  p.cohorts[0].groups.push_back(whole_group("dp", 2));
  p.cohorts[0].costs = {{10 * ms, 0, 0, NoiseKind::none},
                        {40 * ms, 0, 0, NoiseKind::none},
                        {5 * ms, 0, 0, NoiseKind::none},
                        {31 * ms, 0, 0, NoiseKind::none}};
  return p;
}

}  // namespace

TEST_CASE("an all-reduce of 40 ms of which 31 run under backward adds 9 to the step") {
  const StepReport with = record(overlapped_reduction(true));
  const StepReport without = record(overlapped_reduction(false));
  check_step(with);
  CHECK(with.duration - without.duration == 9'000'000'000);
  CHECK(of(with.by_rank[0], Category::exposed_dp) == 9'000'000'000);
  REQUIRE(with.communication.size() == 1);
  CHECK(with.communication[0].raw == 40'000'000'000);
  CHECK(with.communication[0].exposed_mean == 9'000'000'000);
  // The path runs through the all-reduce, not through the kernels beside it.
  CHECK(with.categories[static_cast<std::size_t>(Category::exposed_dp)].critical_path == 40'000'000'000);
}

TEST_CASE("a gather at the end of a step is exposed where the next step's first kernel waits for it") {
  Program p = overlapped_reduction(true);
  Body& body = p.cohorts[0].bodies[0];
  std::rotate(body.instructions.begin() + 1, body.instructions.begin() + 2, body.instructions.end());  // gather last
  body.instructions[2].wait_streams = 0;
  body.instructions[0].wait_streams = bit(Stream::dp);
  const StepReport first = record(p, {}, 0);
  CHECK(first.duration == 46'000'000'000);
  const StepReport steady = record(p, {}, 3);
  check_step(steady);
  CHECK(steady.duration == 86'000'000'000);
  CHECK(of(steady.by_rank[1], Category::exposed_dp) == 40'000'000'000);
  CHECK(of(steady.by_rank[1], Category::gemm) == 41'000'000'000);
  CHECK(steady.categories[static_cast<std::size_t>(Category::exposed_dp)].critical_path == 40'000'000'000);
  CHECK(steady.critical_path.front().name == "from the step before");
}

TEST_CASE("what is sent is received: messages and bytes of the two ends agree") {
  struct Count : Sink {
    void on_instruction(const InstructionEvent& e) override {
      const double bytes = e.work->payload_bytes * static_cast<double>(e.end.size());
      if (e.instruction->op == Opcode::send) sent += bytes;
      if (e.instruction->op == Opcode::receive) received += bytes;
    }
    void on_step_end(std::uint64_t, int, std::span<const Ticks>) override {}
    double sent = 0, received = 0;
  } count;
  PipelineShape shape;
  shape.lanes = 3;
  const Program program = one_f_one_b(shape);
  RunOptions run;
  run.sink = &count;
  REQUIRE(run_lockstep(program, {}, run).ok());
  CHECK(count.sent == count.received);
  const StepReport report = record(program);
  REQUIRE(report.communication.size() == 1);
  CHECK(report.communication[0].payload_bytes * program.ranks == count.sent);
}

TEST_CASE("noise and slow ranks: everything still adds up") {
  PipelineShape shape;
  shape.stages = 4;
  shape.microbatches = 6;
  shape.lanes = 5;
  shape.forward = 1e6;
  shape.backward = 2e6;
  shape.transfer = 1e5;
  shape.join = true;
  shape.noise = NoiseKind::kernel;
  const Program program = one_f_one_b(shape);
  std::vector<float> slow(20, 1.0F);
  slow[7] = 1.5F;
  Conditions conditions;
  conditions.kernel_sigma = 0.1;
  conditions.slow_by_rank = slow;
  const StepReport report = record(program, conditions);
  check_step(report);
  // The slow rank's pipeline is what the step waits for.
  for (const CriticalHop& hop : report.critical_path) CHECK(hop.rank.value % 5 == 2);
  const StepReport again = record(program, conditions);
  CHECK(again.by_rank == report.by_rank);
}

TEST_CASE("partition and critical path add up on random programs") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const Program program = testing::random_program(seed, seed % 2 == 0);
    const testing::HashedLoads loads(seed);
    Conditions conditions;
    conditions.seed = seed;
    conditions.loads = &loads;
    conditions.kernel_sigma = seed % 3 == 0 ? 0.2 : 0;
    RecordOptions options;
    options.step = seed % 4;
    const auto report = record_step(program, conditions, options);
    if (!report.ok()) {  // some of the reordered ones deadlock
      CHECK(seed % 2 == 0);
      continue;
    }
    check_step(*report);
    CHECK(report->rank_ops == program.rank_ops());
    RunOptions run;
    run.first_step = options.step - std::min<std::uint64_t>(options.step, 1);
    run.steps = options.step > 0 ? 2 : 1;
    const auto fast = run_lockstep(program, conditions, run);
    REQUIRE(fast.ok());
    CHECK(fast->last_step() == report->duration);
  }
}
