// The stored graph and its queue.
#include "sim/engine/oracle.h"

#include <catch2/catch.hpp>

#include <queue>

#include "random_program.h"
#include "sim/engine/calendar_queue.h"
#include "sim/engine/op_graph.h"

namespace stepcast::sim {
namespace {

std::vector<Ticks> begins(const OpTimes& times) {
  std::vector<Ticks> out;
  for (const OpTime& t : times.ops) out.push_back(t.begin);
  return out;
}

TEST_CASE("a diamond of ops takes its longest way") {
  OpGraphBuilder b;
  const auto a = b.add_op(10), left = b.add_op(100), right = b.add_op(30), end = b.add_op(5);
  b.add_edge(a, left);
  b.add_edge(a, right, 50);
  b.add_edge(left, end);
  b.add_edge(right, end);
  const auto graph = std::move(b).build();
  const auto times = run_graph(*graph);
  REQUIRE(times.ok());
  CHECK(begins(*times) == std::vector<Ticks>{0, 10, 60, 110});
  CHECK(times->makespan == 115);
}

TEST_CASE("a message bounds the end and not the begin") {
  OpGraphBuilder b;
  const auto send = b.add_op(70), receive = b.add_op(0), early = b.add_op(0);
  b.add_edge(send, receive, 0, true);
  b.add_edge(receive, early);
  const auto graph = std::move(b).build();
  const auto times = run_graph(*graph);
  CHECK(times->ops[receive].begin == 0);
  CHECK(times->ops[receive].end == 70);
  CHECK(times->ops[early].begin == 70);
}

TEST_CASE("a group begins together and may end together") {
  OpGraphBuilder b;
  const auto before = b.add_op(40);
  const auto x = b.add_op(10), y = b.add_op(25), z = b.add_op(5);
  b.add_edge(before, x);
  b.set_group(x, 0, false);
  b.set_group(y, 0, false);
  b.set_group(z, 0, true);
  const auto graph = std::move(b).build();
  const auto times = run_graph(*graph);
  CHECK(begins(*times) == std::vector<Ticks>{0, 40, 40, 40});
  CHECK(times->ops[y].ready == 0);
  CHECK(times->ops[x].end == 50);
  CHECK(times->ops[y].end == 65);
  CHECK(times->ops[z].end == 65);
}

TEST_CASE("long durations and delays survive the compact form") {
  OpGraphBuilder b;
  const Ticks week = 604800 * static_cast<Ticks>(ticks_per_second);
  const auto a = b.add_op(week), c = b.add_op(OpGraph::table_bit - 1), d = b.add_op(OpGraph::table_bit);
  b.add_edge(a, c, week);
  b.add_edge(c, d);
  const auto graph = std::move(b).build();
  CHECK(run_graph(*graph)->makespan == 2 * week + 2 * static_cast<Ticks>(OpGraph::table_bit) - 1);
}

TEST_CASE("ops in a circle are refused") {
  OpGraphBuilder b;
  const auto a = b.add_op(1), c = b.add_op(1), d = b.add_op(1);
  b.add_edge(a, c);
  b.add_edge(c, d);
  b.add_edge(d, c);
  const auto graph = std::move(b).build();
  const auto times = run_graph(*graph);
  REQUIRE_FALSE(times.ok());
  CHECK(times.errors()[0].message == "2 of 3 ops wait for each other for ever, the first of them op 1");
}

TEST_CASE("an empty graph takes no time") {
  const auto graph = OpGraphBuilder().build();
  CHECK(run_graph(*graph)->makespan == 0);
}

TEST_CASE("the calendar gives events in the order of time and id") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    testing::Draws draws(seed);
    using Event = CalendarQueue::Event;
    const auto later = [](const Event& a, const Event& b) { return b < a; };
    std::priority_queue<Event, std::vector<Event>, decltype(later)> plain(later);
    CalendarQueue calendar;
    Ticks now = 0;
    const int spread = 1 << draws.below(30);
    for (std::uint32_t i = 0; i < 20000; ++i) {
      const Ticks at = now + (draws.chance(10) ? 0 : draws.below(spread)) + (draws.chance(1) ? Ticks{1} << 40 : 0);
      plain.push({at, i});
      calendar.push(at, i);
      while (!plain.empty() && draws.chance(i % 4096 < 2048 ? 30 : 60)) {
        const Event e = calendar.pop();
        REQUIRE(e.time == plain.top().time);
        REQUIRE(e.id == plain.top().id);
        now = e.time;
        plain.pop();
      }
    }
    while (!plain.empty()) {
      const Event e = calendar.pop();
      REQUIRE(e.time == plain.top().time);
      REQUIRE(e.id == plain.top().id);
      plain.pop();
    }
    CHECK(calendar.empty());
  }
}

TEST_CASE("a stored program stays small") {
  const Program p = testing::random_program(3, false);
  const testing::HashedLoads loads(3);
  Conditions conditions;
  conditions.loads = &loads;
  const auto expansion = expand(p, conditions, {});
  REQUIRE(expansion.ok());
  const std::size_t hosts = static_cast<std::size_t>(p.ranks);
  CHECK(expansion->graph.size() == static_cast<std::size_t>(p.rank_ops()) + hosts);
  CHECK(static_cast<double>(expansion->graph.bytes()) <= 60.0 * static_cast<double>(expansion->graph.size()));
}

}  // namespace
}  // namespace stepcast::sim
