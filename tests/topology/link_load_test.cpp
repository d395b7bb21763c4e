// Shares of links against routes and cuts.
#include <catch2/catch.hpp>

#include <map>

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

TEST_CASE("the parts of a group's traffic add up to its load of every link, and to what its members send") {
  for (const Routing routing : {Routing::sprayed, Routing::hashed}) {
    for (const bool rails : {true, false}) {
      ClusterOverrides overrides;
      overrides.leaf_radix = 1;
      overrides.routing = routing;
      overrides.rail_optimised = rails;
      const Fabric fabric(cluster_of("h100:24", overrides));
      std::vector<DeviceId> members = first(20);  // the last box is half full
      const auto whole = group_load(fabric, members, TrafficPattern::uniform);
      for (const PartLevel level : {PartLevel::box, PartLevel::nic}) {
        const LoadParts cut = group_parts(fabric, members, level);
        std::map<LinkId, LinkLoad> sum;
        double even = 0;
        for (const LoadPart& part : cut.parts) {
          even += part.even;
          CHECK(part.out < static_cast<int>(cut.places.size()));
          CHECK(part.in < static_cast<int>(cut.places.size()));
          for (const LinkLoad& load : part.links) {
            sum[load.link].nic += load.nic;
            sum[load.link].nvlink += load.nvlink;
          }
        }
        CHECK(even == Approx(20));
        CHECK(sum.size() == whole.size());
        for (const LinkLoad& load : whole) {
          CHECK(sum[load.link].nic == Approx(load.nic));
          CHECK(sum[load.link].nvlink == Approx(load.nvlink));
        }
        if (level == PartLevel::box) CHECK(cut.parts.size() == 9);
        if (level == PartLevel::nic && rails) CHECK(cut.parts.size() == 2 * 8 + 2 * 4 + 2 * 8 + 3);
        for (const auto& place : cut.places) CHECK_FALSE(place.empty());
      }
    }
  }
}

TEST_CASE("pairs of devices are parts by NIC") {
  const Fabric fabric(cluster_of("h100:16"));
  const std::vector<DeviceId> from = {DeviceId(0), DeviceId(1), DeviceId(2)},
                              to = {DeviceId(8), DeviceId(9), DeviceId(3)};
  const LoadParts cut = pairs_parts(fabric, from, to);
  REQUIRE(cut.parts.size() == 3);
  CHECK(cut.parts[0].even == 1);
  CHECK(cut.parts[0].links.size() == 2);
  CHECK(cut.parts[2].even == 0);  // NVLink
}

}  // namespace
}  // namespace stepcast::topology
