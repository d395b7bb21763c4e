#include "scenarios/plan/groups.h"

#include <algorithm>
#include <functional>

namespace stepcast::scenarios::plan {
namespace {

using parallelism::Axis;
using parallelism::CommGroup;
using parallelism::Layout;

using Members = std::vector<RankId>;

class Finder {
 public:
  // `everyone`: the other groups of a layout use the links too; with contention the engine sees to that.
  Finder(const Layout& layout, const topology::Fabric& fabric, bool everyone)
      : layout_(layout),
        fabric_(fabric),
        placement_(topology::place_ranks(fabric, layout.ranks())),
        everyone_(everyone) {}

  StageGroups of_stage(const Members& ranks, bool moe, int shard_group) {
    StageGroups g;
    const auto axis = [&](Axis a, topology::TrafficPattern pattern) {
      return place(partition(ranks, [&](RankId r) { return layout_.group(r, a); }), pattern);
    };
    constexpr auto ring = topology::TrafficPattern::ring;
    g.tp = axis(Axis::tp, ring);
    g.cp = axis(Axis::cp, ring);
    if (moe) g.etp = axis(Axis::etp, ring);
    if (moe) g.ep = axis(Axis::ep, topology::TrafficPattern::uniform);
    const auto dp = partition(ranks, [&](RankId r) { return layout_.dp_cp_group(r); });
    g.dp = place(dp, ring);
    if (moe) g.edp = axis(Axis::edp, ring);
    g.shard = g.dp;
    if (shard_group > 1 && shard_group < g.dp.size) split(dp, shard_group, g);
    return g;
  }

  [[nodiscard]] int domain_of(RankId rank) const {
    return fabric_.domain_of(placement_[static_cast<std::size_t>(rank.value)]);
  }

 private:
  std::vector<Members> partition(const Members& ranks, const std::function<Members(RankId)>& group_of) {
    seen_.assign(static_cast<std::size_t>(layout_.ranks()), false);
    std::vector<Members> groups;
    for (const RankId r : ranks) {
      if (seen_[static_cast<std::size_t>(r.value)]) continue;
      groups.push_back(group_of(r));
      for (const RankId m : groups.back()) seen_[static_cast<std::size_t>(m.value)] = true;
    }
    return groups;
  }

  // The widest of the groups sets the cost.
  CommGroup place(const std::vector<Members>& groups, topology::TrafficPattern pattern) {
    CommGroup g;
    g.size = static_cast<int>(groups.front().size());
    if (g.size == 1) return g;
    std::vector<DeviceId> devices;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      devices.clear();
      for (const RankId r : groups[i]) devices.push_back(placement_[static_cast<std::size_t>(r.value)]);
      const topology::GroupSpan span = fabric_.span(devices);
      const BytesPerSecond rate = fabric_.cross_domain_rate(devices, pattern, everyone_);
      if (i == 0 || span.domains > g.span.domains || (span.domains == g.span.domains && rate < g.cross_domain)) {
        g.span = span;
        g.cross_domain = rate;
      }
    }
    g.index = 0;
    return g;
  }

  void split(const std::vector<Members>& dp, int shard_group, StageGroups& g) {
    const auto n = static_cast<std::size_t>(shard_group);
    std::vector<Members> shards, replicas;
    for (const Members& members : dp) {
      for (std::size_t i = 0; i < members.size(); i += n)
        shards.emplace_back(members.begin() + static_cast<std::ptrdiff_t>(i),
                            members.begin() + static_cast<std::ptrdiff_t>(i + n));
      for (std::size_t i = 0; i < n; ++i) {
        Members replica;
        for (std::size_t j = i; j < members.size(); j += n) replica.push_back(members[j]);
        replicas.push_back(std::move(replica));
      }
    }
    g.shard = place(shards, topology::TrafficPattern::ring);
    g.replica = place(replicas, topology::TrafficPattern::ring);
  }

  const Layout& layout_;
  const topology::Fabric& fabric_;
  std::vector<DeviceId> placement_;
  bool everyone_;
  std::vector<bool> seen_;
};

}  // namespace

Groups find_groups(const parallelism::StepSpec& spec, const Layout& layout, const topology::Fabric& fabric,
                   int shard_group) {
  Finder finder(layout, fabric, !spec.fabric.contention);
  std::vector<Members> ranks(static_cast<std::size_t>(layout.pp));
  for (int r = 0; r < layout.ranks(); ++r)
    ranks[static_cast<std::size_t>(layout.coordinate(RankId(r), Axis::pp))].emplace_back(r);
  Groups groups;
  for (const Members& stage : ranks) {
    const StageGroups g = finder.of_stage(stage, spec.model.is_moe(), shard_group);
    const auto known = std::find(groups.kinds.begin(), groups.kinds.end(), g);
    groups.kind_of_stage.push_back(static_cast<int>(known - groups.kinds.begin()));
    if (known == groups.kinds.end()) groups.kinds.push_back(g);
    groups.domain_of_stage.push_back(finder.domain_of(stage.front()));
  }
  return groups;
}

}  // namespace stepcast::scenarios::plan
