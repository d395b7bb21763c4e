#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "cluster_fixture.h"
#include "fabric_variants.h"
#include "sim/base/rng.h"
#include "topology/fabric.h"
#include "topology/fabric_graph.h"

namespace stepcast::topology {

namespace {

struct Sets {
  std::vector<DeviceId> from, to;
};

Sets range_sets(int first, int middle, int end) {
  Sets sets;
  for (int d = first; d < middle; ++d) sets.from.emplace_back(d);
  for (int d = middle; d < end; ++d) sets.to.emplace_back(d);
  return sets;
}

// Each device sends, receives or stays out with the given chances.
Sets random_sets(int devices, std::uint64_t trial, double sends, double receives) {
  Sets sets;
  const RngKey key = RngKey(7, trial, Purpose::program_test);
  for (int d = 0; d < devices; ++d) {
    const double u = uniform(key.with(static_cast<std::uint64_t>(d)));
    if (u < sends) sets.from.emplace_back(d);
    if (u > 1 - receives) sets.to.emplace_back(d);
  }
  return sets;
}

bool one_domain(const Fabric& fabric, const Sets& sets) {
  std::vector<DeviceId> all = sets.from;
  all.insert(all.end(), sets.to.begin(), sets.to.end());
  return all.empty() || fabric.span(all).domains == 1;
}

}  // namespace

TEST_CASE("the merged maximum flow equals the flow over the whole graph") {
  for (const Variant& variant : fabric_variants()) {
    INFO(variant.what);
    const Fabric fabric(variant.cluster);
    const FabricGraph graph(fabric);
    for (std::uint64_t trial = 0; trial < 12; ++trial) {
      const double density = trial % 3 == 0 ? 0.05 : trial % 3 == 1 ? 0.3 : 0.5;
      const Sets sets = random_sets(fabric.device_count(), trial, density, 1 - density);
      if (sets.from.empty() || sets.to.empty() || one_domain(fabric, sets)) continue;
      INFO("trial " << trial);
      CHECK(fabric.cut_capacity(sets.from, sets.to).value ==
            Approx(graph.cut_capacity(sets.from, sets.to).value).epsilon(1e-9));
    }
  }
}

TEST_CASE("regular sets merge exactly too") {
  for (const Variant& variant : fabric_variants()) {
    INFO(variant.what);
    const Fabric fabric(variant.cluster);
    const FabricGraph graph(fabric);
    const int n = fabric.device_count();
    for (const int stride : {2, 3, 8}) {
      Sets sets;
      for (int d = 0; d < n; ++d) (d % stride == 0 ? sets.from : sets.to).emplace_back(d);
      if (one_domain(fabric, sets)) continue;
      INFO("stride " << stride);
      CHECK(fabric.cut_capacity(sets.from, sets.to).value ==
            Approx(graph.cut_capacity(sets.from, sets.to).value).epsilon(1e-9));
    }
  }
}

TEST_CASE("the cut of the halves is the sum of one half's uplinks") {
  for (const double oversubscription : {1.0, 2.0, 4.0}) {
    ClusterOverrides o;
    o.leaf_radix = 4;
    o.oversubscription = oversubscription;
    const Fabric fabric(cluster_of("h100:128", o));
    double uplinks = 0;
    for (int i = 0; i < fabric.link_count(); ++i) {
      const Link link = fabric.link(LinkId(i));
      if (link.kind == LinkKind::leaf_up && link.owner < fabric.leaf_switch_count() / 2) uplinks += link.capacity.value;
    }
    CHECK(fabric.bisection().value == Approx(uplinks));
    CHECK(uplinks == Approx(64 * 50e9 / oversubscription));
  }
}

TEST_CASE("the cut of whole boxes has a closed form") {
  // Senders U_l and receivers D_l below leaf l with uplinks C_l: the cheaper side of every leaf, for each side of the
  // spine: min(sum min(D, U + C), sum min(U, D + C)).
  ClusterOverrides o;
  o.leaf_radix = 4;
  o.oversubscription = 3;
  const Fabric fabric(cluster_of("h100:256", o));
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    Sets sets;
    std::vector<double> up(8, 0);
    std::vector<double> down(8, 0);
    for (int node = 0; node < 32; ++node) {
      const double u = uniform(RngKey(3, trial, Purpose::program_test).with(static_cast<std::uint64_t>(node)));
      auto& list = u < 0.4 ? sets.from : sets.to;
      if (u > 0.4 && u < 0.6) continue;
      for (int d = 0; d < 8; ++d) list.emplace_back(node * 8 + d);
      (u < 0.4 ? up : down)[static_cast<std::size_t>(node / 4)] += 8 * 50e9;
    }
    const double uplink = 4 * 8 * 50e9 / 3;
    double spine_sends = 0;
    double spine_receives = 0;
    for (std::size_t l = 0; l < 8; ++l) {
      spine_sends += std::min(down[l], up[l] + uplink);
      spine_receives += std::min(up[l], down[l] + uplink);
    }
    CHECK(fabric.cut_capacity(sets.from, sets.to).value == Approx(std::min(spine_sends, spine_receives)));
  }
}

