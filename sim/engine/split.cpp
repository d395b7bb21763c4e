#include "sim/engine/split.h"

#include <algorithm>

#include <fmt/core.h>

#include "sim/base/error.h"

namespace stepcast::sim {
namespace {

std::int32_t unit_of(const Cohort& cohort, std::size_t lane) {
  return cohort.unit_of_lane.empty() ? 0 : cohort.unit_of_lane[lane];
}

// Unit of the sending cohort from which each unit of the receiving one takes its messages; empty: from several.
std::vector<std::int32_t> senders(const Program& program, const Channel& channel) {
  const Cohort& from = program.cohorts[static_cast<std::size_t>(channel.from)];
  const Cohort& to = program.cohorts[static_cast<std::size_t>(channel.to)];
  std::vector<std::int32_t> sender(static_cast<std::size_t>(to.units), -1);
  for (std::size_t lane = 0; lane < to.ranks.size(); ++lane) {
    const std::size_t source = channel.from_lane.empty() ? lane : static_cast<std::size_t>(channel.from_lane[lane]);
    std::int32_t& known = sender[static_cast<std::size_t>(unit_of(to, lane))];
    const std::int32_t unit = unit_of(from, source);
    if (known >= 0 && known != unit) return {};
    known = unit;
  }
  return sender;
}

class Splitter {
 public:
  explicit Splitter(const Program& program) : program_(program) {}

  SplitProgram run() && {
    out_.program.ranks = program_.ranks;
    out_.program.loads = program_.loads;
    out_.program.link_capacity = program_.link_capacity;
    for (std::size_t c = 0; c < program_.cohorts.size(); ++c) place(c);
    add_joins();
    add_channels();
    for (std::size_t i = 0; i < out_.origins.size(); ++i) out_.program.cohorts.push_back(unit(i));
    return std::move(out_);
  }

 private:
  void place(std::size_t c) {
    const Cohort& cohort = program_.cohorts[c];
    first_.push_back(out_.origins.size());
    lane_in_unit_.emplace_back(cohort.ranks.size());
    int unit = 0;
    for (auto& lanes : lanes_by_unit(cohort)) {
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        lane_in_unit_.back()[static_cast<std::size_t>(lanes[i])] = static_cast<std::int32_t>(i);
      }
      out_.origins.push_back({static_cast<int>(c), unit++, std::move(lanes)});
    }
  }

  // The original's joins keep their numbers; collectives that span units follow.
  void add_joins() {
    for (const JoinClass& join : program_.joins) {
      JoinClass j;
      j.name = join.name;
      for (std::size_t m = 0; m < join.cohorts.size(); ++m) {
        const auto c = static_cast<std::size_t>(join.cohorts[m]);
        for (int u = 0; u < program_.cohorts[c].units; ++u) {
          const std::size_t at = first_[c] + static_cast<std::size_t>(u);
          j.cohorts.push_back(static_cast<std::int32_t>(at));
          if (join.group_of_lane.empty()) continue;
          auto& groups = j.group_of_lane.emplace_back();
          for (const std::int32_t lane : out_.origins[at].lanes) {
            groups.push_back(join.group_of_lane[m][static_cast<std::size_t>(lane)]);
          }
        }
      }
      out_.program.joins.push_back(std::move(j));
    }
    for (std::size_t c = 0; c < program_.cohorts.size(); ++c) {
      auto& joins = out_.join_of_group.emplace_back();
      for (const GroupClass& group : program_.cohorts[c].groups) {
        joins.push_back(inside_units(program_.cohorts[c], group) ? -1 : add_join(c, group));
      }
    }
  }

