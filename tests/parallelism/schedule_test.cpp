#include "parallelism/schedule.h"

#include <algorithm>

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

std::string messages(ScheduleKind kind, ScheduleShape shape) {
  const Result<Schedule> made = info(kind).make(shape);
  if (made.ok()) return "";
  std::string text;
  for (const Error& e : made.errors()) text += e.message + "\n";
  return text;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::vector<int> peaks(const Schedule& s) {
  std::vector<int> out;
  for (const auto& rank : simulate(s, {}).ranks) out.push_back(rank.peak);
  return out;
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

TEST_CASE("Every schedule of every shape that it accepts is sound, and its closed form is exact") {
  int shapes = 0;
  int closed = 0;
  for (const ScheduleInfo& kind : schedules()) {
    for (const int p : {1, 2, 3, 4, 6, 8}) {
      for (const int v : {1, 2, 3}) {
        for (const int m : {1, 2, 3, 4, 5, 8, 9, 16, 24}) {
          for (const int group : {0, p + 1}) {
            const Result<Schedule> made = kind.make({p, v, m, group});
            if (!made.ok()) continue;
            ++shapes;
            INFO(kind.name << " p " << p << " v " << v << " m " << m << " group " << group);
            REQUIRE(check(*made).empty());
            for (const SlotTimes t : {SlotTimes{1, 1, 1}, SlotTimes{2, 3, 1}, SlotTimes{1, 2, 4}, SlotTimes{2, 2, 1}}) {
              const double form = kind.ideal_bubble(made->shape, t.f, t.b, t.w);
              if (form < 0) continue;
              ++closed;
              REQUIRE(idle_share(*made, t) == Approx(form).margin(1e-12));
            }
          }
        }
      }
    }
  }
  CHECK(shapes > 500);
  CHECK(closed > 1500);
}

TEST_CASE("Interleaved: (p-1)/(v m) idle, L (1 + (p-1)/(p v)) of activations on the first rank") {
  const Schedule s = make(ScheduleKind::interleaved, {.stages = 4, .chunks = 3, .microbatches = 16});
  CHECK(idle_share(s, {}) == Approx(3.0 / 48));
  // In pieces, of which the model has p v.
  CHECK(peaks(s).front() == 4 * 3 + 4 - 1);
}

TEST_CASE("Interleaved follows Megatron-Core's table") {
  // get_schedule_table's own example: 5 microbatches, 2 chunks, groups of 3; here on 2 ranks.
  const Schedule s = make(ScheduleKind::interleaved, {.stages = 2, .chunks = 2, .microbatches = 5, .group_size = 3});
  std::vector<std::pair<int, int>> order;
  for (const Slot& slot : s.ranks[0]) {
    if (slot.kind == SlotKind::forward) order.emplace_back(slot.microbatch, slot.chunk);
  }
  CHECK(order == std::vector<std::pair<int, int>>{
                     {0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 0}, {4, 0}, {3, 1}, {4, 1}});
}

TEST_CASE("1F1B holds p-r microbatches on rank r, GPipe all") {
  CHECK(peaks(make(ScheduleKind::one_f_one_b, {.stages = 4, .microbatches = 16})) == std::vector<int>{4, 3, 2, 1});
  CHECK(peaks(make(ScheduleKind::one_f_one_b, {.stages = 4, .microbatches = 2})) == std::vector<int>{2, 2, 2, 1});
  CHECK(peaks(make(ScheduleKind::gpipe, {.stages = 4, .microbatches = 16})) == std::vector<int>(4, 16));
}

TEST_CASE("ZB-H1: (p-1)(F+B-W), a third of 1F1B at 1:1:1, with 1F1B's memory") {
  const Schedule s = make(ScheduleKind::zb_h1, {.stages = 4, .microbatches = 16});
  CHECK(idle_share(s, {}) == Approx(3.0 / 16 / 3));
  CHECK(idle_share(s, {2, 3, 1}) == Approx(3 * (2 + 3 - 1) / (16.0 * 6)));
  CHECK(peaks(s) == std::vector<int>(4, 4));
}

TEST_CASE("ZB-V: no idle time between a rank's first and last slot at 1:1:1, (p-1)F with a barrier") {
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {2 * p - 1, 2 * p, 4 * p + 1}) {
      const Schedule s = make(ScheduleKind::zb_v, {.stages = p, .microbatches = m});
      const auto run = simulate(s, {});
      for (const auto& rank : run.ranks) CHECK(rank.last - rank.first == Approx(rank.busy));
      CHECK(run.makespan - run.ranks[0].busy == Approx(p - 1));
      // 2p pieces of half a stage: 1F1B's memory.
      const auto held = peaks(s);
      CHECK(*std::max_element(held.begin(), held.end()) == 2 * p);
      CHECK(s.virtual_stages == 2 * p);
    }
  }
}

