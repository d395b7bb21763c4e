// One all-to-all phase at the three levels of flows, and how far they are apart; what sharing the fabric costs.
//
// Macro-flow: one flow a group. Folded: one a group, source box and destination box, its rails together. Per NIC: one
// a member and destination box. The first tests state what one flow a group costs; those of an exchange as steps have
// it, with the engine's own cuts (sim/engine/flow_parts.h), what is left of that at each level.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <optional>

#include "cluster_fixture.h"
#include "sim/base/rng.h"
#include "sim/engine/flows.h"
#include "topology/link_load.h"

namespace stepcast::topology {
namespace {

using Devices = std::vector<DeviceId>;

constexpr int box = 8, boxes = 32, group_boxes = 8, leaf_boxes = 4;
constexpr Ticks alone = 1'000'000'000;  // of the average box pair, times 7: a millisecond a phase

Fabric fabric_of(double over, Routing routing) {
  ClusterOverrides overrides;
  overrides.leaf_radix = leaf_boxes;
  overrides.oversubscription = over;
  overrides.routing = routing;
  return Fabric(cluster_of("h100:256", overrides));
}

// Boxes by group, drawn or side by side.
std::vector<std::vector<int>> groups_of(bool scattered) {
  std::vector<int> order(boxes);
  std::iota(order.begin(), order.end(), 0);
  const RngKey key(7, 0, Purpose::program_test);
  for (int i = boxes - 1; scattered && i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[key.with(static_cast<std::uint64_t>(i)).bits % static_cast<std::uint64_t>(i + 1)]);
  }
  std::vector<std::vector<int>> groups;
  for (int g = 0; g < boxes / group_boxes; ++g) {
    groups.emplace_back(order.begin() + g * group_boxes, order.begin() + (g + 1) * group_boxes);
    std::sort(groups.back().begin(), groups.back().end());
  }
  return groups;
}

Devices rails_of(int b) {
  Devices devices;
  for (int r = 0; r < box; ++r) devices.emplace_back(b * box + r);
  return devices;
}

// Time of the transfer from a to b on an idle NIC: even, or 0.4 to 1.6 of that.
Ticks work_of(int a, int b, bool skewed) {
  if (!skewed) return alone / (group_boxes - 1);
  const RngKey key(13, 0, Purpose::program_test);
  const double drawn = static_cast<double>(key.with(static_cast<std::uint64_t>(a * boxes + b)).bits % 1000) / 999;
  return std::llround(static_cast<double>(alone / (group_boxes - 1)) * (0.4 + 1.2 * drawn));
}

// Flows begun together; by owner, when the last of its flows ends.
class Phase {
 public:
  explicit Phase(const Fabric& fabric, double left = 1) {
    for (int l = 0; l < fabric.link_count(); ++l) {
      const LinkKind kind = fabric.link(LinkId(l)).kind;
      capacity_.push_back(kind == LinkKind::leaf_up || kind == LinkKind::leaf_down ? left : 1);
    }
  }
  void add(std::size_t owner, Ticks work, const std::vector<LinkLoad>& loads) {
    auto& list = flows_.emplace_back(Flow{owner, work, {}}).links;
    for (const LinkLoad& load : loads) {
      if (load.nic > 0) list.push_back({load.link.value, static_cast<float>(load.nic), 0});
    }
  }
  [[nodiscard]] std::vector<double> run(std::size_t owners) const {
    sim::FlowSet set(capacity_);
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      sim::FlowDemand demand;
      demand.links = &flows_[f].links;
      demand.nic = 1;
      set.start(0, flows_[f].work, f, static_cast<std::uint32_t>(f), demand);
    }
    std::vector<double> ends(owners, 0);
    for (Ticks now = set.next(); now != sim::FlowSet::never; now = set.next()) {
      for (std::uint32_t id = 0; set.take(now, id);) ends[flows_[id].owner] = static_cast<double>(now);
    }
    return ends;
  }

 private:
  struct Flow {
    std::size_t owner;
    Ticks work;
    std::vector<sim::LinkShare> links;
  };
  std::vector<double> capacity_;
  std::vector<Flow> flows_;
};

enum class Level { macro_flow, folded, per_nic };

