// Small fabrics of every kind that a cluster can describe.
#pragma once

#include <string>
#include <vector>

#include "cluster_fixture.h"

namespace stepcast::topology {

struct Variant {
  std::string what;
  Cluster cluster;
};

inline std::vector<Variant> fabric_variants() {
  std::vector<Variant> variants;
  const auto add = [&](std::string what, const std::string& preset, const auto& change) {
    ClusterOverrides o;
    o.leaf_radix = 4;
    o.oversubscription = 2;
    change(o);
    variants.push_back({std::move(what), cluster_of(preset, o)});
  };
  add("rail-optimised", "h100:64", [](ClusterOverrides&) {});
  add("last leaf group half full", "h100:80", [](ClusterOverrides& o) { o.leaf_radix = 3; });
  add("one leaf group", "h100:32", [](ClusterOverrides&) {});
  add("one node", "h100:8", [](ClusterOverrides&) {});
  add("part of a node", "h100:5", [](ClusterOverrides&) {});
  add("no PXN", "h100:64", [](ClusterOverrides& o) { o.pxn = false; });
  add("no rails", "h100:64", [](ClusterOverrides& o) { o.rail_optimised = false; });
  add("hashed uplinks", "h100:96", [](ClusterOverrides& o) { o.routing = Routing::hashed; });
  add("hashed, last group smaller", "h100:80", [](ClusterOverrides& o) {
    o.routing = Routing::hashed;
    o.leaf_radix = 4;
    o.oversubscription = 1;
  });
  add("two devices a NIC", "h100:64", [](ClusterOverrides& o) { o.rails = 4; });
  add("one NIC a node", "h100:64", [](ClusterOverrides& o) { o.rails = 1; });
  add("domains of half a node", "h100:64", [](ClusterOverrides& o) { o.nvlink_domain = 4; });
  add("no NVLink", "h100:32", [](ClusterOverrides& o) { o.nvlink_domain = 1; });
  add("mesh", "mi300x:64", [](ClusterOverrides&) {});
  add("mesh, part of a node", "mi300x:3", [](ClusterOverrides&) {});
  add("domains of several nodes", "gb200:64", [](ClusterOverrides& o) { o.nvlink_domain = 16; });
  add("domains that straddle leaf groups", "gb200:96", [](ClusterOverrides& o) {
    o.nvlink_domain = 24;
    o.leaf_radix = 4;
  });
  return variants;
}

}  // namespace stepcast::topology
