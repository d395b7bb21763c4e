#include "topology/fabric.h"

#include <algorithm>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "cluster_fixture.h"
#include "fabric_variants.h"
#include "sim/base/rng.h"
#include "topology/fabric_graph.h"

namespace stepcast::topology {

namespace {

std::vector<LinkKind> kinds(const Fabric& fabric, int a, int b) {
  std::vector<LinkKind> kinds;
  for (const LinkId id : fabric.route(DeviceId(a), DeviceId(b))) kinds.push_back(fabric.link(id).kind);
  return kinds;
}

std::vector<DeviceId> devices(std::initializer_list<int> ids) {
  std::vector<DeviceId> list;
  for (const int id : ids) list.emplace_back(id);
  return list;
}

using enum LinkKind;
using Kinds = std::vector<LinkKind>;

}  // namespace

TEST_CASE("routes computed from ids equal routes searched in the graph") {
  for (const Variant& variant : fabric_variants()) {
    INFO(variant.what);
    const Fabric fabric(variant.cluster);
    const FabricGraph graph(fabric);
    for (int trial = 0; trial < 300; ++trial) {
      const RngKey key = RngKey(1, 0, Purpose::program_test).with(static_cast<std::uint64_t>(trial));
      const auto pick = [&](std::uint64_t which) {
        return DeviceId(static_cast<int>(uniform(key.with(which)) * fabric.device_count()));
      };
      const DeviceId a = pick(1);
      const DeviceId b = pick(2);
      INFO(a.value << " -> " << b.value);
      const auto route = fabric.route(a, b);
      REQUIRE(graph.connects(route, a, b));
      REQUIRE(graph.cost(route) == graph.cost(graph.route(a, b)));
      REQUIRE(route.empty() == (a == b));
    }
  }
}

TEST_CASE("routes there and back have the same kinds of links in reverse where every node is whole") {
  const auto mirrored = [](LinkKind kind) {
    switch (kind) {
      case nvlink_up:
        return nvlink_down;
      case nvlink_down:
        return nvlink_up;
      case nic_up:
        return nic_down;
      case nic_down:
        return nic_up;
      case leaf_up:
        return leaf_down;
      case leaf_down:
        return leaf_up;
      case nvlink_direct:
        return nvlink_direct;
    }
    return kind;
  };
  for (const Variant& variant : fabric_variants()) {
    INFO(variant.what);
    const Fabric fabric(variant.cluster);
    for (int a = 0; a < fabric.device_count(); ++a) {
      for (int b = 0; b < fabric.device_count(); ++b) {
        Kinds there = kinds(fabric, a, b);
        Kinds back = kinds(fabric, b, a);
        std::ranges::transform(back, back.begin(), mirrored);
        // With PXN the NVLink hop comes first in both directions: compare as sets.
        std::ranges::sort(there);
        std::ranges::sort(back);
        REQUIRE(there == back);
        REQUIRE(fabric.route_latency(DeviceId(a), DeviceId(b)).value ==
                Approx(fabric.route_latency(DeviceId(b), DeviceId(a)).value));
      }
    }
  }
}

TEST_CASE("links are numbered without gaps and each has one owner") {
  for (const Variant& variant : fabric_variants()) {
    INFO(variant.what);
    const Fabric fabric(variant.cluster);
    std::set<std::tuple<LinkKind, int, int>> seen;
    for (int i = 0; i < fabric.link_count(); ++i) {
      const Link link = fabric.link(LinkId(i));
      REQUIRE(link.capacity.value > 0);
      REQUIRE(link.owner >= 0);
      REQUIRE(seen.emplace(link.kind, link.owner, link.peer).second);
    }
  }
}

TEST_CASE("rail-aligned traffic stays on its leaf, cross-rail traffic takes PXN or the spine") {
  ClusterOverrides o;
  o.leaf_radix = 4;
  const Fabric fabric(cluster_of("h100:64", o));
  CHECK(kinds(fabric, 0, 5) == Kinds{nvlink_up, nvlink_down});
  CHECK(kinds(fabric, 3, 11) == Kinds{nic_up, nic_down});
  CHECK(kinds(fabric, 3, 8) == Kinds{nvlink_up, nvlink_down, nic_up, nic_down});
  CHECK(kinds(fabric, 3, 35) == Kinds{nic_up, leaf_up, leaf_down, nic_down});
  CHECK(kinds(fabric, 3, 32) == Kinds{nvlink_up, nvlink_down, nic_up, leaf_up, leaf_down, nic_down});
  // The relay is the sender's own device on the peer's rail.
  const auto route = fabric.route(DeviceId(3), DeviceId(8));
  CHECK(fabric.link(route[1]).owner == 0);
  CHECK(fabric.link(route[2]).owner == 0);

  o.pxn = false;
  const Fabric plain(cluster_of("h100:64", o));
  CHECK(kinds(plain, 3, 8) == Kinds{nic_up, leaf_up, leaf_down, nic_down});
  o.rail_optimised = false;
  const Fabric flat(cluster_of("h100:64", o));
  CHECK(kinds(flat, 3, 8) == Kinds{nic_up, nic_down});
}

TEST_CASE("latencies add up along a route") {
  const Fabric fabric(cluster_of("h100:512"));
  const Cluster& c = fabric.cluster();
  CHECK(fabric.route_latency(DeviceId(0), DeviceId(1)).value == Approx(c.nvlink_latency.value));
  CHECK(fabric.route_latency(DeviceId(0), DeviceId(8)).value == Approx(c.nic_latency.value));
  CHECK(fabric.route_latency(DeviceId(0), DeviceId(256)).value ==
        Approx(c.nic_latency.value + 2 * c.switch_latency.value));
  CHECK(fabric.route_latency(DeviceId(7), DeviceId(7)).value == 0);
}

TEST_CASE("a mesh joins each pair of a domain by its own link") {
  const Fabric fabric(cluster_of("mi300x:16"));
  std::set<int> used;
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      if (a == b) continue;
      const auto route = fabric.route(DeviceId(a), DeviceId(b));
      REQUIRE(route.size() == 1);
      const Link link = fabric.link(route[0]);
      CHECK(link.kind == nvlink_direct);
      CHECK(link.owner == a);
      CHECK(link.peer == b);
      CHECK(link.capacity.value == Approx(64e9));
      CHECK(used.insert(route[0].value).second);
    }
  }
  // Four devices of eight: the links do not grow.
  const Fabric part(cluster_of("mi300x:4"));
  CHECK(part.link(part.route(DeviceId(0), DeviceId(3))[0]).capacity.value == Approx(64e9));
}