std::vector<double> exchange(const Fabric& fabric, const std::vector<std::vector<int>>& groups, bool skewed,
                             Level level) {
  Phase phase(fabric);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Devices members;
    Ticks busiest = 0;
    for (const int a : groups[g]) {
      Ticks out = 0, in = 0;
      for (const int b : groups[g]) {
        if (a == b) continue;
        out += work_of(a, b, skewed);
        in += work_of(b, a, skewed);
        const Devices from = rails_of(a), to = rails_of(b);
        if (level == Level::folded) phase.add(g, work_of(a, b, skewed), pairs_load(fabric, from, to));
        for (std::size_t r = 0; level == Level::per_nic && r < from.size(); ++r) {
          phase.add(g, work_of(a, b, skewed),
                    pairs_load(fabric, std::span(from).subspan(r, 1), std::span(to).subspan(r, 1)));
        }
      }
      const Devices rails = rails_of(a);
      members.insert(members.end(), rails.begin(), rails.end());
      busiest = std::max({busiest, out, in});
    }
    if (level == Level::macro_flow) phase.add(g, busiest, group_load(fabric, members, TrafficPattern::uniform));
  }
  return phase.run(groups.size());
}

struct Apart {
  double least = 0, most = 0;  // over groups: how much later than the other
};

Apart apart(const std::vector<double>& a, const std::vector<double>& b) {
  Apart out{1e9, -1e9};
  for (std::size_t g = 0; g < a.size(); ++g) {
    out.least = std::min(out.least, a[g] / b[g] - 1);
    out.most = std::max(out.most, a[g] / b[g] - 1);
  }
  return out;
}

TEST_CASE("rails that are alike fold: a flow a box pair ends with the flows of its NICs") {
  for (const double over : {1.0, 4.0}) {
    const Fabric fabric = fabric_of(over, Routing::sprayed);
    const auto groups = groups_of(true);
    const Apart error =
        apart(exchange(fabric, groups, true, Level::folded), exchange(fabric, groups, true, Level::per_nic));
    CHECK(std::max(-error.least, error.most) < 1e-6);
  }
}

// Members that have less to move end early and leave their links to others, which one flow a group does not see: up to
// a quarter late for a group whose leaves bind. Never early, and exact where nothing binds or members are alike.
TEST_CASE("the error of macro-flows where uplinks are sprayed: none on wide or even fabrics, else late by 6 to 23 %") {
  for (const double over : {1.0, 2.0, 4.0}) {
    const Fabric fabric = fabric_of(over, Routing::sprayed);
    const auto groups = groups_of(true);
    for (const bool skewed : {false, true}) {
      INFO("over " << over << " skewed " << skewed);
      const Apart error =
          apart(exchange(fabric, groups, skewed, Level::macro_flow), exchange(fabric, groups, skewed, Level::folded));
      CHECK(error.least > -1e-8);
      if (over > 1 && skewed) {
        CHECK(error.least > 0.05);
        CHECK(error.most > 0.15);
        CHECK(error.most < 0.23);
      } else {
        CHECK(error.most < 1e-8);
      }
    }
  }
}

// The mean load of a plane is not that of its fullest one.
TEST_CASE("the error of macro-flows where uplinks are hashed: early by up to 14 %") {
  const Fabric fabric = fabric_of(1, Routing::hashed);
  const auto groups = groups_of(true);
  const Apart error =
      apart(exchange(fabric, groups, false, Level::macro_flow), exchange(fabric, groups, false, Level::per_nic));
  CHECK(error.least < -0.1);
  CHECK(error.least > -0.14);
  CHECK(error.most < 1e-7);
}

enum class Skew { none, by_box, by_device };

// An exchange as a step has it: each device receives its rows from all other boxes alike.
double rows_of(DeviceId d, Skew skew, std::uint64_t seed) {
  if (skew == Skew::none) return 1;
  const auto which = static_cast<std::uint64_t>(skew == Skew::by_box ? d.value / box : d.value);
  return 0.4 + 1.2 * static_cast<double>(RngKey(seed, 0, Purpose::program_test).with(which).bits % 1000) / 999;
}

// A flow for each NIC of each box and its peer on each other box, NICs shared with all that use them.
std::vector<double> by_flows(const Fabric& fabric, const std::vector<std::vector<int>>& groups, Skew skew,
                             std::uint64_t seed) {
  Phase phase(fabric);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const int a : groups[g]) {
      for (const int b : groups[g]) {
        if (a == b) continue;
        const Devices from = rails_of(a), to = rails_of(b);
        for (std::size_t r = 0; r < from.size(); ++r) {
          const double ticks = static_cast<double>(alone) / (group_boxes - 1) * rows_of(to[r], skew, seed);
          phase.add(g, std::llround(ticks),
                    pairs_load(fabric, std::span(from).subspan(r, 1), std::span(to).subspan(r, 1)));
        }
      }
    }
  }
  return phase.run(groups.size());
}

