#include "parallelism/lowering/links.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "parallelism/lowering/link_traffic.h"

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

// Who may load a link at the same time as others: operations of one unit on one stream follow each other.
struct User {
  std::int32_t pattern, list;
  float nic, nvlink;
  friend auto operator<=>(const User&, const User&) = default;
};

// The same for a part of a list that is cut.
struct PartUser {
  sim::FlowLevel level;
  std::int32_t pattern, list, part;
  float nic, nvlink;
  friend auto operator<=>(const PartUser&, const PartUser&) = default;
};

// What makes links one: nothing tells them apart.
struct LinkClass {
  double capacity = 1;
  sim::LinkKind kind = sim::LinkKind::nic;
  std::vector<User> users;
  std::vector<PartUser> parts;
  friend auto operator<=>(const LinkClass&, const LinkClass&) = default;
};

sim::LinkKind kind_of(topology::LinkKind kind, bool hashed) {
  switch (kind) {
    case topology::LinkKind::leaf_up:
    case topology::LinkKind::leaf_down:
      return hashed ? sim::LinkKind::hashed_uplink : sim::LinkKind::uplink;
    case topology::LinkKind::nic_up:
    case topology::LinkKind::nic_down:
      return sim::LinkKind::nic;
    default:
      return sim::LinkKind::nvlink;
  }
}

// What the engine cuts by itself costs some 0.1 ms an operation at this size and grows faster than the fabric, because
// the parts of more units meet on an uplink.
constexpr int most_devices_cut = 256;

// Whether uplinks can fill up before the NICs under them: narrow ones, or hashed ones.
bool narrow(const StepSpec& spec) {
  return spec.cluster.routing == topology::Routing::hashed || spec.cluster.oversubscription > 1 ||
         spec.fabric.background > 0;
}

bool cuts(const StepSpec& spec, sim::FlowLevel level) {
  if (spec.fabric.level) return *spec.fabric.level == level;
  return narrow(spec) && spec.cluster.devices <= most_devices_cut;
}

class LinkBuilder {
 public:
  explicit LinkBuilder(Lowering& low)
      : low_(low),
        program_(low.step.program),
        finder_(low, cuts(low.spec, sim::FlowLevel::box), cuts(low.spec, sim::FlowLevel::nic)) {}

  void run() {
    for (std::size_t c = 0; c < program_.cohorts.size(); ++c) find_patterns(c);
    merge();
    for (sim::Cohort& cohort : program_.cohorts) flag(cohort);
  }

