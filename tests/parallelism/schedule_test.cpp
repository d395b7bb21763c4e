#include "parallelism/schedule.h"

#include <catch2/catch.hpp>

#include "slot_simulator.h"

using namespace stepcast;
using namespace stepcast::parallelism;
using testing::simulate;
using testing::SlotTimes;

namespace {

Schedule make(ScheduleKind kind, ScheduleShape shape) {
  const Result<Schedule> made = info(kind).make(shape);
  if (!made.ok()) FAIL(made.errors().front().message);
  return *made;
}

double idle_share(const Schedule& s, SlotTimes t) {
  const auto run = simulate(s, t);
  REQUIRE(run.finished);
  return (run.makespan - run.ranks.front().busy) / run.ranks.front().busy;
}

}  // namespace

TEST_CASE("GPipe and 1F1B idle (p-1)/m of ideal, whatever the costs") {
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    for (const int p : {1, 2, 3, 4, 8}) {
      for (const int m : {1, 2, 3, 4, 7, 8, 32}) {
        const Schedule s = make(kind, {.stages = p, .microbatches = m});
        CHECK(check(s).empty());
        for (const SlotTimes t : {SlotTimes{1, 1, 1}, SlotTimes{2, 3, 1}, SlotTimes{1, 2, 4}}) {
          CHECK(idle_share(s, t) == Approx((p - 1.0) / m));
          CHECK(info(kind).ideal_bubble(s.shape, t.f, t.b, t.w) == Approx((p - 1.0) / m));
        }
      }
    }
  }
}

TEST_CASE("One microbatch on four stages: bubble 300 % of ideal, 75 % of the step") {
  const Schedule s = make(ScheduleKind::one_f_one_b, {.stages = 4, .microbatches = 1});
  CHECK(idle_share(s, {}) == Approx(3.0));
}
