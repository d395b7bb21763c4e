// Operations cut into flows of box pairs: closed forms, when they are cut, what links carry.
#include <catch2/catch.hpp>

#include <numeric>

#include "random_program.h"
#include "sim/engine/flows.h"

namespace stepcast::sim {
namespace {

constexpr Ticks work = 1'200'000'000;

// An exchange over some boxes of two lanes, a NIC up and a NIC down a box, and one uplink that every box of the first
// half crosses to the others.
struct Exchange {
  explicit Exchange(int boxes, double uplink = 0) {
    for (int b = 0; b < 2 * boxes; ++b) links.push_back({b, 1, 0});
    if (uplink > 0) links.push_back({2 * boxes, static_cast<float>(uplink), 0});
    parts.places.resize(static_cast<std::size_t>(boxes));
    for (int b = 0; b < boxes; ++b) parts.places[static_cast<std::size_t>(b)] = {2 * b, 2 * b + 1};
    const float each = 1.0F / static_cast<float>(boxes - 1);
    const float half = static_cast<float>(boxes * boxes) / 4;
    for (int a = 0; a < boxes; ++a) {
      for (int b = 0; b < boxes; ++b) {
        if (a == b) continue;
        LinkParts::Part part{a, b, 1, {{a, each, 0}, {boxes + b, each, 0}}};
        if (uplink > 0 && a < boxes / 2 && b >= boxes / 2) {
          part.loads.push_back({2 * boxes, static_cast<float>(uplink) / half, 0});
        }
        parts.parts.push_back(std::move(part));
      }
    }
    demand.links = &links;
    demand.nic = 1;
    demand.boxes = demand.nics = &parts;
    demand.volume = &volume;
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::vector<LinkShare> links;
  LinkParts parts;
  std::vector<float> volume;
  FlowDemand demand;
};

struct Ran {
  Ticks end = 0;
  std::vector<double> carried;  // by link: capacity x ticks
  double most_used = 0;
  FlowStats stats;
};

// The exchange from time 0, beside a flow over its first NIC up from `beside` on for as long.
Ran run(const Exchange& exchange, const FlowRule& rule, Ticks beside = -1, Ticks its_work = work) {
  FlowSet flows(std::vector<double>(exchange.links.size(), 1.0), &rule);
  const std::vector<LinkShare> nic = {{0, 1, 0}};
  FlowDemand other;
  other.links = &nic;
  other.nic = 1;
  Ran ran;
  ran.carried.resize(exchange.links.size());
  flows.start(0, work, 1, 1, exchange.demand);
  if (beside == 0) flows.start(0, its_work, 2, 2, other);
  for (Ticks now = 0; !flows.empty();) {
    Ticks next = flows.next();
    CHECK(flows.certificate_error() <= 1e-9);
    if (beside > now && beside < next) next = beside;
    for (std::size_t l = 0; l < ran.carried.size(); ++l) {
      const double used = flows.used(static_cast<std::int32_t>(l));
      ran.carried[l] += used * static_cast<double>(next - now);
      ran.most_used = std::max(ran.most_used, used);
    }
    now = next;
    for (std::uint32_t id = 0; flows.take(now, id);) {
      if (id == 1) ran.end = now;
    }
    if (now == beside) flows.start(now, its_work, 2, 2, other);
  }
  ran.stats = flows.stats();
  return ran;
}

FlowRule forced(FlowLevel level) { return {level, {}}; }
const FlowRule chosen;

std::vector<float> drawn(std::uint64_t seed, std::size_t lanes) {
  testing::Draws draws(seed);
  std::vector<float> volume(lanes);
  for (float& v : volume) v = 0.01F * static_cast<float>(draws.below(101));
  volume[static_cast<std::size_t>(draws.below(static_cast<int>(lanes)))] = 1;
  return volume;
}

TEST_CASE("cut from its begin, an exchange that nothing disturbs takes its time alone to the picosecond") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Exchange exchange(4 + static_cast<int>(seed % 3), seed % 2 == 0 ? 0 : 1.7);
    if (seed > 0) exchange.volume = drawn(seed, exchange.parts.places.size() * 2);
    exchange.demand.nic = seed % 5 == 0 ? 1 : 0.6;
    for (const bool leave : {false, true}) {
      exchange.demand.rows_leave = leave;
      const Ran ran = run(exchange, forced(FlowLevel::box));
      INFO("seed " << seed);
      CHECK(ran.end == work);
      CHECK(ran.stats.slowed == 0);
      CHECK(ran.stats.levels[1].operations == 1);
      CHECK(ran.most_used <= 1);
    }
  }
}

// What each link has to carry: each lane's volume over the parts of its place.
std::vector<double> bytes_of(const Exchange& exchange) {
  std::vector<double> bytes(exchange.links.size());
  for (const LinkParts::Part& part : exchange.parts.parts) {
    const auto place = static_cast<std::size_t>(exchange.demand.rows_leave ? part.out : part.in);
    double mean = 0;
    for (const std::int32_t lane : exchange.parts.places[place]) {
      mean += static_cast<double>(exchange.volume[static_cast<std::size_t>(lane)]) / 2;
    }
    for (const LinkParts::Load& load : part.loads) {
      bytes[static_cast<std::size_t>(load.at)] += static_cast<double>(load.nic) * exchange.demand.nic * mean * work;
    }
  }
  return bytes;
}

TEST_CASE("a cut exchange carries the bytes of its lanes on every link, alone and slowed, and fills none beyond") {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    Exchange exchange(6, 0.9);
    exchange.volume = drawn(seed, 12);
    exchange.demand.nic = seed % 2 == 0 ? 1 : 0.7;
    exchange.demand.rows_leave = seed % 3 == 0;
    std::vector<double> expected = bytes_of(exchange);
    for (const bool beside : {false, true}) {
      const Ran ran = run(exchange, forced(FlowLevel::box), beside ? 0 : -1);
      if (beside) expected[0] += work;
      CHECK(ran.most_used <= 1);
      for (std::size_t l = 0; l < expected.size(); ++l) {
        CHECK(ran.carried[l] == Approx(expected[l]).epsilon(1e-6).margin(20));
      }
    }
  }
}

