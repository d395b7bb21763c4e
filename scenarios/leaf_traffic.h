// Which traffic of a step takes the uplinks of leaf switches.
//
// A group's traffic stays under a leaf switch where its members share a leaf group and reach each other's rail: by PXN,
// or because one switch holds all NICs of the group. What it carries over the spine depends on the routes alone, so
// this knows no bytes and no times.
#pragma once

#include <map>
#include <string>

#include "parallelism/lower.h"
#include "topology/cluster.h"

namespace stepcast::scenarios {

struct LeafTraffic {
  int leaf_groups = 1;   // that one group's members touch, at most
  bool crosses = false;  // some of its routes take an uplink
};

// By group as the account of communication names it: "tp", "ep", "dp", "pp" (neighbouring stages), ...
[[nodiscard]] std::map<std::string, LeafTraffic> leaf_traffic(const parallelism::LoweredStep& lowered,
                                                              const topology::Cluster& cluster);

}  // namespace stepcast::scenarios