TEST_CASE("a shared NIC has the rate of its devices together") {
  ClusterOverrides o;
  o.rails = 1;
  o.nic_gb_per_s = 1.5625;
  const Fabric fabric(cluster_of("v100:16", o));
  const auto route = fabric.route(DeviceId(5), DeviceId(13));
  REQUIRE(route.size() == 2);
  CHECK(fabric.link(route[0]).capacity.value == Approx(12.5e9));
  CHECK(fabric.link(route[0]).owner == 0);
  CHECK(fabric.link(route[1]).owner == 8);
}

TEST_CASE("routes between disjoint pairs of one rail share no link under one leaf") {
  const Fabric fabric(cluster_of("h100:256"));
  std::set<int> used;
  for (int rail = 0; rail < 8; ++rail) {
    for (const LinkId id : fabric.route(DeviceId(rail), DeviceId(8 + rail))) REQUIRE(used.insert(id.value).second);
  }
}

TEST_CASE("hashed flows spread over the planes and are stable") {
  ClusterOverrides o;
  o.routing = Routing::hashed;
  const Fabric fabric(cluster_of("h100:512", o));
  std::set<int> planes;
  for (int peer = 256; peer < 512; peer += 8) {
    const auto route = fabric.route(DeviceId(0), DeviceId(peer));
    REQUIRE(route == fabric.route(DeviceId(0), DeviceId(peer)));
    REQUIRE(route.size() == 4);
    const Link up = fabric.link(route[1]);
    CHECK(up.peer == fabric.link(route[2]).peer);
    CHECK(up.capacity.value == Approx(50e9));
    planes.insert(up.peer);
  }
  CHECK(planes.size() > 12);  // of 32 flows over 32 planes, 1 - 1/e are expected to differ
  CHECK(planes.size() < 32);
}