TEST_CASE("a macro-flow moves every lane's part as if it were the busiest") {
  Exchange exchange(6, 0.9);
  exchange.volume = drawn(3, 12);
  const Ran ran = run(exchange, forced(FlowLevel::macro), 0);
  for (std::size_t l = 1; l < 12; ++l) CHECK(ran.carried[l] == Approx(static_cast<double>(work)));
  CHECK(ran.most_used <= 1);
}

TEST_CASE("an exchange is cut when a link slows it and its lanes differ, and not before") {
  Exchange exchange(4);
  CHECK(run(exchange, chosen, 0).stats.promoted == 0);  // all alike
  exchange.volume = {1, 1, 0.99F, 0.99F, 1, 1, 1, 1};
  CHECK(run(exchange, chosen, 0).stats.promoted == 0);  // nearly
  exchange.volume = {1, 1, 0.4F, 0.4F, 0.4F, 0.4F, 0.4F, 0.4F};
  CHECK(run(exchange, chosen).stats.promoted == 0);  // not slowed
  const Ran cut = run(exchange, chosen, 0);
  CHECK(cut.stats.promoted == 1);
  CHECK(cut.stats.levels[1].operations == 1);
  CHECK(cut.stats.levels[0].operations == 1);
  CHECK(cut.end <= run(exchange, forced(FlowLevel::macro), 0).end);
  CHECK(cut.end == run(exchange, forced(FlowLevel::box), 0).end);
}

