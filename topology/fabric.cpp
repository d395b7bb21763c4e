#include "topology/fabric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "sim/base/rng.h"
#include "topology/fabric_layout.h"
#include "topology/fabric_traffic.h"

namespace stepcast::topology {

std::string_view name(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink_up:
      return "nvlink_up";
    case LinkKind::nvlink_down:
      return "nvlink_down";
    case LinkKind::nvlink_direct:
      return "nvlink_direct";
    case LinkKind::nic_up:
      return "nic_up";
    case LinkKind::nic_down:
      return "nic_down";
    case LinkKind::leaf_up:
      return "leaf_up";
    case LinkKind::leaf_down:
      return "leaf_down";
  }
  return "unknown";
}

FabricLayout::FabricLayout(const Cluster& c)
    : devices(c.devices),
      per_node(c.devices_per_node),
      domain(c.nvlink_domain),
      rails(c.rails),
      leaf_nodes(c.leaf_radix),
      nodes(c.nodes()),
      groups((c.nodes() + c.leaf_radix - 1) / c.leaf_radix),
      switches_per_group(c.rail_optimised ? c.rails : 1),
      mesh(c.scale_up == ScaleUp::mesh),
      pxn(c.pxn && c.rail_optimised),
      hashed(c.routing == Routing::hashed) {
  STEPCAST_ASSERT(devices >= 1 && per_node >= 1 && domain >= 1 && rails >= 1 && leaf_nodes >= 1);
  STEPCAST_ASSERT(per_node % rails == 0 && (domain % per_node == 0 || per_node % domain == 0));
  STEPCAST_ASSERT(c.oversubscription > 0);
  nvlink = c.nvlink_bandwidth.value;
  direct = domain > 1 ? nvlink / std::max(1, c.domain_slots - 1) : nvlink;
  nic = c.nic_bandwidth.value * (per_node / rails);
  oversubscription = c.oversubscription;
  planes_full = planes_of_size(std::min(nodes, leaf_nodes));
  full_groups = nodes / leaf_nodes;
  planes_last = groups > full_groups ? planes_of_size(nodes - full_groups * leaf_nodes) : planes_full;

  first_nvlink_down = mesh ? devices * (domain - 1) : devices;
  first_nic_up = mesh ? first_nvlink_down : 2 * devices;
  first_nic_down = first_nic_up + nodes * rails;
  first_leaf_up = first_nic_down + nodes * rails;
  leaf_links =
      full_groups * switches_per_group * planes_full + (groups - full_groups) * switches_per_group * planes_last;
  first_leaf_down = first_leaf_up + leaf_links;
  links = first_leaf_down + leaf_links;
}

int FabricLayout::planes_of_size(int group_nodes) const {
  if (!hashed) return 1;
  const double downlinks = static_cast<double>(group_nodes) * (rails / switches_per_group);
  return std::max(1, static_cast<int>(std::lround(downlinks / oversubscription)));
}

int FabricLayout::group_nodes(int group) const { return std::min(leaf_nodes, nodes - group * leaf_nodes); }

double FabricLayout::uplinks(int group) const {
  return static_cast<double>(group_nodes(group)) * (rails / switches_per_group) * nic / oversubscription;
}

int FabricLayout::planes(int leaf_switch) const {
  return leaf_switch / switches_per_group < full_groups ? planes_full : planes_last;
}

// Link of a leaf switch and a spine plane, relative to first_leaf_up or first_leaf_down.
int FabricLayout::leaf_link(int leaf_switch, int plane) const {
  const int full = full_groups * switches_per_group;
  return leaf_switch < full ? leaf_switch * planes_full + plane
                            : full * planes_full + (leaf_switch - full) * planes_last + plane;
}

void FabricLayout::leaf_link_ends(int index, int& leaf_switch, int& plane) const {
  const int full = full_groups * switches_per_group * planes_full;
  const bool in_full = index < full;
  const int per = in_full ? planes_full : planes_last;
  const int offset = in_full ? index : index - full;
  leaf_switch = offset / per + (in_full ? 0 : full_groups * switches_per_group);
  plane = offset % per;
}

