// Shares of links against routes and cuts.
#include <catch2/catch.hpp>

#include "cluster_fixture.h"
#include "topology/link_load.h"

namespace stepcast::topology {
namespace {

std::vector<DeviceId> first(int n) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < n; ++d) devices.emplace_back(d);
  return devices;
}

double largest(const Fabric& fabric, const std::vector<LinkLoad>& loads, LinkKind kind) {
  double most = 0;
  for (const LinkLoad& l : loads) {
    if (fabric.link(l.link).kind == kind) most = std::max(most, l.nic + l.nvlink);
  }
  return most;
}

TEST_CASE("an exchange over boxes fills its NICs and, on leaves of their own, what the cut says of the uplinks") {
  ClusterOverrides narrow;
  narrow.leaf_radix = 1;
  narrow.oversubscription = 4;
  const Fabric fabric(cluster_of("h100:16", narrow));
  const auto members = first(16);
  const auto loads = group_load(fabric, members, TrafficPattern::uniform);
  CHECK(largest(fabric, loads, LinkKind::nic_up) == Approx(1));
  CHECK(largest(fabric, loads, LinkKind::nic_down) == Approx(1));
  CHECK(largest(fabric, loads, LinkKind::leaf_up) == Approx(4));
  // All NICs of one box at full rate against the cut between the boxes.
  const std::span<const DeviceId> all(members);
  const double wanted = 8 * fabric.cluster().nic_bandwidth.value;
  CHECK(wanted / fabric.cut_capacity(all.first(8), all.last(8)).value == Approx(4));
}

TEST_CASE("a ring inside one domain loads NVLink alone, pairs on a rail their NICs alone") {
  const Fabric fabric(cluster_of("h100:16"));
  const auto ring = group_load(fabric, first(8), TrafficPattern::ring);
  CHECK(largest(fabric, ring, LinkKind::nvlink_up) == Approx(1));
  CHECK(largest(fabric, ring, LinkKind::nic_up) == 0);
  const std::vector<DeviceId> from = {DeviceId(0), DeviceId(1)}, to = {DeviceId(8), DeviceId(9)};
  const auto pairs = pairs_load(fabric, from, to);
  CHECK(pairs.size() == 4);
  CHECK(largest(fabric, pairs, LinkKind::nic_up) == Approx(1));
  CHECK(largest(fabric, pairs, LinkKind::leaf_up) == 0);
}

}  // namespace
}  // namespace stepcast::topology
