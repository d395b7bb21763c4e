// Recorded steps of small pipelines: closed forms, sums and the critical path.

#include "sim/record/critical_path.h"

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