  int add_join(std::size_t c, const GroupClass& group) {
    const Cohort& cohort = program_.cohorts[c];
    std::vector<std::int32_t> group_of_lane(cohort.ranks.size());
    for (std::size_t i = 0; i < group.lanes.size(); ++i) {
      group_of_lane[static_cast<std::size_t>(group.lanes[i])] =
          static_cast<std::int32_t>(i / static_cast<std::size_t>(group.group_size));
    }
    JoinClass j;
    j.name = group.name;
    for (int u = 0; u < cohort.units; ++u) {
      const std::size_t at = first_[c] + static_cast<std::size_t>(u);
      j.cohorts.push_back(static_cast<std::int32_t>(at));
      auto& groups = j.group_of_lane.emplace_back();
      for (const std::int32_t lane : out_.origins[at].lanes) {
        groups.push_back(group_of_lane[static_cast<std::size_t>(lane)]);
      }
    }
    out_.program.joins.push_back(std::move(j));
    return static_cast<int>(out_.program.joins.size()) - 1;
  }

  void add_channels() {
    channel_of_.resize(program_.channels.size());
    for (std::size_t i = 0; i < program_.channels.size(); ++i) {
      const Channel& channel = program_.channels[i];
      const auto from = static_cast<std::size_t>(channel.from);
      const auto to = static_cast<std::size_t>(channel.to);
      const std::vector<std::int32_t> sender = senders(program_, channel);
      for (int u = 0; u < program_.cohorts[to].units; ++u) {
        const std::size_t receiver = first_[to] + static_cast<std::size_t>(u);
        Channel c;
        c.name = channel.name;
        c.to = static_cast<std::int32_t>(receiver);
        const std::int32_t from_unit = sender[static_cast<std::size_t>(u)];
        c.from = static_cast<std::int32_t>(first_[from] + static_cast<std::size_t>(from_unit));
        for (const std::int32_t lane : out_.origins[receiver].lanes) {
          const std::int32_t source =
              channel.from_lane.empty() ? lane : channel.from_lane[static_cast<std::size_t>(lane)];
          c.from_lane.push_back(lane_in_unit_[from][static_cast<std::size_t>(source)]);
        }
        channel_of_[i].push_back({from_unit, u, static_cast<int>(out_.program.channels.size())});
        out_.program.channels.push_back(std::move(c));
      }
    }
  }

  Cohort unit(std::size_t i) const {
    const SplitProgram::Origin& origin = out_.origins[i];
    const auto c = static_cast<std::size_t>(origin.cohort);
    const Cohort& cohort = program_.cohorts[c];
    Cohort u;
    u.name = cohort.units > 1 ? fmt::format("{} unit {}", cohort.name, origin.unit) : cohort.name;
    for (const std::int32_t lane : origin.lanes) u.ranks.push_back(cohort.ranks[static_cast<std::size_t>(lane)]);
    u.calls = cohort.calls;
    u.costs = cohort.costs;
    u.uses = cohort.uses;
    u.works.resize(1);
    u.slots = cohort.slots;
    u.launch_ticks = cohort.launch_ticks;
    u.sync_ticks = cohort.sync_ticks;
    u.step_host_ticks = cohort.step_host_ticks;
    std::vector<std::uint16_t> new_index;
    for (std::size_t g = 0; g < cohort.groups.size(); ++g) {
      new_index.push_back(static_cast<std::uint16_t>(u.groups.size()));
      if (out_.join_of_group[c][g] < 0) u.groups.push_back(part(cohort, cohort.groups[g], origin, c));
    }
    for (const Body& body : cohort.bodies) {
      Body b;
      b.name = body.name;
      b.instructions.reserve(body.instructions.size());
      for (const Instruction& in : body.instructions) append(b.instructions, in, origin, new_index);
      u.bodies.push_back(std::move(b));
    }
    return u;
  }

  GroupClass part(const Cohort& cohort, const GroupClass& group, const SplitProgram::Origin& origin,
                  std::size_t c) const {
    GroupClass g;
    g.name = group.name;
    g.group_size = group.group_size;
    for (const std::int32_t lane : group.lanes) {
      if (unit_of(cohort, static_cast<std::size_t>(lane)) == origin.unit) {
        g.lanes.push_back(lane_in_unit_[c][static_cast<std::size_t>(lane)]);
      }
    }
    return g;
  }