 private:
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
      return once(groups_, {c, in.target}, [&] { return finder_.of_group(c, program_.cohorts[c].groups[in.target]); });
    }
    if (in.op == sim::Opcode::send) {
      return once(channels_, {0, in.target}, [&] { return finder_.of_channel(program_.channels[in.target]); });
    }
    const bool pair = std::any_of(low_.pair_joins.begin(), low_.pair_joins.end(), [&](const auto& known) {
      return known.second.dense == in.target || known.second.experts == in.target;
    });
    if (!pair) return -1;
    return once(joins_, {0, in.target}, [&] { return finder_.of_pair(program_.joins[in.target]); });
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
        use.rows_leave = work.collective == "combine";
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

  static bool is_uplink(sim::LinkKind kind) {
    return kind == sim::LinkKind::uplink || kind == sim::LinkKind::hashed_uplink;
  }

  // What each link of the fabric carries, by link.
  [[nodiscard]] std::map<int, LinkClass> find_users() const {
    std::map<int, LinkClass> links;
    for (std::size_t p = 0; p < traffic_.size(); ++p) {
      for (std::size_t u = 0; u < traffic_[p].of_unit.size(); ++u) {
        std::map<int, topology::LinkLoad> sums;  // two groups of a unit may meet on a link
        for (const topology::LinkLoad& load : traffic_[p].of_unit[u]) {
          topology::LinkLoad& sum = sums[load.link.value];
          sum.nic += load.nic;
          sum.nvlink += load.nvlink;
        }
        for (const auto& [link, load] : sums) {
          links[link].users.push_back({static_cast<std::int32_t>(p), static_cast<std::int32_t>(u),
                                       static_cast<float>(load.nic), static_cast<float>(load.nvlink)});
        }
      }
      add_part_users(p, sim::FlowLevel::box, traffic_[p].boxes, links);
      add_part_users(p, sim::FlowLevel::nic, traffic_[p].nics, links);
    }
    return links;
  }

  // Where the engine chooses levels it looks at uplinks; that parts differ on NICs would keep NICs apart.
  void add_part_users(std::size_t pattern, sim::FlowLevel level, const std::vector<CutTraffic>& cuts,
                      std::map<int, LinkClass>& links) const {
    const auto loads = [&](topology::LinkId link) { return low_.spec.fabric.level || is_uplink(kind(link)); };
    for (std::size_t u = 0; u < cuts.size(); ++u) {
      for (std::size_t i = 0; i < cuts[u].parts.size(); ++i) {
        for (const topology::LinkLoad& load : cuts[u].parts[i].links) {
          if (!loads(load.link)) continue;
          links[load.link.value].parts.push_back({level, static_cast<std::int32_t>(pattern),
                                                  static_cast<std::int32_t>(u), static_cast<std::int32_t>(i),
                                                  static_cast<float>(load.nic), static_cast<float>(load.nvlink)});
        }
      }
    }
  }

  [[nodiscard]] sim::LinkKind kind(topology::LinkId link) const {
    return kind_of(low_.fabric.link(link).kind, low_.spec.cluster.routing == topology::Routing::hashed);
  }

  // The parts without their links.
  static std::vector<sim::LinkParts> parts_of(const std::vector<CutTraffic>& cuts) {
    std::vector<sim::LinkParts> lists;
    for (const CutTraffic& cut : cuts) {
      sim::LinkParts& parts = lists.emplace_back();
      parts.places = cut.places;
      for (const CutTraffic::Part& part : cut.parts) parts.parts.push_back({part.out, part.in, part.even, {}});
    }
    return lists;
  }

  void merge() {
    const bool chooses = !low_.spec.fabric.level;  // else a link's kind changes nothing
    for (const Traffic& traffic : traffic_) {
      sim::LinkPattern& pattern = program_.patterns.emplace_back();
      pattern.of_unit.resize(traffic.of_unit.size());
      pattern.boxes = parts_of(traffic.boxes);
      pattern.nics = parts_of(traffic.nics);
    }
    std::set<LinkClass> merged;
    for (auto& [link, found] : find_users()) {
      const sim::LinkKind of = kind(topology::LinkId(link));
      found.capacity = is_uplink(of) ? 1 - low_.spec.fabric.background : 1;
      if (chooses) found.kind = of;
      if (!can_bind(found.users, found.capacity)) continue;
      const auto [at, added] = merged.insert(std::move(found));
      if (!added) continue;
      add_link(*at);
      if (chooses) program_.flow_rule.kinds.push_back(of);
    }
    program_.flow_rule.level = low_.spec.fabric.level;
  }

  void add_link(const LinkClass& link) {
    const auto id = static_cast<std::int32_t>(program_.link_capacity.size());
    program_.link_capacity.push_back(link.capacity);
    const auto pattern = [&](std::int32_t p) -> sim::LinkPattern& {
      return program_.patterns[static_cast<std::size_t>(p)];
    };
    for (const User& user : link.users) {
      pattern(user.pattern).of_unit[static_cast<std::size_t>(user.list)].push_back({id, user.nic, user.nvlink});
    }
    for (const PartUser& user : link.parts) {
      sim::LinkPattern& of = pattern(user.pattern);
      const auto list = static_cast<std::size_t>(user.list);
      sim::LinkParts& parts = (user.level == sim::FlowLevel::box ? of.boxes : of.nics)[list];
      const auto at = static_cast<std::int32_t>(of.of_unit[list].size()) - 1;
      parts.parts[static_cast<std::size_t>(user.part)].loads.push_back({at, user.nic, user.nvlink});
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
  TrafficFinder finder_;
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

namespace {

std::string level_text(const StepSpec& spec) {
  if (!spec.fabric.level) {
    if (!narrow(spec)) return "as macro-flows, since no uplink fills before its NICs";
    if (cuts(spec, sim::FlowLevel::box)) return "as macro-flows that are cut where they are slowed and members differ";
    return fmt::format("as macro-flows, since with more than {} devices only fabric.flow_level cuts them",
                       most_devices_cut);
  }
  switch (*spec.fabric.level) {
    case sim::FlowLevel::macro:
      return "as macro-flows";
    case sim::FlowLevel::box:
      return "exchanges as a flow a box pair from their begin";
    case sim::FlowLevel::nic:
      return "as a flow a NIC pair or ring from their begin";
  }
  return "";
}

}  // namespace

void attach_links(Lowering& low) {
  LinkBuilder(low).run();
  const sim::Program& program = low.step.program;
  low.step.assumptions.push_back(
      program.link_capacity.empty()
          ? "fabric.contention on: no two transfers of this layout can overload a link together"
          : fmt::format("fabric.contention on: transfers of {} units a stage share {} kinds of links, {}, {} routing{}",
                        program.cohorts.front().units, program.link_capacity.size(), level_text(low.spec),
                        topology::name(low.spec.cluster.routing),
                        low.spec.fabric.background > 0
                            ? fmt::format(", another job takes {:.0f} % of leaf and spine links",
                                          100 * low.spec.fabric.background)
                            : ""));
}

}  // namespace stepcast::parallelism
