// Levels kept change by change against progressive filling from scratch, on random networks of every kind.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

#include "random_program.h"
#include "sim/engine/flows.h"
#include "sim/engine/max_min.h"

namespace stepcast::sim {
namespace {

using Loads = std::vector<MaxMin::Load>;

struct Drawn {
  double cap = 1;
  Loads loads;
};

// The slow, obviously right way, in long double: one level rises for all until a cap or a link stops some.
std::vector<double> filled(const std::vector<double>& capacity, const std::vector<Drawn>& flows) {
  constexpr long double one_link = 0x1p30L;
  std::vector<double> rates(flows.size(), 0);
  std::vector<bool> stopped(flows.size(), false);
  std::vector<long double> used(capacity.size(), 0);
  for (std::size_t left = flows.size(); left > 0;) {
    std::vector<long double> slope(capacity.size(), 0);
    long double level = 2;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (stopped[f]) continue;
      level = std::min(level, static_cast<long double>(flows[f].cap));
      for (const auto& load : flows[f].loads) {
        slope[static_cast<std::size_t>(load.link)] += static_cast<long double>(load.q) / one_link / flows[f].cap;
      }
    }
    std::vector<long double> at(capacity.size(), 2);
    for (std::size_t l = 0; l < capacity.size(); ++l) {
      if (slope[l] > 0) at[l] = (static_cast<long double>(capacity[l]) - used[l]) / slope[l];
      level = std::min(level, at[l]);
    }
    const long double reached = level * (1 + 1e-15L);
    std::vector<std::size_t> now;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (stopped[f]) continue;
      const bool full = std::any_of(flows[f].loads.begin(), flows[f].loads.end(), [&](const auto& load) {
        return at[static_cast<std::size_t>(load.link)] <= reached;
      });
      if (full || flows[f].cap <= reached) now.push_back(f);
    }
    for (const std::size_t f : now) {
      rates[f] = static_cast<double>(std::min(1.0L, level / flows[f].cap));
      stopped[f] = true;
      for (const auto& load : flows[f].loads) {
        used[static_cast<std::size_t>(load.link)] += static_cast<long double>(load.q) / one_link * rates[f];
      }
    }
    left -= now.size();
  }
  return rates;
}

constexpr std::int64_t one = std::int64_t{1} << 30;

// Hosts under leaves with pooled or hashed uplinks, over times oversubscribed.
struct Network {
  int hosts, radix;
  double over;
  bool hashed, weighted, skewed;
  [[nodiscard]] int planes() const { return hashed ? std::max(1, static_cast<int>(radix / over)) : 1; }
  [[nodiscard]] std::vector<double> capacity() const {
    return std::vector<double>(static_cast<std::size_t>(2 * hosts + 2 * hosts / radix * planes()), 1.0);
  }
  Drawn draw(testing::Draws& draws, int from) const {
    Drawn flow;
    const int to = skewed && draws.chance(60) ? draws.below(3) : draws.below(hosts);
    if (weighted) flow.cap = 0.125 * (1 + draws.below(8));
    const auto part = [&](double share) { return std::llround(share * flow.cap * static_cast<double>(one)); };
    flow.loads = {{from, part(1)}, {hosts + to, part(1)}};
    if (from / radix == to / radix) return flow;
    const int up = 2 * hosts, down = up + hosts / radix * planes(), plane = draws.below(planes());
    const double share = hashed ? 1 : over / radix;
    flow.loads.push_back({up + from / radix * planes() + plane, part(share)});
    flow.loads.push_back({down + to / radix * planes() + plane, part(share)});
    return flow;
  }
};

