// Schedules through the engine: bubbles equal the closed forms to the picosecond when communication is free.
#include <catch2/catch.hpp>

#include <algorithm>

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

struct Ran {
  Schedule schedule;
  sim::StepReport report;
  Ticks work = 0;  // of every rank
};

Ran run(ScheduleKind kind, ScheduleShape shape, SlotTimes times) {
  auto schedule = info(kind).make(shape);
  REQUIRE(schedule.ok());
  const ScheduleProgram program(*schedule, times, 2);
  REQUIRE(sim::check(program.program()).empty());
  sim::RecordOptions options;
  options.warm_steps = 0;
  auto report = sim::record_step(program.program(), {}, options);
  REQUIRE(report.ok());
  const auto oracle = sim::run_oracle(program.program(), {}, {});
  REQUIRE(oracle.ok());
  CHECK(oracle->last_step() == report->duration);
  CHECK(report->memory.returns_to_level);
  const Ticks pieces = schedule->virtual_stages * schedule->parameter_copies / schedule->shape.stages;
  const Ticks slot = times.forward + times.input_gradient + times.weight_gradient;
  // DualPipe: each copy runs half of the microbatches.
  const Ticks work = schedule->shape.microbatches * pieces * slot / schedule->parameter_copies;
  return {std::move(*schedule), std::move(*report), work};
}

// Every rank idles `idle` ticks to the picosecond, and holds at most `held` pieces, by rank.
void check_laws(ScheduleKind kind, ScheduleShape shape, SlotTimes t, Ticks idle, const std::vector<int>& held) {
  INFO(info(kind).name << " p " << shape.stages << " v " << shape.chunks << " m " << shape.microbatches << " times "
                       << t.forward << " " << t.input_gradient << " " << t.weight_gradient);
  const Ran ran = run(kind, shape, t);
  CHECK(ran.report.duration == ran.work + idle);
  for (const auto& partition : ran.report.by_rank) {
    const auto at = [&](sim::Category c) { return partition[static_cast<std::size_t>(c)]; };
    CHECK(at(sim::Category::bubble) == idle);
    CHECK(at(sim::Category::gemm) == ran.work);
    Ticks sum = 0;
    for (const Ticks part : partition) sum += part;
    CHECK(sum == ran.report.duration);
  }
  const double form =
      info(kind).ideal_bubble(ran.schedule.shape, static_cast<double>(t.forward), static_cast<double>(t.input_gradient),
                              static_cast<double>(t.weight_gradient));
  CHECK(form * static_cast<double>(ran.work) == Approx(static_cast<double>(idle)).epsilon(1e-12).margin(1e-6));
  if (held.empty()) return;
  for (std::size_t r = 0; r < ran.report.memory.peak_by_rank.size(); ++r) {
    CHECK(ran.report.memory.peak_by_rank[r] == held[r / 2]);  // two lanes a stage
  }
}

std::vector<int> all(int p, int held) { return std::vector<int>(static_cast<std::size_t>(p), held); }

// rank -> pieces in flight
template <typename Law>
std::vector<int> by_rank(int p, Law law) {
  std::vector<int> held;
  for (int r = 0; r < p; ++r) held.push_back(law(r));
  return held;
}

const std::vector<SlotTimes> any_costs = {
    {unit, unit, unit}, {unit, 2 * unit, 3 * unit}, {3 * unit, 2 * unit, unit}, {7, 11, 13}};

}  // namespace

// Narayanan et al. 2021: idle (p-1)(F+B+W); m and at most p microbatches in flight.
TEST_CASE("GPipe and 1F1B: (p-1)/m of ideal idle, m and p - r microbatches in flight") {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 8, 16, 32}) {
      for (const SlotTimes& t : any_costs) {
        const Ticks idle = (p - 1) * (t.forward + t.input_gradient + t.weight_gradient);
        check_laws(ScheduleKind::gpipe, {p, 1, m, 0}, t, idle, all(p, m));
        check_laws(ScheduleKind::one_f_one_b, {p, 1, m, 0}, t, idle,
                   by_rank(p, [&](int r) { return std::min(p - r, m); }));
      }
    }
  }
}

// Narayanan et al. 2021; Korthikanti et al. 2022: L (1 + (p-1)/(p v)) layers' activations on the first rank.
TEST_CASE("interleaved: (p-1)/(v m) of ideal idle, 1 + (p-1)/(pv) of the model's activations on the first rank") {
  for (const int p : {2, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int m : {2 * p, 4 * p}) {
        for (const SlotTimes& t : any_costs) {
          const Ticks idle = (p - 1) * (t.forward + t.input_gradient + t.weight_gradient);
          check_laws(ScheduleKind::interleaved, {p, v, m, 0}, t, idle,
                     by_rank(p, [&](int r) { return p * v + p - 1 - 2 * r; }));
        }
      }
    }
  }
}

