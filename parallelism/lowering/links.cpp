#include "parallelism/lowering/links.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "topology/link_load.h"

namespace stepcast::parallelism {
namespace {

constexpr std::int32_t fewest_lanes = 8;  // of a unit: one vector of the engine

bool every_layer(const std::string& group) { return group == "tp" || group == "cp" || group == "ep" || group == "etp"; }

bool is_transfer(const sim::Instruction& in) {
  return in.op == sim::Opcode::collective || in.op == sim::Opcode::send || in.op == sim::Opcode::join;
}

std::vector<std::int32_t> unit_of_lane(const sim::Cohort& cohort, int& units) {
  std::vector<std::int32_t> root(cohort.ranks.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](std::int32_t lane) {
    while (root[static_cast<std::size_t>(lane)] != lane) lane = root[static_cast<std::size_t>(lane)];
    return lane;
  };
  for (const sim::GroupClass& group : cohort.groups) {
    if (!every_layer(group.name)) continue;
    const auto size = static_cast<std::size_t>(group.group_size);
    for (std::size_t i = 0; i < group.lanes.size(); ++i) {
      const std::int32_t a = find(group.lanes[i / size * size]);
      const std::int32_t b = find(group.lanes[i]);
      root[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
    }
  }
  // Small ones are joined with the next, in the order of their first lanes.
  std::vector<std::int32_t> size(root.size(), 0), number(root.size(), -1);
  for (std::size_t i = 0; i < root.size(); ++i) ++size[static_cast<std::size_t>(find(static_cast<std::int32_t>(i)))];
  std::int32_t unit = 0, filled = 0;
  for (std::size_t i = 0; i < root.size(); ++i) {
    if (size[i] == 0) continue;
    if (filled >= fewest_lanes) {
      ++unit;
      filled = 0;
    }
    number[i] = unit;
    filled += size[i];
  }
  if (unit > 0 && filled < fewest_lanes) {
    for (std::int32_t& n : number) n = std::min(n, unit - 1);
    --unit;
  }
  units = unit + 1;
  std::vector<std::int32_t> of_lane(root.size());
  for (std::size_t i = 0; i < root.size(); ++i) {
    of_lane[i] = number[static_cast<std::size_t>(find(static_cast<std::int32_t>(i)))];
  }
  return of_lane;
}

// Traffic of one class before links are merged: for each unit, or for the whole cohort.
struct Traffic {
  std::vector<std::vector<topology::LinkLoad>> of_unit;
};

// Who may load a link at the same time as others: operations of one unit on one stream follow each other.
struct User {
  std::int32_t pattern, list;
  float nic, nvlink;
  friend auto operator<=>(const User&, const User&) = default;
};

class LinkBuilder {
 public:
  explicit LinkBuilder(Lowering& low) : low_(low), program_(low.step.program) {}

  void run() {
    for (std::size_t c = 0; c < program_.cohorts.size(); ++c) find_patterns(c);
    merge();
    for (sim::Cohort& cohort : program_.cohorts) flag(cohort);
  }

 private:
  [[nodiscard]] DeviceId device(std::size_t cohort, std::int32_t lane) const {
    const RankId rank = program_.cohorts[cohort].ranks[static_cast<std::size_t>(lane)];
    return low_.step.placement[static_cast<std::size_t>(rank.value)];
  }

  void append(std::vector<topology::LinkLoad>& to, const std::vector<topology::LinkLoad>& more) const {
    to.insert(to.end(), more.begin(), more.end());
  }

  Traffic group_traffic(std::size_t c, const sim::GroupClass& group) const {
    const sim::Cohort& cohort = program_.cohorts[c];
    const auto size = static_cast<std::size_t>(group.group_size);
    bool spans = false;
    const auto unit = [&](std::size_t i) {
      return cohort.unit_of_lane.empty()
                 ? std::size_t{0}
                 : static_cast<std::size_t>(cohort.unit_of_lane[static_cast<std::size_t>(group.lanes[i])]);
    };
    for (std::size_t i = 0; i < group.lanes.size(); ++i) spans = spans || unit(i) != unit(i / size * size);
    Traffic traffic;
    traffic.of_unit.resize(spans ? 1 : static_cast<std::size_t>(cohort.units));
    const auto pattern = group.name == "ep" ? topology::TrafficPattern::uniform : topology::TrafficPattern::ring;
    for (std::size_t first = 0; first < group.lanes.size(); first += size) {
      std::vector<DeviceId> members;
      for (std::size_t i = first; i < first + size; ++i) members.push_back(device(c, group.lanes[i]));
      append(traffic.of_unit[spans ? 0 : unit(first)], topology::group_load(low_.fabric, members, pattern));
    }
    return traffic;
  }

  Traffic channel_traffic(const sim::Channel& channel) const {
    const auto from = static_cast<std::size_t>(channel.from);
    const auto to = static_cast<std::size_t>(channel.to);
    const sim::Cohort& cohort = program_.cohorts[from];
    const auto units = static_cast<std::size_t>(cohort.units);
    std::vector<std::vector<DeviceId>> senders(units), receivers(units);
    for (std::size_t lane = 0; lane < program_.cohorts[to].ranks.size(); ++lane) {
      const std::int32_t source = channel.from_lane.empty() ? static_cast<std::int32_t>(lane) : channel.from_lane[lane];
      const std::size_t unit = cohort.unit_of_lane.empty()
                                   ? 0
                                   : static_cast<std::size_t>(cohort.unit_of_lane[static_cast<std::size_t>(source)]);
      senders[unit].push_back(device(from, source));
      receivers[unit].push_back(device(to, static_cast<std::int32_t>(lane)));
    }
    Traffic traffic;
    for (std::size_t u = 0; u < units; ++u) {
      traffic.of_unit.push_back(topology::pairs_load(low_.fabric, senders[u], receivers[u]));
    }
    return traffic;
  }

  // DualPipe's two copies of a piece: groups that span two stages.
  Traffic pair_traffic(const sim::JoinClass& join) const {
    Traffic traffic;
    traffic.of_unit.resize(1);
    std::map<std::int32_t, std::vector<DeviceId>> groups;
    for (std::size_t m = 0; m < join.cohorts.size(); ++m) {
      for (std::size_t lane = 0; lane < join.group_of_lane[m].size(); ++lane) {
        groups[join.group_of_lane[m][lane]].push_back(
            device(static_cast<std::size_t>(join.cohorts[m]), static_cast<std::int32_t>(lane)));
      }
    }
    for (auto& [id, members] : groups) {
      std::sort(members.begin(), members.end());
      append(traffic.of_unit[0], topology::group_load(low_.fabric, members, topology::TrafficPattern::ring));
    }
    return traffic;
  }

  std::int32_t add(Traffic traffic) {
    traffic_.push_back(std::move(traffic));
    streams_.emplace_back();
    return static_cast<std::int32_t>(traffic_.size()) - 1;
  }

  // The pattern of an instruction, -1 where it loads nothing that is modelled.
  std::int32_t pattern_of(std::size_t c, const sim::Instruction& in) {
    using Key = std::pair<std::size_t, int>;
    const auto once = [&](std::map<Key, std::int32_t>& known, Key key, auto&& make) {
      const auto [found, added] = known.try_emplace(key, -1);
      if (added) found->second = add(make());
      return found->second;
    };
    if (in.op == sim::Opcode::collective) {
      return once(groups_, {c, in.target}, [&] { return group_traffic(c, program_.cohorts[c].groups[in.target]); });
    }
    if (in.op == sim::Opcode::send) {
      return once(channels_, {0, in.target}, [&] { return channel_traffic(program_.channels[in.target]); });
    }
    const bool pair = std::any_of(low_.pair_joins.begin(), low_.pair_joins.end(), [&](const auto& known) {
      return known.second.dense == in.target || known.second.experts == in.target;
    });
    if (!pair) return -1;
    return once(joins_, {0, in.target}, [&] { return pair_traffic(program_.joins[in.target]); });
  }

  void find_patterns(std::size_t c) {
    sim::Cohort& cohort = program_.cohorts[c];
    const auto& cluster = low_.spec.cluster;
    const double nic = cluster.nic_bandwidth.value * cluster.nic_efficiency / ticks_per_second;
    const double nvlink = cluster.nvlink_bandwidth.value / ticks_per_second;
    cohort.uses.resize(cohort.costs.size());
    for (const sim::Body& body : cohort.bodies) {
      for (const sim::Instruction& in : body.instructions) {
        const sim::Work& work = cohort.works[in.work];
        sim::LinkUse& use = cohort.uses[in.cost];
        if (!is_transfer(in) || use.pattern >= 0 || work.wire_bytes + work.wire_per_row <= 0) continue;
        use.pattern = pattern_of(c, in);
        if (use.pattern < 0) continue;
        streams_[static_cast<std::size_t>(use.pattern)].insert(static_cast<int>(in.stream));
        use.nic_ticks = work.wire_bytes * work.nic_share / nic;
        use.nic_ticks_per_row = work.wire_per_row * work.nic_share / nic;
        use.nvlink_ticks = work.wire_bytes * (1 - work.nic_share) / nvlink;
        use.nvlink_ticks_per_row = work.wire_per_row * (1 - work.nic_share) / nvlink;
        owner_.resize(traffic_.size(), static_cast<std::int32_t>(c));
      }
    }
  }

  // Whether flows that can run at the same time could ask for more than the link has.
  [[nodiscard]] bool can_bind(const std::vector<User>& users, double capacity) const {
    std::map<std::tuple<std::int32_t, std::int32_t, int>, double> most;  // by cohort, unit and stream
    for (const User& user : users) {
      const auto p = static_cast<std::size_t>(user.pattern);
      const std::int32_t unit = traffic_[p].of_unit.size() > 1 ? user.list : -1;
      for (const int stream : streams_[p]) {
        double& share = most[{owner_[p], unit, stream}];
        share = std::max(share, std::min(1.0, static_cast<double>(user.nic) + static_cast<double>(user.nvlink)));
      }
    }
    double sum = 0;
    for (const auto& [who, share] : most) sum += share;
    constexpr double rounding = 1e-6;
    return (most.size() > 1 || capacity < 1) && sum > capacity * (1 + rounding);
  }

  void merge() {
    std::map<int, std::vector<User>> users;
    for (std::size_t p = 0; p < traffic_.size(); ++p) {
      for (std::size_t u = 0; u < traffic_[p].of_unit.size(); ++u) {
        std::map<int, topology::LinkLoad> sums;  // two groups of a unit may meet on a link
        for (const topology::LinkLoad& load : traffic_[p].of_unit[u]) {
          topology::LinkLoad& sum = sums[load.link.value];
          sum.nic += load.nic;
          sum.nvlink += load.nvlink;
        }
        for (const auto& [link, load] : sums) {
          users[link].push_back({static_cast<std::int32_t>(p), static_cast<std::int32_t>(u),
                                 static_cast<float>(load.nic), static_cast<float>(load.nvlink)});
        }
      }
      program_.patterns.emplace_back().of_unit.resize(traffic_[p].of_unit.size());
    }
    std::map<std::pair<double, std::vector<User>>, int> merged;
    for (const auto& [link, list] : users) {
      const auto kind = low_.fabric.link(topology::LinkId(link)).kind;
      const bool leaf = kind == topology::LinkKind::leaf_up || kind == topology::LinkKind::leaf_down;
      const double capacity = leaf ? 1 - low_.spec.fabric.background : 1;
      if (!can_bind(list, capacity)) continue;
      if (!merged.try_emplace({capacity, list}, 0).second) continue;
      const auto id = static_cast<std::int32_t>(program_.link_capacity.size());
      program_.link_capacity.push_back(capacity);
      for (const User& user : list) {
        program_.patterns[static_cast<std::size_t>(user.pattern)]
            .of_unit[static_cast<std::size_t>(user.list)]
            .push_back({id, user.nic, user.nvlink});
      }
    }
  }

  void flag(sim::Cohort& cohort) {
    for (sim::Body& body : cohort.bodies) {
      for (sim::Instruction& in : body.instructions) {
        if (!is_transfer(in)) continue;
        const std::int32_t pattern = cohort.uses[in.cost].pattern;
        if (pattern < 0) continue;
        const auto& lists = program_.patterns[static_cast<std::size_t>(pattern)].of_unit;
        if (std::any_of(lists.begin(), lists.end(), [](const auto& l) { return !l.empty(); })) {
          in.flags |= sim::flag_shared;
        }
      }
    }
  }

  Lowering& low_;
  sim::Program& program_;
  std::map<std::pair<std::size_t, int>, std::int32_t> groups_, channels_, joins_;
  std::vector<Traffic> traffic_;        // by pattern
  std::vector<std::set<int>> streams_;  // by pattern
  std::vector<std::int32_t> owner_;     // by pattern: the first cohort that uses it
};

}  // namespace

void mark_units(sim::Program& program) {
  for (sim::Cohort& cohort : program.cohorts) {
    cohort.unit_of_lane = unit_of_lane(cohort, cohort.units);
    if (cohort.units == 1) cohort.unit_of_lane.clear();
  }
  const sim::Cohort& first = program.cohorts.front();
  const bool alike = std::all_of(program.cohorts.begin(), program.cohorts.end(),
                                 [&](const sim::Cohort& c) { return c.unit_of_lane == first.unit_of_lane; });
  for (sim::Cohort& cohort : program.cohorts) {
    if (alike) break;
    cohort.units = 1;
    cohort.unit_of_lane.clear();
  }
}

void mark_network_transfers(sim::Program& program) {
  for (sim::Cohort& cohort : program.cohorts) {
    for (const sim::Body& body : cohort.bodies) {
      for (const sim::Instruction& in : body.instructions) {
        if (is_transfer(in) && cohort.works[in.work].nic_share > 0) cohort.costs[in.cost].noise = sim::NoiseKind::link;
      }
    }
  }
}

void attach_links(Lowering& low) {
  LinkBuilder(low).run();
  const sim::Program& program = low.step.program;
  low.step.assumptions.push_back(
      program.link_capacity.empty()
          ? "fabric.contention on: no two transfers of this layout can overload a link together"
          : fmt::format(
                "fabric.contention on: transfers share {} kinds of links as macro-flows of {} units a stage, {} "
                "routing{}",
                program.link_capacity.size(), program.cohorts.front().units, topology::name(low.spec.cluster.routing),
                low.spec.fabric.background > 0 ? fmt::format(", another job takes {:.0f} % of leaf and spine links",
                                                             100 * low.spec.fabric.background)
                                               : ""));
}

}  // namespace stepcast::parallelism
