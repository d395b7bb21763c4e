#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "cluster_fixture.h"
#include "fabric_variants.h"
#include "topology/fabric.h"

namespace stepcast::topology {

namespace {

std::vector<DeviceId> strided(int first, int end, int stride) {
  std::vector<DeviceId> list;
  for (int d = first; d < end; d += stride) list.emplace_back(d);
  return list;
}

using enum TrafficPattern;

}  // namespace

TEST_CASE("without oversubscription a member gets its NIC") {
  const Fabric fabric(cluster_of("h100:1024"));
  CHECK(fabric.cross_domain_rate(strided(0, 1024, 1)).value == Approx(50e9));
  CHECK(fabric.cross_domain_rate(strided(0, 1024, 8)).value == Approx(50e9));
  CHECK(fabric.cross_domain_rate(strided(0, 1024, 64), ring, true).value == Approx(50e9));
}

TEST_CASE("uplinks are shared by what crosses them") {
  ClusterOverrides o;
  o.oversubscription = 4;
  const Fabric fabric(cluster_of("h100:1024", o));
  // Four leaf groups of 32 nodes: of what leaves a node, (1024 - 256) / (1024 - 8) leaves the leaf too.
  const double crossing = 768.0 / 1016.0;
  CHECK(fabric.cross_domain_rate(strided(0, 1024, 1)).value == Approx(12.5e9 / crossing));
  // One leaf group: nothing crosses.
  CHECK(fabric.cross_domain_rate(strided(0, 256, 1)).value == Approx(50e9));
  // A packed ring crosses once a leaf switch: 1 of 32 flows, uplinks of 8.
  CHECK(fabric.cross_domain_rate(strided(0, 1024, 1), ring, false).value == Approx(50e9));
  // Groups of one member a leaf: alone each has the uplink for itself, with everyone a quarter of its NIC.
  CHECK(fabric.cross_domain_rate(strided(0, 1024, 256), ring, false).value == Approx(50e9));
  CHECK(fabric.cross_domain_rate(strided(0, 1024, 256), ring, true).value == Approx(12.5e9));
  CHECK(fabric.cross_domain_rate(strided(0, 1024, 256), TrafficPattern::uniform, true).value == Approx(12.5e9));
}

TEST_CASE("a scattered ring crosses with every flow") {
  ClusterOverrides o;
  o.oversubscription = 4;
  o.placement = Placement::scattered;
  const Fabric fabric(cluster_of("h100:1024", o));
  const auto placed = place_ranks(fabric, 1024);
  // 16 neighbouring ranks on two boxes under two leaves.
  std::vector<DeviceId> pair(placed.begin(), placed.begin() + 16);
  CHECK(fabric.span(pair).leaves == 2);
  CHECK(fabric.cross_domain_rate(pair, ring, true).value == Approx(12.5e9));
}

TEST_CASE("members that share a NIC divide it, and a lone receiver is the bottleneck") {
  ClusterOverrides o;
  o.rails = 1;
  o.nic_gb_per_s = 6.25;
  const Fabric shared(cluster_of("h100:64", o));
  CHECK(shared.cross_domain_rate(strided(0, 64, 1)).value == Approx(6.25e9));
  CHECK(shared.cross_domain_rate(strided(0, 64, 8)).value == Approx(50e9));
  CHECK(shared.cross_domain_rate(strided(0, 64, 8), TrafficPattern::uniform, true).value == Approx(6.25e9));
  const Fabric fabric(cluster_of("h100:64"));
  CHECK(fabric.cross_domain_rate(strided(0, 9, 1)).value == Approx(50e9 / 8));
}

TEST_CASE("rates never rise with oversubscription or with company, and stay at or below the NIC") {
  for (const Variant& variant : fabric_variants()) {
    INFO(variant.what);
    for (const TrafficPattern pattern : {TrafficPattern::uniform, ring}) {
      double before = 1e300;
      for (const double oversubscription : {1.0, 2.0, 8.0}) {
        ClusterOverrides o;
        o.oversubscription = oversubscription;
        auto cluster = apply_overrides(variant.cluster, o);
        REQUIRE(cluster);
        const Fabric fabric(*cluster);
        const auto members = strided(0, fabric.device_count(), 2);
        const double alone = fabric.cross_domain_rate(members, pattern, false).value;
        const double crowded = fabric.cross_domain_rate(members, pattern, true).value;
        CHECK(alone > 0);
        CHECK(crowded <= alone * (1 + 1e-12));
        CHECK(alone <=
              fabric.cluster().nic_bandwidth.value * fabric.cluster().devices_per_node / fabric.cluster().rails);
        if (cluster->routing == Routing::sprayed) CHECK(alone <= before * (1 + 1e-12));
        before = alone;
      }
    }
  }
}

TEST_CASE("hashed uplinks are never better than sprayed ones") {
  ClusterOverrides o;
  o.leaf_radix = 4;
  o.placement = Placement::scattered;
  const Fabric sprayed(cluster_of("h100:256", o));
  o.routing = Routing::hashed;
  const Fabric hashed(cluster_of("h100:256", o));
  const auto placed = place_ranks(hashed, 256);
  CHECK(hashed.cross_domain_rate(placed, ring, false).value <= sprayed.cross_domain_rate(placed, ring, false).value);
  const auto half = std::vector<DeviceId>(placed.begin(), placed.begin() + 128);
  CHECK(hashed.cross_domain_rate(half, ring, false).value <= 50e9);
}

TEST_CASE("the order of members does not matter") {
  const Fabric fabric(cluster_of("gb200:256"));
  auto members = strided(3, 256, 5);
  const double rate = fabric.cross_domain_rate(members).value;
  const GroupSpan span = fabric.span(members);
  std::ranges::reverse(members);
  CHECK(fabric.cross_domain_rate(members).value == Approx(rate));
  CHECK(fabric.span(members) == span);
}

}  // namespace stepcast::topology
