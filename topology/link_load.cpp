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

// visit(from, to, share of the sender's port) for all transfers of the pattern.
template <class Visit>
void for_each_transfer(const Fabric& fabric, std::span<const DeviceId> members, TrafficPattern pattern,
                       const Visit& visit) {
  const auto domains = by_domain(fabric, members);
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const auto& own = domains[d];
    const auto& next = domains[(d + 1) % domains.size()];
    const auto outside = static_cast<double>(members.size() - own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (pattern == TrafficPattern::ring) {
        visit(own[i], own[(i + 1) % own.size()], 1.0);
        if (domains.size() > 1) visit(own[i], next[i % next.size()], 1.0);
        continue;
      }
      for (const auto& domain : domains) {
        const bool inside = &domain == &own;
        for (const DeviceId peer : domain) {
          visit(own[i], peer, 1 / (inside ? std::max(1.0, static_cast<double>(own.size()) - 1) : outside));
        }
      }
    }
  }
}

// Collects transfers into parts, in the order of their first transfers.
class Parts {
 public:
  Parts(const Fabric& fabric, PartLevel level) : fabric_(fabric), layout_(fabric.layout()), level_(level) {}

  void add(DeviceId a, DeviceId b, double share) {
    if (a == b) return;
    const bool inside = fabric_.domain_of(a) == fabric_.domain_of(b);
    Key key = {-1 - fabric_.domain_of(a), -1 - fabric_.domain_of(b)};
    if (!inside && level_ == PartLevel::nic) {
      for (const int hop : layout_.hops(a.value, b.value)) {
        if (hop >= layout_.first_nic_up && hop < layout_.first_nic_down) key.first = hop - layout_.first_nic_up;
        if (layout_.pxn && hop >= layout_.first_nic_down && hop < layout_.first_leaf_up) {
          key.second = hop - layout_.first_nic_down;
        }
      }
    }
    const auto [found, added] = index_.try_emplace(key, out_.parts.size());
    if (added) {
      out_.parts.push_back({place(key.first), place(key.second), 0, {}});
      loads_.emplace_back(fabric_);
    }
    loads_[found->second].add(a, b, share);
    if (!inside) out_.parts[found->second].even += share;
  }

  // Members behind a NIC; those of its domain where it sends for others only.
  LoadParts take(std::span<const DeviceId> members) {
    for (std::size_t i = 0; i < out_.parts.size(); ++i) out_.parts[i].links = loads_[i].take();
    out_.places.resize(places_.size());
    for (const auto& [which, place] : places_) {
      auto& list = out_.places[static_cast<std::size_t>(place)];
      const int domain = which < 0 ? -1 - which : layout_.domain_index(which / layout_.rails * layout_.per_node);
      for (const DeviceId d : members) {
        if (which >= 0 && layout_.nic_index(d.value) == which) list.push_back(d);
      }
      if (!list.empty()) continue;
      for (const DeviceId d : members) {
        if (fabric_.domain_of(d) == domain) list.push_back(d);
      }
    }
    return std::move(out_);
  }

 private:
  using Key = std::pair<int, int>;  // NICs, and -1 - domain

  int place(int which) {
    const auto [found, added] = places_.try_emplace(which, static_cast<int>(places_.size()));
    return found->second;
  }

  const Fabric& fabric_;
  const FabricLayout& layout_;
  PartLevel level_;
  LoadParts out_;
  std::vector<Loads> loads_;
  std::map<Key, std::size_t> index_;
  std::map<int, int> places_;
};

}  // namespace

std::vector<LinkLoad> group_load(const Fabric& fabric, std::span<const DeviceId> members, TrafficPattern pattern) {
  Loads loads(fabric);
  for_each_transfer(fabric, members, pattern, [&](DeviceId a, DeviceId b, double share) { loads.add(a, b, share); });
  return loads.take();
}

std::vector<LinkLoad> pairs_load(const Fabric& fabric, std::span<const DeviceId> from, std::span<const DeviceId> to) {
  Loads loads(fabric);
  for (std::size_t i = 0; i < from.size(); ++i) loads.add(from[i], to[i], 1);
  return loads.take();
}

LoadParts group_parts(const Fabric& fabric, std::span<const DeviceId> members, PartLevel level) {
  Parts parts(fabric, level);
  for_each_transfer(fabric, members, TrafficPattern::uniform,
                    [&](DeviceId a, DeviceId b, double share) { parts.add(a, b, share); });
  return parts.take(members);
}

LoadParts pairs_parts(const Fabric& fabric, std::span<const DeviceId> from, std::span<const DeviceId> to) {
  Parts parts(fabric, PartLevel::nic);
  for (std::size_t i = 0; i < from.size(); ++i) parts.add(from[i], to[i], 1);
  return parts.take({});
}

}  // namespace stepcast::topology