  void append(std::vector<Instruction>& code, Instruction in, const SplitProgram::Origin& origin,
              const std::vector<std::uint16_t>& new_index) const {
    in.work = 0;
    if (in.op == Opcode::collective) {
      const int join = out_.join_of_group[static_cast<std::size_t>(origin.cohort)][in.target];
      if (join >= 0) in.op = Opcode::join;
      in.target = join >= 0 ? static_cast<std::uint16_t>(join) : new_index[in.target];
    } else if (in.op == Opcode::send || in.op == Opcode::receive) {
      for (const Piece& piece : channel_of_[in.target]) {
        if ((in.op == Opcode::send ? piece.from : piece.to) != origin.unit) continue;
        in.target = static_cast<std::uint16_t>(piece.channel);
        break;
      }
    }
    code.push_back(in);
  }

  struct Piece {
    std::int32_t from, to;  // units
    int channel;
  };
  const Program& program_;
  SplitProgram out_;
  std::vector<std::size_t> first_;                       // by cohort: its unit 0 among the new cohorts
  std::vector<std::vector<std::int32_t>> lane_in_unit_;  // by cohort and lane
  std::vector<std::vector<Piece>> channel_of_;
};

}  // namespace

bool inside_units(const Cohort& cohort, const GroupClass& group) {
  if (cohort.units == 1) return true;
  const auto size = static_cast<std::size_t>(group.group_size);
  for (std::size_t i = 0; i < group.lanes.size(); ++i) {
    const auto first = static_cast<std::size_t>(group.lanes[i / size * size]);
    if (unit_of(cohort, first) != unit_of(cohort, static_cast<std::size_t>(group.lanes[i]))) return false;
  }
  return true;
}

std::vector<std::vector<std::int32_t>> lanes_by_unit(const Cohort& cohort) {
  std::vector<std::vector<std::int32_t>> lanes(static_cast<std::size_t>(cohort.units));
  for (std::size_t i = 0; i < cohort.ranks.size(); ++i) {
    lanes[static_cast<std::size_t>(unit_of(cohort, i))].push_back(static_cast<std::int32_t>(i));
  }
  return lanes;
}

bool separable(const Program& program) {
  std::size_t channels = 0;
  std::size_t joins = program.joins.size();
  for (const Cohort& cohort : program.cohorts) {
    for (const auto& lanes : lanes_by_unit(cohort)) {
      if (lanes.empty()) return false;
    }
    joins += cohort.units > 1 ? cohort.groups.size() : 0;
  }
  for (const Channel& channel : program.channels) {
    const std::vector<std::int32_t> sender = senders(program, channel);
    if (sender.empty()) return false;
    // A unit's send becomes one channel: every unit has one receiver.
    const Cohort& from = program.cohorts[static_cast<std::size_t>(channel.from)];
    std::vector<int> receivers(static_cast<std::size_t>(from.units), 0);
    for (const std::int32_t unit : sender) {
      if (unit < 0 || ++receivers[static_cast<std::size_t>(unit)] > 1) return false;
    }
    if (std::find(receivers.begin(), receivers.end(), 0) != receivers.end()) return false;
    channels += sender.size();
  }
  return channels < none16 && joins < none16;
}

SplitProgram split_units(const Program& program) { return Splitter(program).run(); }

void UnitLoads::rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const {
  const SplitProgram::Origin& origin = split_->origins[static_cast<std::size_t>(cohort)];
  const std::size_t all = original_->cohorts[static_cast<std::size_t>(origin.cohort)].ranks.size();
  if (origin.lanes.size() == all) {  // lanes of one unit keep their order
    source_->rows(step, load, origin.cohort, instance, rows);
  } else {
    source_->rows_of(step, load, origin.cohort, instance, all, origin.lanes, rows);
  }
}

}  // namespace stepcast::sim