// Qi et al. 2023, arXiv 2401.10241.
TEST_CASE("ZB-H1: (p-1)(F+B-W) idle, a third of 1F1B's at equal costs, with 1F1B's memory") {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {p, 2 * p, 32}) {
      for (const SlotTimes& t :
           {SlotTimes{unit, unit, unit}, SlotTimes{3 * unit, 2 * unit, unit}, SlotTimes{13, 11, 7}}) {
        check_laws(ScheduleKind::zb_h1, {p, 1, m, 0}, t, (p - 1) * (t.forward + t.input_gradient - t.weight_gradient),
                   all(p, p));
      }
    }
  }
}

// Qi et al. 2024, arXiv 2405.15362: none but the start of the last rank, which a barrier at the step's end exposes.
TEST_CASE("ZB-V: (p-1)F idle with a barrier at equal costs, 1F1B's memory: 2p pieces of half a stage") {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {2 * p - 1, 2 * p, 4 * p + 1}) {
      check_laws(ScheduleKind::zb_v, {p, 1, m, 0}, {unit, unit, unit}, (p - 1) * unit, {});
      const Ran ran = run(ScheduleKind::zb_v, {p, 1, m, 0}, {unit, unit, unit});
      CHECK(ran.report.memory.bytes == 2 * p);
      CHECK(ran.schedule.virtual_stages == 2 * p);
    }
  }
}

// DeepSeek-AI 2024, arXiv 2412.19437, table 2: (p/2-1)(F&B + B' - 3W), two copies of the parameters, p+1 activations.
TEST_CASE("DualPipe: (p/2-1)(F&B + B' - 3W) idle, two copies of the parameters, p + 1 activations") {
  for (const int p : {2, 4, 8}) {
    for (const int m : {2 * p, 2 * p + 2, 8 * p}) {
      for (const SlotTimes& t : {SlotTimes{unit, unit, unit}, SlotTimes{2 * unit, 2 * unit, unit}}) {
        const Ticks pair = t.forward + t.input_gradient + t.weight_gradient;
        const Ticks backward = t.input_gradient + t.weight_gradient;
        check_laws(ScheduleKind::dualpipe, {p, 1, m, 0}, t, (p / 2 - 1) * (pair + backward - 3 * t.weight_gradient),
                   all(p, p + 1));
      }
      const Ran ran = run(ScheduleKind::dualpipe, {p, 1, m, 0}, {unit, unit, unit});
      CHECK(ran.schedule.parameter_copies == 2);
      CHECK(ran.report.by_rank[0][static_cast<std::size_t>(sim::Category::bubble)] * 3 * m == ran.work * (p - 2));
    }
  }
}

TEST_CASE("DualPipeV: DualPipe's time on half the devices, two different pieces on each, 2p + 1 in flight") {
  for (const int p : {1, 2, 4}) {
    for (const int m : {2 * p, 2 * p + 1, 8 * p}) {
      for (const SlotTimes& t : {SlotTimes{unit, unit, unit}, SlotTimes{2 * unit, 2 * unit, unit}}) {
        const Ticks pair = t.forward + t.input_gradient + t.weight_gradient;
        const Ticks backward = t.input_gradient + t.weight_gradient;
        const Ticks idle = (p - 1) * (pair + backward - 3 * t.weight_gradient);
        check_laws(ScheduleKind::dualpipe_v, {p, 1, m, 0}, t, idle, all(p, 2 * p + 1));
        const Ran v = run(ScheduleKind::dualpipe_v, {p, 1, m, 0}, t);
        CHECK(v.schedule.parameter_copies == 1);
        CHECK(v.schedule.virtual_stages == 2 * p);
        const Ran two = run(ScheduleKind::dualpipe, {2 * p, 1, 2 * m, 0}, t);
        CHECK(two.report.duration == v.report.duration);
      }
    }
  }
}

// One more warm-up forward than interleaved 1F1B, so that a pair's two halves are independent; one piece more in
// flight.
TEST_CASE("co-scheduling: the bubble of 1F1B and of interleaved 1F1B, one piece more in flight") {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {4 * p, 8 * p}) {
      for (const SlotTimes& t : any_costs) {
        const Ticks idle = (p - 1) * (t.forward + t.input_gradient + t.weight_gradient);
        check_laws(ScheduleKind::coscheduled, {p, 1, m, 0}, t, idle, by_rank(p, [&](int r) { return 2 * (p - r); }));
        if (p == 1) continue;
        for (const int v : {2, 3}) {
          check_laws(ScheduleKind::coscheduled, {p, v, m, 0}, t, idle,
                     by_rank(p, [&](int r) { return p * v + p - 2 * r; }));
        }
      }
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
