// One all-to-all phase at the three levels of flows, and how far they are apart; what sharing the fabric costs.
//
// Macro-flow: one flow a group. Folded: one a group, source box and destination box, its rails together. Per NIC: one
// a member and destination box. The engine's steps run macro-flows; the errors asserted here are what that costs.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

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
      set.start(0, flows_[f].work, f, static_cast<std::uint32_t>(f), {&flows_[f].links, 1, 0});
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