void check_against_scratch(const Network& network, std::uint64_t seed) {
  INFO("over " << network.over << " hashed " << network.hashed << " weighted " << network.weighted << " skewed "
               << network.skewed << " seed " << seed);
  const std::vector<double> capacity = network.capacity();
  MaxMin kept(capacity), renamed(capacity);
  testing::Draws draws(seed);
  std::map<std::uint32_t, Drawn> running;
  const auto other = [](std::uint32_t flow) { return 997 - flow; };
  for (int change = 0; change < 120; ++change) {
    // Several at once now and then; names and the order within the change differ between the two.
    std::vector<std::uint32_t> begun, ended;
    for (int k = draws.chance(20) ? 12 : 1; k > 0; --k) {
      const auto host = static_cast<std::uint32_t>(draws.below(network.hosts));
      if (std::find(begun.begin(), begun.end(), host) != begun.end()) continue;
      if (running.count(host) != 0 && std::find(ended.begin(), ended.end(), host) == ended.end()) {
        ended.push_back(host);
        if (draws.chance(40)) continue;
      }
      begun.push_back(host);
    }
    for (const std::uint32_t host : ended) {
      kept.remove(host);
      running.erase(host);
    }
    for (auto host = ended.rbegin(); host != ended.rend(); ++host) renamed.remove(other(*host));
    for (const std::uint32_t host : begun) {
      running[host] = network.draw(draws, static_cast<int>(host));
      kept.add(host, running[host].cap, running[host].loads);
    }
    for (auto host = begun.rbegin(); host != begun.rend(); ++host) {
      renamed.add(other(*host), running[*host].cap, running[*host].loads);
    }
    static_cast<void>(kept.solve());
    static_cast<void>(renamed.solve());
    std::vector<Drawn> flows;
    MaxMin scratch(capacity);
    for (const auto& [host, flow] : running) {
      flows.push_back(flow);
      scratch.add(host, flow.cap, flow.loads);
    }
    static_cast<void>(scratch.solve());
    const std::vector<double> exact = filled(capacity, flows);
    std::size_t i = 0;
    double worst = 0;
    for (const auto& [host, flow] : running) {
      worst = std::max(worst, std::abs(kept.rate(host) / exact[i] - 1));
      worst = std::max(worst, std::abs(scratch.rate(host) / exact[i] - 1));
      if (kept.rate(host) != renamed.rate(other(host))) FAIL("the name of a flow changes its rate");
      ++i;
    }
    if (worst > 1e-9) FAIL("change " << change << " differs from scratch by " << worst);
    for (std::int32_t l = 0; l < static_cast<std::int32_t>(capacity.size()); ++l) {
      if (kept.used(l) > 1) FAIL("link " << l << " carries " << kept.used(l));
    }
    CHECK(kept.certificate_error() <= 1e-9);
  }
}

TEST_CASE("levels kept change by change are those from scratch, whatever the flows are called") {
  std::uint64_t seed = 0;
  for (const double over : {1.0, 2.0, 4.0}) {
    for (int kind = 0; kind < 8; ++kind) {
      for (int again = 0; again < 2; ++again) {
        check_against_scratch({32, 8, over, (kind & 1) != 0, (kind & 2) != 0, (kind & 4) != 0}, ++seed);
      }
    }
  }
}

TEST_CASE("ties: equal flows on equal links have equal levels, and all of them rise together") {
  MaxMin rates(std::vector<double>(4, 1.0));
  const Loads two = {{0, one}, {1, one}};
  for (std::uint32_t f = 0; f < 4; ++f) rates.add(f, 1, two);
  for (std::uint32_t f = 4; f < 8; ++f) rates.add(f, 1, Loads{{2, one}, {3, one}});
  CHECK(rates.solve().size() == 8);
  for (std::uint32_t f = 0; f < 8; ++f) CHECK(rates.rate(f) == 0.25);
  rates.remove(0);
  rates.remove(1);
  CHECK(rates.solve().size() == 2);  // links 2 and 3 are not looked at
  CHECK(rates.rate(2) == 0.5);
  CHECK(rates.rate(4) == 0.25);
}

TEST_CASE("bytes are conserved: over their time, flows carry their work, and links no more than they can") {
  const Network network{32, 8, 4, false, false, true};
  const std::vector<double> capacity = network.capacity();
  FlowSet set(capacity);
  testing::Draws draws(11);
  std::vector<double> carried, work;
  std::vector<std::vector<LinkShare>> links;
  Ticks now = 0;
  const auto pass = [&](Ticks until) {
    while (true) {
      const Ticks next = std::min(set.next(), until);
      for (const auto& [id, rate] : set.rates()) carried[id] += rate * static_cast<double>(next - now);
      now = next;
      for (std::uint32_t id = 0; set.take(now, id);) {
        if (std::abs(carried[id] - work[id]) > 1 + 1e-9 * work[id]) FAIL("flow " << id << " carried " << carried[id]);
      }
      if (next == until || set.empty()) return;
    }
  };
  for (std::uint32_t id = 0; id < 400; ++id) {
    pass(now + draws.below(20000));
    const Drawn flow = network.draw(draws, draws.below(32));
    auto& list = links.emplace_back();
    for (const auto& load : flow.loads) {
      list.push_back({load.link, static_cast<float>(load.q) / static_cast<float>(one), 0});
    }
    work.push_back(100'000 + draws.below(900'000));
    carried.push_back(0);
    set.start(now, static_cast<Ticks>(work.back()), id, id, {&list, 1, 0});
  }
  pass(FlowSet::never - 1);
  CHECK(set.empty());
  CHECK(set.stats().slowed > 100);
}

}  // namespace
}  // namespace stepcast::sim