// A group's exchange with all that the engine needs to cut it.
struct Exchange {
  Exchange(const Fabric& fabric, const std::vector<int>& group, Skew skew, std::uint64_t seed) {
    Devices members;
    for (const int b : group) {
      const Devices rails = rails_of(b);
      members.insert(members.end(), rails.begin(), rails.end());
    }
    for (const DeviceId d : members) most = std::max(most, rows_of(d, skew, seed));
    for (const DeviceId d : members) volume.push_back(static_cast<float>(rows_of(d, skew, seed) / most));
    std::map<LinkId, std::int32_t> at;
    for (const LinkLoad& load : group_load(fabric, members, TrafficPattern::uniform)) {
      if (load.nic <= 0) continue;
      at[load.link] = static_cast<std::int32_t>(links.size());
      links.push_back({load.link.value, static_cast<float>(load.nic), 0});
      price = std::max(price, load.nic);
    }
    for (const PartLevel level : {PartLevel::box, PartLevel::nic}) {
      sim::LinkParts& cut = level == PartLevel::box ? boxes : nics;
      const LoadParts parts = group_parts(fabric, members, level);
      for (const auto& place : parts.places) {
        auto& lanes = cut.places.emplace_back();
        for (const DeviceId d : place) {
          lanes.push_back(static_cast<std::int32_t>(std::find(members.begin(), members.end(), d) - members.begin()));
        }
      }
      for (const LoadPart& part : parts.parts) {
        cut.parts.push_back({part.out, part.in, part.even, {}});
        for (const LinkLoad& load : part.links) {
          if (load.nic > 0) cut.parts.back().loads.push_back({at.at(load.link), static_cast<float>(load.nic), 0});
        }
      }
    }
  }

  double most = 0;
  double price = 1;  // of its own fullest link, which its time alone contains
  std::vector<float> volume;
  std::vector<sim::LinkShare> links;
  sim::LinkParts boxes, nics;
};

std::vector<double> by_engine(const Fabric& fabric, const std::vector<std::vector<int>>& groups, Skew skew,
                              std::uint64_t seed, std::optional<sim::FlowLevel> level) {
  const std::vector<double> capacity(static_cast<std::size_t>(fabric.link_count()), 1.0);
  sim::FlowRule rule{level, {}};
  for (int l = 0; l < fabric.link_count(); ++l) {
    const LinkKind kind = fabric.link(LinkId(l)).kind;
    const bool leaf = kind == LinkKind::leaf_up || kind == LinkKind::leaf_down;
    const bool hashed = fabric.cluster().routing == Routing::hashed;
    rule.kinds.push_back(!leaf ? sim::LinkKind::nic : hashed ? sim::LinkKind::hashed_uplink : sim::LinkKind::uplink);
  }
  std::deque<Exchange> exchanges;
  sim::FlowSet set(capacity, &rule);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Exchange& e = exchanges.emplace_back(fabric, groups[g], skew, seed);
    sim::FlowDemand demand;
    demand.links = &e.links;
    demand.nic = 1 / e.price;
    demand.boxes = &e.boxes;
    demand.nics = &e.nics;
    demand.volume = &e.volume;
    set.start(0, std::llround(static_cast<double>(alone) * e.most * e.price), g, static_cast<std::uint32_t>(g), demand);
  }
  std::vector<double> ends(groups.size(), 0);
  for (Ticks now = set.next(); now != sim::FlowSet::never; now = set.next()) {
    for (std::uint32_t id = 0; set.take(now, id);) ends[id] = static_cast<double>(now);
  }
  return ends;
}

// Over some draws of rows: by how much the engine's groups end later than flow by flow.
Apart error_of(double over, Routing routing, Skew skew, std::optional<sim::FlowLevel> level) {
  const Fabric fabric = fabric_of(over, routing);
  const auto groups = groups_of(true);
  Apart sum{1e9, -1e9};
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const Apart one = apart(by_engine(fabric, groups, skew, seed, level), by_flows(fabric, groups, skew, seed));
    sum.least = std::min(sum.least, one.least);
    sum.most = std::max(sum.most, one.most);
  }
  return sum;
}

constexpr std::optional<sim::FlowLevel> chosen = {};

TEST_CASE("where no uplink binds before a NIC, exchanges end alike at every level of the engine") {
  for (const Skew skew : {Skew::none, Skew::by_box, Skew::by_device}) {
    for (const auto level : {chosen, std::optional(sim::FlowLevel::macro), std::optional(sim::FlowLevel::box),
                             std::optional(sim::FlowLevel::nic)}) {
      const Apart error = error_of(1, Routing::sprayed, skew, level);
      CHECK(std::max(-error.least, error.most) < 1e-8);
    }
  }
}