// The device of a's host, on b's rail, that sends for a; -1 where NVLink does not reach one.
int FabricLayout::relay(int a, int b) const {
  const int on_rail = node(a) * per_node + rail(b) * (per_node / rails);
  return on_rail < devices && domain_index(on_rail) == domain_index(a) ? on_rail : -1;
}

FabricLayout::Hops FabricLayout::hops(int a, int b) const {
  Hops hops;
  if (a == b) return hops;
  if (domain_index(a) == domain_index(b)) {
    add_domain_hop(hops, a, b);
    return hops;
  }
  int sender = a;
  if (pxn && rail(a) != rail(b)) {
    const int on_rail = relay(a, b);
    if (on_rail >= 0) {
      add_domain_hop(hops, a, on_rail);
      sender = on_rail;
    }
  }
  hops.add(first_nic_up + nic_index(sender));
  const int from = leaf_switch(sender);
  const int to = leaf_switch(b);
  if (from != to) {
    int plane = 0;
    if (hashed) {
      const int common = std::min(planes(from), planes(to));
      const std::uint64_t flow = static_cast<std::uint64_t>(sender) << 32 | static_cast<std::uint32_t>(b);
      plane = static_cast<int>(mix64(flow) % static_cast<std::uint64_t>(common));
    }
    hops.add(first_leaf_up + leaf_link(from, plane));
    hops.add(first_leaf_down + leaf_link(to, plane));
  }
  hops.add(first_nic_down + nic_index(b));
  return hops;
}

void FabricLayout::add_domain_hop(Hops& hops, int a, int b) const {
  if (mesh) {
    const int from = a % domain;
    const int to = b % domain;
    hops.add(a * (domain - 1) + (to < from ? to : to - 1));
    return;
  }
  hops.add(a);
  hops.add(first_nvlink_down + b);
}

struct Fabric::State {
  Cluster cluster;
  FabricLayout layout;
  explicit State(const Cluster& c) : cluster(c), layout(c) {}
};

Fabric::Fabric(const Cluster& cluster) : state_(std::make_unique<State>(cluster)) {}
Fabric::~Fabric() = default;
Fabric::Fabric(Fabric&&) noexcept = default;
Fabric& Fabric::operator=(Fabric&&) noexcept = default;

const Cluster& Fabric::cluster() const { return state_->cluster; }
const FabricLayout& Fabric::layout() const { return state_->layout; }
int Fabric::device_count() const { return state_->layout.devices; }
int Fabric::domain_of(DeviceId device) const { return state_->layout.domain_index(device.value); }
int Fabric::node_of(DeviceId device) const { return state_->layout.node(device.value); }
int Fabric::leaf_of(DeviceId device) const { return state_->layout.group(device.value); }
int Fabric::leaf_switch_of(DeviceId device) const { return state_->layout.leaf_switch(device.value); }
int Fabric::rail_of(DeviceId device) const { return state_->layout.rail(device.value); }
int Fabric::leaf_count() const { return state_->layout.groups; }
int Fabric::leaf_switch_count() const { return state_->layout.groups * state_->layout.switches_per_group; }
int Fabric::link_count() const { return state_->layout.links; }

Link Fabric::link(LinkId id) const {
  const FabricLayout& f = state_->layout;
  const Cluster& c = state_->cluster;
  const int i = id.value;
  STEPCAST_ASSERT(i >= 0 && i < f.links);
  if (f.mesh && i < f.first_nic_up) {
    const int owner = i / (f.domain - 1);
    const int slot = i % (f.domain - 1);
    const int peer = owner - owner % f.domain + (slot < owner % f.domain ? slot : slot + 1);
    return {LinkKind::nvlink_direct, BytesPerSecond(f.direct), c.nvlink_latency, owner, peer};
  }
  if (i < f.first_nvlink_down) return {LinkKind::nvlink_up, BytesPerSecond(f.nvlink), c.nvlink_latency / 2, i, -1};
  if (i < f.first_nic_up) {
    return {LinkKind::nvlink_down, BytesPerSecond(f.nvlink), c.nvlink_latency / 2, i - f.first_nvlink_down, -1};
  }
  if (i < f.first_leaf_up) {
    const bool up = i < f.first_nic_down;
    const int owner = (i - (up ? f.first_nic_up : f.first_nic_down)) * (f.per_node / f.rails);
    return {up ? LinkKind::nic_up : LinkKind::nic_down, BytesPerSecond(f.nic), c.nic_latency / 2, owner, -1};
  }
  const bool up = i < f.first_leaf_down;
  int leaf_switch = 0;
  int plane = 0;
  f.leaf_link_ends(i - (up ? f.first_leaf_up : f.first_leaf_down), leaf_switch, plane);
  const double capacity = f.uplinks(leaf_switch / f.switches_per_group) / f.planes(leaf_switch);
  return {up ? LinkKind::leaf_up : LinkKind::leaf_down, BytesPerSecond(capacity), c.switch_latency, leaf_switch, plane};
}

