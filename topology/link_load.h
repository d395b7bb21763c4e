// Which links a group's traffic loads, and how much of each, while its ports run at full rate.
//
// What the contention tier of sim needs of the fabric: shares of capacity, not
// rates, so the efficiency that ports reach cancels. Follows routes, hence PXN,
// rails, leaf switches and the spine plane that hashed routing gives a pair of
// devices; NVLink hops of a route that leaves the domain are left out.
#pragma once

#include <span>
#include <vector>

#include "topology/fabric.h"

namespace stepcast::topology {

struct LinkLoad {
  LinkId link;
  double nic = 0;     // share of the link while every sender's NIC sends at full rate
  double nvlink = 0;  // the same for its NVLink port
};

// Ascending links. uniform: each member to all others alike, NIC and NVLink part apart; ring: to the next member of its
// domain, and to a member of the next domain.
[[nodiscard]] std::vector<LinkLoad> group_load(const Fabric& fabric, std::span<const DeviceId> members,
                                               TrafficPattern pattern);

// from[i] sends to to[i], all at once.
[[nodiscard]] std::vector<LinkLoad> pairs_load(const Fabric& fabric, std::span<const DeviceId> from,
                                               std::span<const DeviceId> to);

// The same traffic in parts; their loads of a link add up to its load.
struct LoadPart {
  int out = 0, in = 0;  // places that send and receive it
  double even = 0;      // rates of its senders' NICs, of their full rate; 0: it stays in its domain
  std::vector<LinkLoad> links;
};
struct LoadParts {
  std::vector<std::vector<DeviceId>> places;  // the members behind each NIC, or in each domain
  std::vector<LoadPart> parts;
};
enum class PartLevel : unsigned char { box, nic };

// Of the uniform pattern. box: from domain to domain. nic: from NIC to NIC, where each NIC of a domain sends to one of
// each other domain (PXN), else from NIC to domain. What stays in a domain is one part at both.
[[nodiscard]] LoadParts group_parts(const Fabric& fabric, std::span<const DeviceId> members, PartLevel level);

// From NIC to NIC; what stays in a domain is one part.
[[nodiscard]] LoadParts pairs_parts(const Fabric& fabric, std::span<const DeviceId> from, std::span<const DeviceId> to);

}  // namespace stepcast::topology