TEST_CASE("DualPipe: (p-2)/(3m) at 1:1:1, p+1 activations, two copies of the parameters") {
  for (const int p : {2, 4, 8, 16}) {
    for (const int m : {2 * p, 2 * p + 2, 8 * p}) {
      const Schedule s = make(ScheduleKind::dualpipe, {.stages = p, .microbatches = m});
      CHECK(idle_share(s, {}) == Approx((p - 2) / (3.0 * m)).margin(1e-12));
      CHECK(peaks(s) == std::vector<int>(static_cast<std::size_t>(p), p + 1));
      CHECK(s.parameter_copies == 2);
      CHECK(s.virtual_stages == p);
    }
  }
}

TEST_CASE("DualPipeV: DualPipe's time on half the devices, one copy of the parameters") {
  for (const int p : {2, 4, 8, 16}) {  // pieces
    const int m = 4 * p;
    const Schedule v = make(ScheduleKind::dualpipe_v, {.stages = p / 2, .microbatches = m / 2});
    const Schedule two = make(ScheduleKind::dualpipe, {.stages = p, .microbatches = m});
    CHECK(simulate(v, {}).makespan == Approx(simulate(two, {}).makespan));
    CHECK(v.virtual_stages == p);
    CHECK(v.parameter_copies == 1);
    CHECK(peaks(v) == std::vector<int>(static_cast<std::size_t>(p) / 2, p + 1));
    const Schedule same = make(ScheduleKind::dualpipe_v, {.stages = p / 2, .microbatches = m});
    CHECK(idle_share(same, {}) == Approx((p - 2) / (6.0 * m)).margin(1e-12));
  }
}

TEST_CASE("Co-scheduling pairs every forward but the warm-up's, and keeps the bubble of 1F1B") {
  const Schedule s = make(ScheduleKind::coscheduled, {.stages = 4, .microbatches = 16});
  CHECK(idle_share(s, {}) == Approx(3.0 / 16));
  for (std::size_t r = 0; r < 4; ++r) {
    const auto pairs = std::count_if(s.ranks[r].begin(), s.ranks[r].end(),
                                     [](const Slot& slot) { return slot.kind == SlotKind::forward_backward; });
    CHECK(pairs == 16 - (2 * (3 - static_cast<int>(r)) + 1));
  }
  const Schedule v = make(ScheduleKind::coscheduled, {.stages = 4, .chunks = 2, .microbatches = 16});
  CHECK(idle_share(v, {}) == Approx(3.0 / 32));
  CHECK(peaks(v).front() == 4 * 2 + 4);  // one piece more than interleaved
  const Schedule one = make(ScheduleKind::coscheduled, {.stages = 1, .microbatches = 3});
  CHECK(one.ranks[0].size() == 4);
}

TEST_CASE("owner() agrees with virtual_stage") {
  for (const ScheduleInfo& kind : schedules()) {
    for (const int v : {1, 2}) {
      const Result<Schedule> made = kind.make({4, v, 8, 0});
      if (!made.ok()) continue;
      for (int piece = 0; piece < made->virtual_stages; ++piece) {
        for (const int i : {0, 7}) {
          const auto place = made->owner(piece, i);
          const auto& chunks = made->virtual_stage[static_cast<std::size_t>(place.rank)];
          CHECK(chunks[static_cast<std::size_t>(place.chunk)] == piece);
        }
      }
    }
  }
}