TEST_CASE("what an exchange is cut into depends on the link that slows it and on where its lanes differ") {
  Exchange exchange(4, 1);
  LinkParts by_nic = exchange.parts;
  exchange.demand.nics = &by_nic;
  FlowRule rule;
  const auto level = [&](LinkKind kind) {
    rule.kinds.assign(exchange.links.size(), kind);
    const FlowStats stats = run(exchange, rule, 0).stats;
    CHECK(stats.promoted == stats.levels[1].operations + stats.levels[2].operations);
    return stats.levels[2].operations > 0 ? 2 : stats.levels[1].operations > 0 ? 1 : 0;
  };
  CHECK(level(LinkKind::uplink) == 0);
  CHECK(level(LinkKind::hashed_uplink) == 2);
  exchange.volume = {1, 1, 0.4F, 0.4F, 0.4F, 0.4F, 0.4F, 0.4F};
  CHECK(level(LinkKind::uplink) == 1);
  CHECK(level(LinkKind::nic) == 0);  // beside a macro-flow
  CHECK(level(LinkKind::nvlink) == 0);
  exchange.volume = {1, 0.4F, 0.4F, 0.4F, 0.4F, 0.4F, 0.4F, 0.4F};
  CHECK(level(LinkKind::uplink) == 2);
  exchange.demand.nics = nullptr;
  CHECK(level(LinkKind::uplink) == 1);
  CHECK(level(LinkKind::hashed_uplink) == 1);
}

TEST_CASE("many parts are folded by volume: the same bytes in few flows, and the same end alone") {
  Exchange exchange(10, 2.5);  // 90 parts
  exchange.volume = drawn(11, 20);
  std::vector<double> expected = bytes_of(exchange);
  expected[0] += work;
  const Ran ran = run(exchange, chosen, 0);
  CHECK(ran.stats.promoted == 1);
  CHECK(ran.stats.levels[1].flows <= static_cast<std::int64_t>(Cutter::volume_classes) + 1);
  CHECK(ran.most_used <= 1);
  for (std::size_t l = 0; l < expected.size(); ++l) {
    if (l < 20) CHECK(ran.carried[l] == Approx(expected[l]).epsilon(1e-6).margin(20));
  }
  CHECK(run(exchange, chosen).end == work);
}

// As in the lowering, where the engine chooses the level: parts name uplinks only.
TEST_CASE("links that no part names are loaded as the busiest place loads them") {
  Exchange exchange(4, 0.5);
  for (LinkParts::Part& part : exchange.parts.parts) {
    std::erase_if(part.loads, [](const LinkParts::Load& load) { return load.at < 8; });
  }
  exchange.volume = {0.5F, 0.5F, 1, 1, 1, 1, 1, 1};
  for (const FlowLevel level : {FlowLevel::macro, FlowLevel::box}) {
    const Ran ran = run(exchange, forced(level));
    CHECK(ran.end == work);
    for (std::size_t l = 0; l < 8; ++l) CHECK(ran.carried[l] == Approx(static_cast<double>(work)));
  }
  for (LinkParts::Part& part : exchange.parts.parts) part.even = 0;  // rings
  const Ran rings = run(exchange, forced(FlowLevel::box));
  CHECK(rings.end == work);
  for (std::size_t l = 0; l < 8; ++l) CHECK(rings.carried[l] == Approx(static_cast<double>(work)));
}

// Box 0 receives half of what the others do. Beside its NIC down, a flow of the same length: of the three parts into
// box 0, each 1/3 at half volume, the NIC gives half. They end at the time of the others, which are not slowed at all.
TEST_CASE("parts that have less to move give way without holding the others up") {
  Exchange exchange(4);
  exchange.volume = {0.5F, 0.5F, 1, 1, 1, 1, 1, 1};
  exchange.links[4].link = 0;  // the NIC that the other flow is on
  exchange.links[0].link = 4;
  const Ticks late = run(exchange, chosen, 0).end - work;
  CHECK(late >= 0);
  CHECK(late < 1000);  // a nanosecond: a third of a NIC in single precision
  CHECK(run(exchange, forced(FlowLevel::macro), 0).end == 2 * work);
}

TEST_CASE("an exchange cut in the middle has moved alike until then") {
  Exchange exchange(4);
  exchange.volume = {0.5F, 0.5F, 1, 1, 1, 1, 1, 1};
  exchange.links[4].link = 0;
  exchange.links[0].link = 4;
  const Ran late = run(exchange, chosen, work / 4 * 3);
  CHECK(late.end == work);  // box 0 has its rows already
  CHECK(late.stats.promoted == 1);
}

}  // namespace
}  // namespace stepcast::sim
