#include "topology/link_load.h"

#include <algorithm>
#include <map>

#include "topology/fabric_layout.h"

namespace stepcast::topology {
namespace {

class Loads {
 public:
  explicit Loads(const Fabric& fabric) : fabric_(fabric), layout_(fabric.layout()) {}

  // `share` of the sender's port goes from a to b.
  void add(DeviceId a, DeviceId b, double share) {
    if (a == b) return;
    const bool inside = fabric_.domain_of(a) == fabric_.domain_of(b);
    const Cluster& cluster = fabric_.cluster();
    const double rate = share * (inside ? cluster.nvlink_bandwidth : cluster.nic_bandwidth).value;
    for (const int hop : layout_.hops(a.value, b.value)) {
      if (!inside && hop < layout_.first_nic_up) continue;  // PXN's hop to the NIC
      LinkLoad& load = links_[hop];
      (inside ? load.nvlink : load.nic) += rate / fabric_.link(LinkId(hop)).capacity.value;
    }
  }

  std::vector<LinkLoad> take() {
    std::vector<LinkLoad> out;
    for (auto& [link, load] : links_) {
      load.link = LinkId(link);
      out.push_back(load);
    }
    return out;
  }

 private:
  const Fabric& fabric_;
  const FabricLayout& layout_;
  std::map<int, LinkLoad> links_;
};

std::vector<std::vector<DeviceId>> by_domain(const Fabric& fabric, std::span<const DeviceId> members) {
  std::vector<DeviceId> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::vector<DeviceId>> domains;
  for (const DeviceId d : sorted) {
    if (domains.empty() || fabric.domain_of(domains.back().front()) != fabric.domain_of(d)) domains.emplace_back();
    domains.back().push_back(d);
  }
  return domains;
}

}  // namespace

std::vector<LinkLoad> group_load(const Fabric& fabric, std::span<const DeviceId> members, TrafficPattern pattern) {
  Loads loads(fabric);
  const auto domains = by_domain(fabric, members);
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const auto& own = domains[d];
    const auto& next = domains[(d + 1) % domains.size()];
    const auto outside = static_cast<double>(members.size() - own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (pattern == TrafficPattern::ring) {
        loads.add(own[i], own[(i + 1) % own.size()], 1);
        if (domains.size() > 1) loads.add(own[i], next[i % next.size()], 1);
        continue;
      }
      for (const auto& domain : domains) {
        const bool inside = &domain == &own;
        for (const DeviceId peer : domain) {
          loads.add(own[i], peer, 1 / (inside ? std::max(1.0, static_cast<double>(own.size()) - 1) : outside));
        }
      }
    }
  }
  return loads.take();
}

std::vector<LinkLoad> pairs_load(const Fabric& fabric, std::span<const DeviceId> from, std::span<const DeviceId> to) {
  Loads loads(fabric);
  for (std::size_t i = 0; i < from.size(); ++i) loads.add(from[i], to[i], 1);
  return loads.take();
}

}  // namespace stepcast::topology