TEST_CASE("Shapes that a schedule cannot run are refused with the numbers") {
  CHECK(has(messages(ScheduleKind::one_f_one_b, {.stages = 4, .chunks = 2, .microbatches = 8}), "vpp 2"));
  CHECK(has(messages(ScheduleKind::interleaved, {.stages = 4, .chunks = 1, .microbatches = 8}), "or use '1f1b'"));
  CHECK(has(messages(ScheduleKind::interleaved, {.stages = 4, .chunks = 2, .microbatches = 3}),
            "a group of 4 microbatches; it must be at least the 4 ranks and at most the 3"));
  CHECK(has(messages(ScheduleKind::interleaved, {.stages = 4, .chunks = 2, .microbatches = 10}), "leave 2"));
  CHECK(has(messages(ScheduleKind::interleaved, {.stages = 1, .chunks = 2, .microbatches = 8}), "need pp above 1"));
  CHECK(has(messages(ScheduleKind::interleaved, {.stages = 4, .chunks = 2, .microbatches = 8, .group_size = 3}),
            "a group of 3"));
  CHECK(has(messages(ScheduleKind::dualpipe, {.stages = 3, .microbatches = 5}), "pp 3; it must be even"));
  CHECK(has(messages(ScheduleKind::dualpipe, {.stages = 3, .microbatches = 5}), "5 microbatches; they must be even"));
  CHECK(has(messages(ScheduleKind::dualpipe, {.stages = 4, .microbatches = 6}), "2 x pp = 8 or more"));
  CHECK(has(messages(ScheduleKind::dualpipe_v, {.stages = 4, .microbatches = 7}), "2 x pp = 8 or more"));
  CHECK(has(messages(ScheduleKind::zb_v, {.stages = 4, .chunks = 3, .microbatches = 8}), "exactly two chunks"));
  for (const ScheduleInfo& kind : schedules()) {
    CHECK(has(messages(kind.kind, {.stages = 0, .microbatches = 8}), "0 pipeline ranks"));
    CHECK(has(messages(kind.kind, {.stages = 4, .microbatches = -1}), "-1 microbatches"));
    CHECK(has(messages(kind.kind, {.stages = 2147483647, .microbatches = 1}), "2147483647 pipeline ranks"));
    CHECK(has(messages(kind.kind, {.stages = 4, .microbatches = 2147483646}), "more than the 16777216 slots"));
  }
}

TEST_CASE("Names of schedules") {
  for (const ScheduleInfo& kind : schedules()) {
    const auto parsed = parse_schedule(std::string(kind.name));
    REQUIRE(parsed.ok());
    CHECK(*parsed == kind.kind);
    CHECK(&info(kind.kind) == &kind);
  }
  CHECK(schedules().size() == 8);
  CHECK(has(parse_schedule("dualpip").errors().front().message, "did you mean 'dualpipe'?"));
  CHECK(has(parse_schedule("").errors().front().message, "no schedule ''"));
}

TEST_CASE("check() finds what is wrong with a schedule") {
  const auto broken = [](const auto& damage) {
    Schedule s = make(ScheduleKind::one_f_one_b, {.stages = 2, .microbatches = 4});
    damage(s);
    std::string text;
    for (const std::string& fault : check(s)) text += fault + "\n";
    return text;
  };
  CHECK(broken([](Schedule&) {}).empty());
  CHECK(has(broken([](Schedule& s) { s.ranks[0].pop_back(); }), "piece 0 of microbatch 3 lacks a pass"));
  CHECK(has(broken([](Schedule& s) { s.ranks[1].push_back(s.ranks[1].back()); }), "twice"));
  CHECK(has(broken([](Schedule& s) { std::swap(s.ranks[1][0], s.ranks[1][1]); }), "rank 1 waits for ever at slot 0"));
  CHECK(has(broken([](Schedule& s) { s.ranks[0][0].chunk = 7; }), "names chunk 7"));
  CHECK(has(broken([](Schedule& s) { s.ranks[0][0].microbatch = -3; }), "microbatch -3"));
  CHECK(has(broken([](Schedule& s) { std::swap(s.ranks[0][0], s.ranks[0][1]); }), "messages would overtake"));
  // A forward that waits for a backward that waits for it: found, not hung.
  CHECK(has(broken([](Schedule& s) { std::rotate(s.ranks[0].begin(), s.ranks[0].begin() + 2, s.ranks[0].end()); }),
            "waits for ever"));
}