TEST_CASE("exchanges that the engine cuts by NIC are at most 1 % early and 10 % late") {
  for (const Routing routing : {Routing::sprayed, Routing::hashed}) {
    for (const double over : {1.0, 2.0, 4.0}) {
      for (const Skew skew : {Skew::none, Skew::by_box, Skew::by_device}) {
        const Apart error = error_of(over, routing, skew, sim::FlowLevel::nic);
        CHECK(error.least > -0.01);
        CHECK(error.most < 0.1);
      }
    }
  }
}

// Folded rails carry the mean of a box's members, where the fullest rail is what the exchange waits for.
TEST_CASE("cut by box they are as good where the members of a box are alike, else up to 30 % early") {
  for (const double over : {2.0, 4.0}) {
    const Apart alike = error_of(over, Routing::sprayed, Skew::by_box, sim::FlowLevel::box);
    CHECK(alike.least > -0.01);
    CHECK(alike.most < 0.1);
    const Apart mixed = error_of(over, Routing::sprayed, Skew::by_device, sim::FlowLevel::box);
    CHECK(mixed.least > -0.3);
    CHECK(mixed.most < 0);
  }
}

// By box where a box's members are alike, else NIC parts folded by volume.
TEST_CASE("at levels that the engine chooses they are 5 % early to 13 % late, on hashed uplinks to 24 %") {
  for (const Routing routing : {Routing::sprayed, Routing::hashed}) {
    for (const double over : {1.0, 2.0, 4.0}) {
      for (const Skew skew : {Skew::by_box, Skew::by_device}) {
        const Apart error = error_of(over, routing, skew, chosen);
        CHECK(error.least > -0.05);
        CHECK(error.most < (routing == Routing::hashed ? 0.24 : 0.13));
        if (routing == Routing::sprayed && over == 1) continue;
        const Apart macro = error_of(over, routing, skew, sim::FlowLevel::macro);
        CHECK(macro.most > 0.4);
        CHECK(error.most < 0.5 * macro.most);
      }
    }
  }
}

TEST_CASE("leaves oversubscribed four times make what crosses them as slow as the cut says") {
  const Fabric fabric = fabric_of(4, Routing::sprayed);
  Devices from, to;
  for (int b = 0; b < leaf_boxes; ++b) {
    const Devices left = rails_of(b), right = rails_of(b + leaf_boxes);
    from.insert(from.end(), left.begin(), left.end());
    to.insert(to.end(), right.begin(), right.end());
  }
  Phase phase(fabric);
  for (std::size_t i = 0; i < from.size(); ++i) {
    phase.add(0, alone, pairs_load(fabric, std::span(from).subspan(i, 1), std::span(to).subspan(i, 1)));
  }
  const double wanted = static_cast<double>(from.size()) * fabric.cluster().nic_bandwidth.value;
  const double cut = wanted / fabric.cut_capacity(from, to).value;
  CHECK(cut == Approx(4));
  CHECK(phase.run(1)[0] / static_cast<double>(alone) == Approx(cut).epsilon(1e-6));
}

TEST_CASE("groups under as few leaves as they need beat scattered ones, and another job costs its share") {
  const Fabric fabric = fabric_of(4, Routing::sprayed);
  const auto packed = exchange(fabric, groups_of(false), false, Level::per_nic);
  const auto scattered = exchange(fabric, groups_of(true), false, Level::per_nic);
  CHECK(*std::max_element(packed.begin(), packed.end()) < 0.95 * *std::max_element(scattered.begin(), scattered.end()));
  const Devices from = rails_of(0), to = rails_of(leaf_boxes);
  Phase free(fabric), shared(fabric, 0.5);
  for (Phase* phase : {&free, &shared}) {
    for (int b = 0; b < 2; ++b) phase->add(0, alone, pairs_load(fabric, rails_of(b), rails_of(b + leaf_boxes)));
  }
  CHECK(shared.run(1)[0] / free.run(1)[0] == Approx(2).epsilon(1e-6));
}

TEST_CASE("a reduction beside an exchange on the same NICs takes the time of both, on other boxes none") {
  const Fabric fabric = fabric_of(1, Routing::sprayed);
  const auto members = [](int first) {
    Devices devices;
    for (int b = first; b < first + leaf_boxes; ++b) {
      const Devices rails = rails_of(b);
      devices.insert(devices.end(), rails.begin(), rails.end());
    }
    return devices;
  };
  for (const bool same : {true, false}) {
    Phase phase(fabric);
    phase.add(0, alone, group_load(fabric, members(0), TrafficPattern::uniform));
    phase.add(1, alone, group_load(fabric, members(same ? 0 : leaf_boxes), TrafficPattern::ring));
    for (const double end : phase.run(2)) CHECK(end / static_cast<double>(alone) == Approx(same ? 2 : 1));
  }
}

}  // namespace
}  // namespace stepcast::topology
