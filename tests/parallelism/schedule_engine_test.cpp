// Schedules through the engine: bubbles equal the closed forms to the picosecond when communication is free.
#include <catch2/catch.hpp>

#include "parallelism/schedule.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/oracle.h"
#include "sim/record/recorder.h"
#include "tests/parallelism/schedule_program.h"

using namespace stepcast;
using namespace stepcast::parallelism;
using stepcast::parallelism::testing::ScheduleProgram;
using stepcast::parallelism::testing::SlotTimes;

namespace {

constexpr Ticks unit = 1000;

void check_bubble(ScheduleKind kind, ScheduleShape shape, SlotTimes times) {
  const auto schedule = info(kind).make(shape);
  REQUIRE(schedule.ok());
  const ScheduleProgram program(*schedule, times, 2);
  REQUIRE(sim::check(program.program()).empty());
  sim::RecordOptions options;
  options.warm_steps = 0;
  const auto report = sim::record_step(program.program(), {}, options);
  REQUIRE(report.ok());
  const auto oracle = sim::run_oracle(program.program(), {}, {});
  REQUIRE(oracle.ok());
  CHECK(oracle->last_step() == report->duration);
  const double f = static_cast<double>(times.forward);
  const double b = static_cast<double>(times.input_gradient);
  const double w = static_cast<double>(times.weight_gradient);
  const double ideal_share = info(kind).ideal_bubble(schedule->shape, f, b, w);
  const double work = schedule->shape.microbatches * (f + b + w) * static_cast<double>(schedule->virtual_stages) /
                      schedule->shape.stages;
  INFO(info(kind).name << " p " << shape.stages << " v " << shape.chunks << " m " << shape.microbatches);
  if (ideal_share >= 0) CHECK(static_cast<double>(report->duration) == Approx(work * (1 + ideal_share)).epsilon(1e-12));
  for (const auto& partition : report->by_rank) {
    Ticks sum = 0;
    for (const Ticks t : partition) sum += t;
    CHECK(sum == report->duration);
    const auto at = [&](sim::Category c) { return partition[static_cast<std::size_t>(c)]; };
    CHECK(at(sim::Category::bubble) + at(sim::Category::gemm) == report->duration);
    if (ideal_share >= 0)
      CHECK(static_cast<double>(at(sim::Category::bubble)) == Approx(work * ideal_share).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("bubbles of schedules equal the closed forms when communication is free") {
  for (const int p : {2, 4, 8}) {
    for (const int m : {8, 16, 32}) {
      const SlotTimes times{unit, unit, unit};
      check_bubble(ScheduleKind::gpipe, {p, 1, m, 0}, times);
      check_bubble(ScheduleKind::one_f_one_b, {p, 1, m, 0}, times);
      check_bubble(ScheduleKind::one_f_one_b, {p, 1, m, 0}, {unit, 2 * unit, 3 * unit});
      for (const int v : {2, 3, 4}) check_bubble(ScheduleKind::interleaved, {p, v, m, 0}, times);
      check_bubble(ScheduleKind::zb_h1, {p, 1, m, 0}, times);
      if (m >= 2 * p) check_bubble(ScheduleKind::dualpipe, {p, 1, m, 0}, times);
    }
  }
}

TEST_CASE("one microbatch on four stages leaves three quarters of the step idle") {
  const auto schedule = info(ScheduleKind::one_f_one_b).make({4, 1, 1, 0});
  REQUIRE(schedule.ok());
  const ScheduleProgram program(*schedule, {unit, unit, unit}, 1);
  sim::RecordOptions options;
  options.warm_steps = 0;
  const auto report = sim::record_step(program.program(), {}, options);
  REQUIRE(report.ok());
  const Ticks bubble = report->by_rank[0][static_cast<std::size_t>(sim::Category::bubble)];
  CHECK(bubble * 4 == report->duration * 3);
}
