// The fabric as a graph: devices, NVLink switches, NICs, leaf and spine switches.
//
// Routes, shared links and cut capacities come from the graph (Boost.Graph),
// not from a formula per preset. Rail-optimised Clos by default: NIC r of every
// node under a leaf group hangs on the leaf switch of rail r; leaves connect to
// a spine whose uplinks carry downlinks / oversubscription.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "topology/cluster.h"

namespace stepcast::topology {

using LinkId = Id<struct LinkTag>;

enum class LinkKind : unsigned char { nvlink_up, nvlink_down, nic_up, nic_down, leaf_up, leaf_down };

// One direction of a link (or a bundle of equal links) with its capacity.
struct Link {
  LinkKind kind = LinkKind::nvlink_up;
  BytesPerSecond capacity;
  Seconds latency;
  int owner = -1;  // device for nvlink and nic, leaf for leaf links
};

// How the members of a group lie on the fabric.
struct GroupSpan {
  int ranks = 1;
  int domains = 1;            // NVLink domains touched
  int nodes = 1;              // hosts touched
  int max_per_domain = 1;     // most members in one domain
  int min_per_domain = 1;
  int leaves = 1;             // leaf groups touched
  [[nodiscard]] bool inside_domain() const { return domains == 1; }
  friend bool operator==(const GroupSpan&, const GroupSpan&) = default;
};

class Fabric {
 public:
  explicit Fabric(const Cluster& cluster);
  ~Fabric();
  Fabric(Fabric&&) noexcept;
  Fabric& operator=(Fabric&&) noexcept;

  [[nodiscard]] const Cluster& cluster() const;
  [[nodiscard]] int device_count() const;
  [[nodiscard]] int domain_of(DeviceId device) const;
  [[nodiscard]] int node_of(DeviceId device) const;
  [[nodiscard]] int leaf_of(DeviceId device) const;
  [[nodiscard]] int rail_of(DeviceId device) const;

  [[nodiscard]] int link_count() const;
  [[nodiscard]] const Link& link(LinkId id) const;

  // Directed links from a to b, in order; NVLink inside a domain, else through the NICs (with PXN: NVLink to the
  // local device on the peer's rail first). Empty when a == b.
  [[nodiscard]] std::vector<LinkId> route(DeviceId a, DeviceId b) const;

  [[nodiscard]] GroupSpan span(std::span<const DeviceId> members) const;

  // Capacity of the cut between the two device sets, in the direction from -> to.
  [[nodiscard]] BytesPerSecond cut_capacity(std::span<const DeviceId> from, std::span<const DeviceId> to) const;

  // Bandwidth one member of `members` gets to leave its domain when all send at once: its NIC, and its share of
  // every leaf uplink that the traffic crosses.
  [[nodiscard]] BytesPerSecond cross_domain_rate(std::span<const DeviceId> members) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// rank r sits on device placement[r].
[[nodiscard]] std::vector<DeviceId> place_ranks(const Fabric& fabric, int ranks);

}  // namespace stepcast::topology
