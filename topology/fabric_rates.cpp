#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

#include "topology/fabric_traffic.h"

namespace stepcast::topology {

namespace {

using Load = std::unordered_map<int, double>;

std::vector<int> sorted_devices(std::span<const DeviceId> members) {
  std::vector<int> sorted(members.size());
  std::ranges::transform(members, sorted.begin(), [](DeviceId d) { return d.value; });
  if (!std::ranges::is_sorted(sorted)) std::ranges::sort(sorted);
  return sorted;
}

// All devices under a leaf switch over the members there: how much more it carries when everyone sends.
double crowd(const FabricLayout& f, int leaf_switch, double members) {
  const int group = leaf_switch / f.switches_per_group;
  const int first = group * f.leaf_nodes * f.per_node;
  const int devices = std::min(f.devices - first, f.group_nodes(group) * f.per_node);
  return static_cast<double>(devices) / f.switches_per_group / members;
}

// Lowest capacity over load; loads are in units of one member's rate.
double tightest(const Load& load, double capacity, double rate) {
  for (const auto& [where, units] : load) {
    if (units > 0) rate = std::min(rate, capacity / units);
  }
  return rate;
}

double tightest_uplink(const FabricLayout& f, const Load& load, const Load& members, bool everyone, double rate) {
  for (const auto& [leaf_switch, units] : load) {
    if (units <= 0) continue;
    const double scale = everyone ? std::max(1.0, crowd(f, leaf_switch, members.at(leaf_switch))) : 1.0;
    rate = std::min(rate, f.uplinks(leaf_switch / f.switches_per_group) / (units * scale));
  }
  return rate;
}

std::uint64_t pair_key(int a, int b) { return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b); }

}  // namespace

// Member a sends 1/(n - D_a) of its rate to each of the n - D_a members outside its domain of D_a. It crosses the
// spine to those outside its leaf group (outside its leaf switch, without PXN). Receivers are loaded likewise.
BytesPerSecond uniform_rate(const FabricLayout& f, std::span<const DeviceId> members, bool everyone) {
  const std::vector<int> devices = sorted_devices(members);
  const double n = static_cast<double>(devices.size());
  const auto zone = [&](int d) { return f.pxn ? f.group(d) : f.leaf_switch(d); };

  Load in_domain;
  Load in_zone;
  std::unordered_map<std::uint64_t, double> in_both;
  for (const int d : devices) {
    in_domain[f.domain_index(d)] += 1;
    in_zone[zone(d)] += 1;
    in_both[pair_key(f.domain_index(d), zone(d))] += 1;
  }
  const double on_one_nic = static_cast<double>(f.per_node / f.rails);
  if (in_domain.size() == 1) {
    Load nics;
    for (const int d : devices) nics[f.nic_index(d)] += 1;
    return BytesPerSecond(tightest(nics, f.nic, everyone ? f.nic / on_one_nic : f.nic));
  }

  double all_weight = 0;
  Load zone_weight;
  for (const int d : devices) {
    const double weight = 1 / (n - in_domain[f.domain_index(d)]);
    all_weight += weight;
    zone_weight[zone(d)] += weight;
  }
  Load nic_up, nic_down, leaf_up, leaf_down, leaf_members;
  for (const int d : devices) {
    const double own = in_domain[f.domain_index(d)];
    const double both = in_both[pair_key(f.domain_index(d), zone(d))];
    const int leaf = f.leaf_switch(d);
    nic_up[f.nic_index(d)] += 1;
    nic_down[f.nic_index(d)] += all_weight - own / (n - own);
    leaf_up[leaf] += (n - own - in_zone[zone(d)] + both) / (n - own);
    leaf_down[leaf] += all_weight - zone_weight[zone(d)] - (own - both) / (n - own);
    leaf_members[leaf] += 1;
  }
  double rate = everyone ? f.nic / on_one_nic : f.nic;
  rate = tightest(nic_up, f.nic, rate);
  rate = tightest(nic_down, f.nic, rate);
  rate = tightest_uplink(f, leaf_up, leaf_members, everyone, rate);
  return BytesPerSecond(tightest_uplink(f, leaf_down, leaf_members, everyone, rate));
}

BytesPerSecond ring_rate(const FabricLayout& f, std::span<const DeviceId> members, bool everyone) {
  const std::vector<int> devices = sorted_devices(members);
  std::vector<std::size_t> first_of_domain;
  Load leaf_members;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (i == 0 || f.domain_index(devices[i]) != f.domain_index(devices[i - 1])) first_of_domain.push_back(i);
    leaf_members[f.leaf_switch(devices[i])] += 1;
  }
  const std::size_t domains = first_of_domain.size();
  first_of_domain.push_back(devices.size());
  if (domains == 1) return uniform_rate(f, members, everyone);

  Load nic_load, leaf_up, leaf_down, plane_load;
  for (std::size_t i = 0; i < domains; ++i) {
    const std::size_t next = (i + 1) % domains;
    const std::size_t next_size = first_of_domain[next + 1] - first_of_domain[next];
    for (std::size_t j = first_of_domain[i]; j < first_of_domain[i + 1]; ++j) {
      const int peer = devices[first_of_domain[next] + (j - first_of_domain[i]) % next_size];
      for (const int link : f.hops(devices[j], peer)) {
        if (link < f.first_nic_up) continue;  // NVLink inside the domain
        if (link < f.first_leaf_up) {
          nic_load[link] += 1;
          continue;
        }
        const bool up = link < f.first_leaf_down;
        int leaf_switch = 0;
        int plane = 0;
        f.leaf_link_ends(link - (up ? f.first_leaf_up : f.first_leaf_down), leaf_switch, plane);
        (up ? leaf_up : leaf_down)[leaf_switch] += 1;
        plane_load[link] += 1;
        leaf_members.try_emplace(leaf_switch, 1.0);  // a relay's leaf may hold no member
      }
    }
  }
  double rate = everyone ? f.nic / (f.per_node / f.rails) : f.nic;
  rate = tightest(nic_load, f.nic, rate);
  rate = tightest_uplink(f, leaf_up, leaf_members, everyone, rate);
  rate = tightest_uplink(f, leaf_down, leaf_members, everyone, rate);
  if (f.hashed) {
    for (const auto& [link, flows] : plane_load) {
      const bool up = link < f.first_leaf_down;
      int leaf_switch = 0;
      int plane = 0;
      f.leaf_link_ends(link - (up ? f.first_leaf_up : f.first_leaf_down), leaf_switch, plane);
      rate = std::min(rate, f.uplinks(leaf_switch / f.switches_per_group) / f.planes(leaf_switch) / flows);
    }
  }
  return BytesPerSecond(rate);
}

}  // namespace stepcast::topology