TEST_CASE("spans") {
  ClusterOverrides o;
  o.leaf_radix = 4;
  const Fabric h100(cluster_of("h100:64", o));
  CHECK(h100.span(devices({0})) == GroupSpan{1, 1, 1, 1, 1, 1});
  CHECK(h100.span(devices({0, 1, 7})) == GroupSpan{3, 1, 1, 3, 3, 1});
  CHECK(h100.span(devices({40, 0, 8, 1})) == GroupSpan{4, 3, 3, 2, 1, 2});
  std::vector<DeviceId> all;
  for (int d = 63; d >= 0; --d) all.emplace_back(d);
  CHECK(h100.span(all) == GroupSpan{64, 8, 8, 8, 8, 2});

  const Fabric gb200(cluster_of("gb200:256"));
  CHECK(gb200.span(devices({0, 63})) == GroupSpan{2, 1, 2, 2, 2, 1});
  CHECK(gb200.span(devices({0, 64})).domains == 2);
  const Fabric halves([] {
    ClusterOverrides half;
    half.nvlink_domain = 4;
    return cluster_of("h100:16", half);
  }());
  CHECK(halves.span(devices({0, 4})) == GroupSpan{2, 2, 1, 1, 1, 1});
}

TEST_CASE("placements are permutations; packed is the identity") {
  for (const Variant& variant : fabric_variants()) {
    INFO(variant.what);
    Cluster cluster = variant.cluster;
    for (const Placement placement : {Placement::packed, Placement::scattered}) {
      cluster.placement = placement;
      const Fabric fabric(cluster);
      const auto placed = place_ranks(fabric, fabric.device_count());
      std::set<DeviceId> distinct(placed.begin(), placed.end());
      REQUIRE(distinct.size() == static_cast<std::size_t>(fabric.device_count()));
      if (placement == Placement::packed) CHECK(std::ranges::is_sorted(placed));
      // Boxes stay whole: neighbouring ranks of a node share it.
      for (std::size_t r = 0; r + 1 < placed.size(); ++r) {
        if (static_cast<int>(r) / cluster.devices_per_node == static_cast<int>(r + 1) / cluster.devices_per_node) {
          REQUIRE(fabric.node_of(placed[r]) == fabric.node_of(placed[r + 1]));
        }
      }
    }
  }
}

TEST_CASE("scattered neighbours lie under different leaves") {
  ClusterOverrides o;
  o.leaf_radix = 4;
  o.placement = Placement::scattered;
  const Fabric fabric(cluster_of("h100:64", o));
  const auto placed = place_ranks(fabric, 64);
  for (std::size_t r = 0; r + 8 < placed.size(); r += 8)
    CHECK(fabric.leaf_of(placed[r]) != fabric.leaf_of(placed[r + 8]));
  CHECK(place_ranks(fabric, 8).size() == 8);
}

TEST_CASE("a million devices cost nothing to describe") {
  const Fabric fabric(cluster_of("h800:1048576"));
  CHECK(fabric.link_count() == 4 * 1048576 + 2 * fabric.leaf_switch_count());
  CHECK(fabric.leaf_count() == 4096);
  CHECK(kinds(fabric, 0, 1048568) == Kinds{nic_up, leaf_up, leaf_down, nic_down});
  std::vector<DeviceId> all;
  for (int d = 0; d < 1048576; ++d) all.emplace_back(d);
  const GroupSpan span = fabric.span(all);
  CHECK(span.domains == 131072);
  CHECK(span.leaves == 4096);
}

}  // namespace stepcast::topology