TEST_CASE("capacity never rises with oversubscription and never falls with a link's rate") {
  const Sets sets = random_sets(128, 5, 0.3, 0.4);
  double before = 1e300;
  for (const double oversubscription : {0.5, 1.0, 1.5, 2.0, 8.0, 100.0}) {
    ClusterOverrides o;
    o.leaf_radix = 4;
    o.oversubscription = oversubscription;
    const double now = Fabric(cluster_of("h100:128", o)).cut_capacity(sets.from, sets.to).value;
    CHECK(now <= before * (1 + 1e-9));
    CHECK(now > 0);
    before = now;
  }
  before = 0;
  for (const double rate : {10.0, 25.0, 50.0, 100.0}) {
    ClusterOverrides o;
    o.leaf_radix = 4;
    o.nic_gb_per_s = rate;
    const double now = Fabric(cluster_of("h100:128", o)).cut_capacity(sets.from, sets.to).value;
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("cuts inside a domain are NVLink without relay") {
  const Fabric h100(cluster_of("h100:64"));
  const Sets halves = range_sets(0, 4, 8);
  CHECK(h100.cut_capacity(halves.from, halves.to).value == Approx(4 * 450e9));
  const Fabric mi300x(cluster_of("mi300x:64"));
  CHECK(mi300x.cut_capacity(halves.from, halves.to).value == Approx(16 * 64e9));
  const Sets pair = range_sets(0, 1, 2);
  CHECK(mi300x.cut_capacity(pair.from, pair.to).value == Approx(64e9));
  CHECK(Fabric(cluster_of("gb200:64")).bisection().value == Approx(32 * 900e9));
  CHECK(h100.cut_capacity({}, halves.to).value == 0);
}

TEST_CASE("a lone sender may use its neighbours' NICs, up to NVLink") {
  const Fabric fabric(cluster_of("h100:64"));
  Sets sets = range_sets(8, 8, 64);
  sets.from.emplace_back(0);
  // Its own NIC of 50 and seven neighbours' over NVLink of 450.
  CHECK(fabric.cut_capacity(sets.from, sets.to).value == Approx(400e9));
}

TEST_CASE("cuts of a million devices") {
  ClusterOverrides o;
  o.oversubscription = 2;
  const Fabric fabric(cluster_of("h800:1048576", o));
  CHECK(fabric.bisection().value == Approx(524288 * 50e9 / 2));
  Sets sets;
  for (int d = 0; d < 1048576; ++d) (d % 8 < 3 ? sets.from : sets.to).emplace_back(d);
  CHECK(fabric.cut_capacity(sets.from, sets.to).value > 0);
}

}  // namespace stepcast::topology
