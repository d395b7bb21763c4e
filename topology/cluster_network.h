// The box and network numbers of a cluster by their catalogue keys: reading,
// defaults, and the checks that they agree. Internal to topology's cluster files.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "topology/catalog_reader.h"
#include "topology/cluster.h"

namespace stepcast::topology {

[[nodiscard]] std::span<const ConstantKey> network_keys();

// A rail-optimised fabric as training clusters usually have it; each number an assumption with its source.
[[nodiscard]] std::map<std::string, Constant> generic_network();

// Writes the keys that cluster.provenance lacks (a cluster built by hand) from the fields.
void complete(Cluster& cluster);

// Sets the cluster's fields from cluster.provenance, which holds every network key.
void take_network(Cluster& cluster);

// Devices against boxes and domains, rails against boxes; chooses nvlink_domain; rewrites cluster.assumptions.
[[nodiscard]] Errors settle(Cluster& cluster);

}  // namespace stepcast::topology
