#include "scenarios/leaf_traffic.h"

#include <algorithm>
#include <vector>

#include "topology/fabric.h"
#include "topology/link_load.h"

namespace stepcast::scenarios {
namespace {

using Traffic = std::map<std::string, LeafTraffic>;

class Finder {
 public:
  Finder(const parallelism::LoweredStep& lowered, const topology::Cluster& cluster)
      : lowered_(lowered), program_(lowered.program), fabric_(cluster) {
    const bool whole_nodes = cluster.nvlink_domain % cluster.devices_per_node == 0;
    every_rail_ = !cluster.rail_optimised || (cluster.pxn && whole_nodes);
  }

  Traffic run() {
    if (fabric_.leaf_switch_count() == 1) return {};
    for (std::size_t c = 0; c < program_.cohorts.size(); ++c) add_groups(c);
    for (const sim::JoinClass& join : program_.joins) add_join(join);
    for (const sim::Channel& channel : program_.channels) add_channel(channel);
    return std::move(traffic_);
  }

 private:
  [[nodiscard]] DeviceId device(std::size_t cohort, std::size_t lane) const {
    const RankId rank = program_.cohorts[cohort].ranks[lane];
    return lowered_.placement[static_cast<std::size_t>(rank.value)];
  }

  template <class Loads>
  void add(const std::string& name, const std::vector<DeviceId>& members, const Loads& loads) {
    LeafTraffic& t = traffic_[name];
    const int groups = fabric_.span(members).leaves;
    t.leaf_groups = std::max(t.leaf_groups, groups);
    if (t.crosses) return;
    t.crosses = groups > 1;
    if (t.crosses || every_rail_) return;
    for (const topology::LinkLoad& load : loads()) {
      t.crosses = t.crosses || fabric_.link(load.link).kind == topology::LinkKind::leaf_up;
    }
  }

  void add_group(const std::string& name, const std::vector<DeviceId>& members) {
    // As the lowering has them: experts are anywhere in the group, the others pass data round a ring.
    const auto pattern = name == "ep" ? topology::TrafficPattern::uniform : topology::TrafficPattern::ring;
    add(name, members, [&] { return topology::group_load(fabric_, members, pattern); });
  }

  void add_groups(std::size_t cohort) {
    std::vector<DeviceId> members;
    for (const sim::GroupClass& group : program_.cohorts[cohort].groups) {
      const auto size = static_cast<std::size_t>(group.group_size);
      for (std::size_t first = 0; first < group.lanes.size(); first += size) {
        members.clear();
        for (std::size_t i = first; i < first + size; ++i)
          members.push_back(device(cohort, static_cast<std::size_t>(group.lanes[i])));
        add_group(group.name, members);
      }
    }
  }

  void add_join(const sim::JoinClass& join) {
    std::map<std::int32_t, std::vector<DeviceId>> groups;
    for (std::size_t m = 0; m < join.cohorts.size(); ++m) {
      const auto cohort = static_cast<std::size_t>(join.cohorts[m]);
      for (std::size_t lane = 0; lane < program_.cohorts[cohort].ranks.size(); ++lane) {
        groups[join.group_of_lane.empty() ? 0 : join.group_of_lane[m][lane]].push_back(device(cohort, lane));
      }
    }
    for (auto& [id, members] : groups) {
      std::sort(members.begin(), members.end());
      add_group(join.name, members);
    }
  }

  void add_channel(const sim::Channel& channel) {
    const auto from = static_cast<std::size_t>(channel.from);
    const auto to = static_cast<std::size_t>(channel.to);
    for (std::size_t lane = 0; lane < program_.cohorts[to].ranks.size(); ++lane) {
      const std::size_t source = channel.from_lane.empty() ? lane : static_cast<std::size_t>(channel.from_lane[lane]);
      const std::vector<DeviceId> pair = {device(from, source), device(to, lane)};
      if (pair[0] == pair[1]) continue;
      add("pp", pair, [&] { return topology::pairs_load(fabric_, std::span(pair).first(1), std::span(pair).last(1)); });
    }
  }

  const parallelism::LoweredStep& lowered_;
  const sim::Program& program_;
  const topology::Fabric fabric_;
  bool every_rail_ = true;  // a device reaches all rails of its leaf group below the spine
  Traffic traffic_;
};

}  // namespace

Traffic leaf_traffic(const parallelism::LoweredStep& lowered, const topology::Cluster& cluster) {
  return Finder(lowered, cluster).run();
}

}  // namespace stepcast::scenarios