std::vector<LinkId> Fabric::route(DeviceId a, DeviceId b) const {
  STEPCAST_ASSERT(std::min(a.value, b.value) >= 0 && std::max(a.value, b.value) < state_->layout.devices);
  const FabricLayout::Hops hops = state_->layout.hops(a.value, b.value);
  std::vector<LinkId> links;
  links.reserve(hops.size());
  for (const int hop : hops) links.emplace_back(hop);
  return links;
}

Seconds Fabric::route_latency(DeviceId a, DeviceId b) const {
  Seconds total;
  for (const int hop : state_->layout.hops(a.value, b.value)) total += link(LinkId(hop)).latency;
  return total;
}

GroupSpan Fabric::span(std::span<const DeviceId> members) const {
  const FabricLayout& f = state_->layout;
  STEPCAST_ASSERT(!members.empty());
  std::vector<int> sorted(members.size());
  std::ranges::transform(members, sorted.begin(), [](DeviceId d) { return d.value; });
  if (!std::ranges::is_sorted(sorted)) std::ranges::sort(sorted);
  GroupSpan span;
  span.ranks = static_cast<int>(members.size());
  span.domains = span.nodes = span.leaves = 0;
  span.max_per_domain = 0;
  span.min_per_domain = span.ranks;
  // Ascending devices visit domains, nodes and leaf groups in ascending order.
  int node = -1;
  int leaf = -1;
  for (std::size_t i = 0; i < sorted.size();) {
    const int domain = f.domain_index(sorted[i]);
    int in_domain = 0;
    for (; i < sorted.size() && f.domain_index(sorted[i]) == domain; ++i, ++in_domain) {
      if (f.node(sorted[i]) != node) {
        node = f.node(sorted[i]);
        ++span.nodes;
        if (node / f.leaf_nodes != leaf) {
          leaf = node / f.leaf_nodes;
          ++span.leaves;
        }
      }
    }
    ++span.domains;
    span.max_per_domain = std::max(span.max_per_domain, in_domain);
    span.min_per_domain = std::min(span.min_per_domain, in_domain);
  }
  return span;
}

BytesPerSecond Fabric::cut_capacity(std::span<const DeviceId> from, std::span<const DeviceId> to) const {
  return stepcast::topology::cut_capacity(state_->layout, from, to);
}

BytesPerSecond Fabric::bisection() const {
  const FabricLayout& f = state_->layout;
  const int domains = (f.devices + f.domain - 1) / f.domain;
  const int half = domains > 1 ? domains / 2 * f.domain : f.devices / 2;
  std::vector<DeviceId> from;
  std::vector<DeviceId> to;
  for (int d = 0; d < f.devices; ++d) (d < half ? from : to).emplace_back(d);
  return cut_capacity(from, to);
}

BytesPerSecond Fabric::cross_domain_rate(std::span<const DeviceId> members) const {
  return cross_domain_rate(members, TrafficPattern::uniform, false);
}

BytesPerSecond Fabric::cross_domain_rate(std::span<const DeviceId> members, TrafficPattern pattern,
                                         bool everyone) const {
  STEPCAST_ASSERT(!members.empty());
  return pattern == TrafficPattern::uniform ? uniform_rate(state_->layout, members, everyone)
                                            : ring_rate(state_->layout, members, everyone);
}

}  // namespace stepcast::topology
