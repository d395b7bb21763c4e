// The fabric as a graph: devices, NVLink switches, NICs, leaf and spine switches.
//
// Rail-optimised Clos by default: NIC r of every node under a leaf group hangs
// on the leaf switch of rail r; leaves connect to a pooled spine by uplinks that
// carry downlinks / oversubscription. The graph is regular, so routes and links
// are computed from ids and nothing is stored a device (1,048,576 devices cost
// no memory); fabric_graph.h builds the same graph explicitly, and the tests
// compare the two. Cuts are maximum flows (Boost.Graph).
//
// Capacities are nominal line rates per direction: Cluster::nic_efficiency is
// applied by the cost model and not here. Immutable, so free to share between threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "topology/cluster.h"

namespace stepcast::topology {

using LinkId = Id<struct LinkTag>;

struct FabricLayout;  // fabric_layout.h

enum class LinkKind : unsigned char { nvlink_up, nvlink_down, nvlink_direct, nic_up, nic_down, leaf_up, leaf_down };

[[nodiscard]] std::string_view name(LinkKind kind);

// One direction of a link (or a bundle of equal links) with its capacity.
struct Link {
  LinkKind kind = LinkKind::nvlink_up;
  BytesPerSecond capacity;
  Seconds latency;
  int owner = -1;  // device for nvlink and nic (the first one, where devices share a NIC), leaf switch for leaf links
  int peer = -1;   // the other device of a direct link, the spine plane of a leaf link
};

// How the members of a group lie on the fabric.
struct GroupSpan {
  int ranks = 1;
  int domains = 1;         // NVLink domains touched
  int nodes = 1;           // hosts touched
  int max_per_domain = 1;  // most members in one domain
  int min_per_domain = 1;
  int leaves = 1;  // leaf groups touched
  [[nodiscard]] bool inside_domain() const { return domains == 1; }
  friend bool operator==(const GroupSpan&, const GroupSpan&) = default;
};

// Who sends to whom when a rate is asked for.
enum class TrafficPattern : unsigned char {
  uniform,  // each member to all members outside its domain alike: all-to-all
  ring,     // member j of a domain to member j of the next domain in device order: ring collectives
};

class Fabric {
 public:
  // The cluster must be one that load_cluster, make_cluster or apply_overrides returned.
  explicit Fabric(const Cluster& cluster);
  ~Fabric();
  Fabric(Fabric&&) noexcept;
  Fabric& operator=(Fabric&&) noexcept;

  [[nodiscard]] const Cluster& cluster() const;
  [[nodiscard]] const FabricLayout& layout() const;  // the arithmetic behind the ids, for topology's own files
  [[nodiscard]] int device_count() const;
  [[nodiscard]] int domain_of(DeviceId device) const;
  [[nodiscard]] int node_of(DeviceId device) const;
  [[nodiscard]] int leaf_of(DeviceId device) const;         // leaf group: the nodes that share leaf switches
  [[nodiscard]] int leaf_switch_of(DeviceId device) const;  // one a group and rail; one a group without rails
  [[nodiscard]] int rail_of(DeviceId device) const;

  [[nodiscard]] int leaf_count() const;  // leaf groups
  [[nodiscard]] int leaf_switch_count() const;
  [[nodiscard]] int link_count() const;
  [[nodiscard]] Link link(LinkId id) const;

  // Directed links from a to b, in order; NVLink inside a domain, else through the NICs (with PXN: NVLink to the
  // local device on the peer's rail first; without it, or where no such device exists, over the spine). Empty when
  // a == b.
  [[nodiscard]] std::vector<LinkId> route(DeviceId a, DeviceId b) const;

  // Sum over the route; a domain's hop and a leaf's hop are Cluster::nvlink_latency and nic_latency.
  [[nodiscard]] Seconds route_latency(DeviceId a, DeviceId b) const;

  [[nodiscard]] GroupSpan span(std::span<const DeviceId> members) const;

  // Capacity of the cut between two disjoint device sets, in the direction from -> to: the maximum flow. Other
  // devices of the domains touched may relay (as PXN does), other domains may not. Sets in one domain: NVLink
  // without relay, as routes have it.
  [[nodiscard]] BytesPerSecond cut_capacity(std::span<const DeviceId> from, std::span<const DeviceId> to) const;

  // Capacity between the first and the second half of the domains (of the devices, if there is one domain).
  [[nodiscard]] BytesPerSecond bisection() const;

  // Bandwidth that the slowest member gets to leave its domain when all send at once: its NIC (shared where members
  // share one), and its share of every leaf uplink that the traffic crosses. `everyone`: the devices that are no
  // members send the same way in groups of their own (as the replicas of a layout do) and share the uplinks.
  // Hashed routing: flows of the ring pattern that meet on one uplink divide it.
  [[nodiscard]] BytesPerSecond cross_domain_rate(std::span<const DeviceId> members) const;
  [[nodiscard]] BytesPerSecond cross_domain_rate(std::span<const DeviceId> members, TrafficPattern pattern,
                                                 bool everyone) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// rank r sits on device placement[r].
[[nodiscard]] std::vector<DeviceId> place_ranks(const Fabric& fabric, int ranks);

}  // namespace stepcast::topology
