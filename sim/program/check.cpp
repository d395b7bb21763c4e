// The invariants of a program that engines rely on.

#include <algorithm>
#include <cstddef>

#include <fmt/core.h>

#include "sim/program/program.h"

namespace stepcast::sim {
namespace {

using Faults = std::vector<std::string>;

bool within(std::int64_t index, std::size_t size) { return index >= 0 && static_cast<std::size_t>(index) < size; }

void check_ranks(const Program& program, Faults& faults) {
  std::vector<int> seen(static_cast<std::size_t>(std::max(0, program.ranks)), 0);
  for (const Cohort& cohort : program.cohorts) {
    if (cohort.ranks.empty()) faults.push_back(fmt::format("cohort '{}' has no ranks", cohort.name));
    for (RankId rank : cohort.ranks) {
      if (!within(rank.value, seen.size())) {
        faults.push_back(fmt::format("cohort '{}': rank {} of {}", cohort.name, rank.value, program.ranks));
      } else if (++seen[static_cast<std::size_t>(rank.value)] == 2) {
        faults.push_back(fmt::format("rank {} is in two places, one of them cohort '{}'", rank.value, cohort.name));
      }
    }
  }
  for (std::size_t r = 0; r < seen.size(); ++r) {
    if (seen[r] == 0) faults.push_back(fmt::format("rank {} is in no cohort", r));
  }
}

void check_costs(const Cohort& cohort, Faults& faults) {
  // Ticks from a double are exact below 2^51 (26 days); one op beyond it is a fault of the caller.
  constexpr double longest = 0x1.0p51;
  for (std::size_t i = 0; i < cohort.costs.size(); ++i) {
    const Cost& c = cohort.costs[i];
    const bool sound = c.base_ticks >= 0 && c.base_ticks < longest && c.per_row_ticks >= 0 &&
                       c.per_row_ticks < longest && c.floor_ticks >= 0 && c.floor_ticks < longest;
    if (!sound) {
      faults.push_back(fmt::format("cohort '{}': cost {} is negative, not a number or above 2^51 ticks: {} {} {}",
                                   cohort.name, i, c.base_ticks, c.per_row_ticks, c.floor_ticks));
    }
  }
  if (cohort.launch_ticks < 0 || cohort.sync_ticks < 0 || cohort.step_host_ticks < 0) {
    faults.push_back(fmt::format("cohort '{}': negative host time", cohort.name));
  }
}

void check_groups(const Cohort& cohort, Faults& faults) {
  for (const GroupClass& group : cohort.groups) {
    std::vector<bool> seen(cohort.ranks.size(), false);
    bool partition = group.group_size >= 1 && group.lanes.size() == cohort.ranks.size() &&
                     group.lanes.size() % static_cast<std::size_t>(group.group_size) == 0;
    for (std::size_t i = 0; partition && i < group.lanes.size(); ++i) {
      partition = within(group.lanes[i], seen.size()) && !seen[static_cast<std::size_t>(group.lanes[i])];
      if (partition) seen[static_cast<std::size_t>(group.lanes[i])] = true;
    }
    if (!partition) {
      faults.push_back(fmt::format("cohort '{}': groups '{}' of {} are no partition of its {} lanes", cohort.name,
                                   group.name, group.group_size, cohort.ranks.size()));
    }
  }
}

// One instruction's references within its cohort and program.
void check_instruction(const Program& program, std::size_t c, const Body& body, std::size_t pc, Faults& faults) {
  const Cohort& cohort = program.cohorts[c];
  const Instruction& in = body.instructions[pc];
  const auto fault = [&](const std::string& what) {
    faults.push_back(fmt::format("cohort '{}', body '{}', instruction {}: {}", cohort.name, body.name, pc, what));
  };
  if (static_cast<unsigned>(in.op) > static_cast<unsigned>(Opcode::join)) return fault("unknown opcode");
  if (static_cast<int>(in.stream) >= stream_count) fault("unknown stream");
  if (in.wait_slot != none16 && in.wait_slot >= cohort.slots) fault(fmt::format("waits for slot {}", in.wait_slot));
  if (in.record_slot != none16 && in.record_slot >= cohort.slots) fault(fmt::format("records slot {}", in.record_slot));
  const bool timed = in.op != Opcode::receive && in.op != Opcode::host_sync;
  if (timed && in.cost >= cohort.costs.size()) fault(fmt::format("cost {}", in.cost));
  if (in.work >= cohort.works.size()) fault(fmt::format("work {}", in.work));
  if (in.load != none16 && in.load >= program.loads) fault(fmt::format("load {} of {}", in.load, program.loads));
  switch (in.op) {
    case Opcode::collective:
      if (in.target >= cohort.groups.size()) fault(fmt::format("group class {}", in.target));
      break;
    case Opcode::send:
    case Opcode::receive: {
      if (in.target >= program.channels.size()) return fault(fmt::format("channel {}", in.target));
      const Channel& channel = program.channels[in.target];
      const std::int32_t end = in.op == Opcode::send ? channel.from : channel.to;
      if (end != static_cast<std::int32_t>(c)) {
        fault(fmt::format("{} on channel '{}', which belongs to cohort {}", name(in.op), channel.name, end));
      }
      break;
    }
    case Opcode::join: {
      if (in.target >= program.joins.size()) return fault(fmt::format("join class {}", in.target));
      bool member = false;
      for (std::int32_t other : program.joins[in.target].cohorts) member |= other == static_cast<std::int32_t>(c);
      if (!member) fault(fmt::format("join '{}' of other cohorts", program.joins[in.target].name));
      break;
    }
    case Opcode::compute:
    case Opcode::host_sync:
      break;
  }
}

void check_calls(const Cohort& cohort, Faults& faults) {
  for (std::size_t i = 0; i < cohort.calls.size(); ++i) {
    const Call& call = cohort.calls[i];
    if (call.body >= cohort.bodies.size()) {
      faults.push_back(fmt::format("cohort '{}': call {} of body {}", cohort.name, i, call.body));
      continue;
    }
    for (const Instruction& in : cohort.bodies[call.body].instructions) {
      const bool second = (in.flags & flag_second_instance) != 0;
      if (in.load != none16 && (second ? call.second_instance : call.instance) < 0) {
        faults.push_back(fmt::format("cohort '{}': call {} of body '{}' has no {}instance, which load {} needs",
                                     cohort.name, i, cohort.bodies[call.body].name, second ? "second " : "", in.load));
        break;
      }
    }
  }
}

// How often the cohort's step executes each target with one opcode.
std::vector<std::int64_t> executions(const Cohort& cohort, Opcode op, std::size_t targets) {
  std::vector<std::int64_t> count(targets, 0);
  for (const Call& call : cohort.calls) {
    for (const Instruction& in : cohort.bodies[call.body].instructions) {
      if (in.op == op) ++count[in.target];
    }
  }
  return count;
}

void check_channel_shape(const Program& program, const Channel& channel, Faults& faults) {
  if (!within(channel.from, program.cohorts.size()) || !within(channel.to, program.cohorts.size())) {
    faults.push_back(fmt::format("channel '{}' from cohort {} to {}", channel.name, channel.from, channel.to));
    return;
  }
  const std::size_t from = program.cohorts[static_cast<std::size_t>(channel.from)].ranks.size();
  const std::size_t to = program.cohorts[static_cast<std::size_t>(channel.to)].ranks.size();
  bool sound = channel.from_lane.empty() ? from == to : channel.from_lane.size() == to;
  for (std::int32_t lane : channel.from_lane) sound = sound && within(lane, from);
  if (!sound) {
    faults.push_back(fmt::format("channel '{}': lanes do not map {} receivers to {} senders", channel.name, to, from));
  }
}

void check_join_shape(const Program& program, const JoinClass& join, Faults& faults) {
  std::vector<bool> seen(program.cohorts.size(), false);
  for (std::int32_t c : join.cohorts) {
    if (!within(c, program.cohorts.size()) || seen[static_cast<std::size_t>(c)]) {
      faults.push_back(fmt::format("join '{}': cohort {} is unknown or named twice", join.name, c));
      return;
    }
    seen[static_cast<std::size_t>(c)] = true;
  }
  if (join.group_of_lane.empty()) return;
  bool sound = join.group_of_lane.size() == join.cohorts.size();
  for (std::size_t m = 0; sound && m < join.cohorts.size(); ++m) {
    sound = join.group_of_lane[m].size() == program.cohorts[static_cast<std::size_t>(join.cohorts[m])].ranks.size();
    for (std::int32_t group : join.group_of_lane[m])
      sound = sound && within(group, static_cast<std::size_t>(program.ranks));
  }
  if (!sound) faults.push_back(fmt::format("join '{}': group_of_lane does not match its cohorts' lanes", join.name));
}

void check_meetings(const Program& program, Faults& faults) {
  std::vector<std::vector<std::int64_t>> sends, receives, joins;
  for (const Cohort& cohort : program.cohorts) {
    sends.push_back(executions(cohort, Opcode::send, program.channels.size()));
    receives.push_back(executions(cohort, Opcode::receive, program.channels.size()));
    joins.push_back(executions(cohort, Opcode::join, program.joins.size()));
  }
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    const Channel& channel = program.channels[i];
    const std::int64_t sent = sends[static_cast<std::size_t>(channel.from)][i];
    const std::int64_t received = receives[static_cast<std::size_t>(channel.to)][i];
    if (sent != received) {
      faults.push_back(fmt::format("channel '{}': {} sends and {} receives a step", channel.name, sent, received));
    }
  }
  for (std::size_t i = 0; i < program.joins.size(); ++i) {
    const JoinClass& join = program.joins[i];
    for (std::int32_t c : join.cohorts) {
      const std::int64_t first = joins[static_cast<std::size_t>(join.cohorts[0])][i];
      const std::int64_t here = joins[static_cast<std::size_t>(c)][i];
      if (here != first) {
        faults.push_back(fmt::format("join '{}': cohort '{}' runs it {} times a step, cohort '{}' {} times", join.name,
                                     program.cohorts[static_cast<std::size_t>(c)].name, here,
                                     program.cohorts[static_cast<std::size_t>(join.cohorts[0])].name, first));
      }
    }
  }
}

// Parts name places of their list and links of it.
bool sound(const LinkParts& cut, std::size_t links, std::size_t lanes) {
  const auto below = [](std::int32_t i, std::size_t n) { return i >= 0 && static_cast<std::size_t>(i) < n; };
  for (const auto& place : cut.places) {
    if (!std::all_of(place.begin(), place.end(), [&](std::int32_t lane) { return below(lane, lanes); })) return false;
  }
  return std::all_of(cut.parts.begin(), cut.parts.end(), [&](const LinkParts::Part& part) {
    return below(part.out, cut.places.size()) && below(part.in, cut.places.size()) && part.even >= 0 &&
           std::all_of(part.loads.begin(), part.loads.end(), [&](const auto& load) { return below(load.at, links); });
  });
}

bool sound_parts(const LinkPattern& pattern, std::size_t lanes) {
  for (const auto* cuts : {&pattern.boxes, &pattern.nics}) {
    if (!cuts->empty() && cuts->size() != pattern.of_unit.size()) return false;
    for (std::size_t u = 0; u < cuts->size(); ++u) {
      if (!sound((*cuts)[u], pattern.of_unit[u].size(), lanes)) return false;
    }
  }
  return true;
}

// Units partition the lanes; shared instructions have a use whose pattern fits their unit.
void check_sharing(const Program& program, const Cohort& cohort, Faults& faults) {
  const auto fail = [&](const char* what) { faults.push_back(fmt::format("cohort '{}': {}", cohort.name, what)); };
  const bool whole = cohort.unit_of_lane.empty() && cohort.units == 1;
  if (!whole && cohort.unit_of_lane.size() != cohort.ranks.size()) fail("unit_of_lane does not match its lanes");
  for (std::int32_t unit : cohort.unit_of_lane) {
    if (unit < 0 || unit >= cohort.units) return fail("a unit out of range");
  }
  for (const Body& body : cohort.bodies) {
    for (const Instruction& in : body.instructions) {
      if ((in.flags & flag_shared) == 0) continue;
      if (in.cost >= cohort.uses.size()) return fail("a shared instruction without a link use");
      const std::int32_t p = cohort.uses[in.cost].pattern;
      if (p < 0 || static_cast<std::size_t>(p) >= program.patterns.size()) return fail("a link use without a pattern");
      const auto& lists = program.patterns[static_cast<std::size_t>(p)].of_unit;
      if (lists.size() != 1 && lists.size() != static_cast<std::size_t>(cohort.units)) {
        return fail("a link pattern that does not match the units");
      }
      if (!sound_parts(program.patterns[static_cast<std::size_t>(p)], cohort.ranks.size())) {
        return fail("a link pattern cut into parts that it does not have");
      }
      for (const auto& list : lists) {
        for (const LinkShare& share : list) {
          if (share.link < 0 || static_cast<std::size_t>(share.link) >= program.link_capacity.size()) {
            return fail("a link out of range");
          }
        }
      }
    }
  }
}

}  // namespace

std::vector<std::string> check(const Program& program) {
  Faults faults;
  check_ranks(program, faults);
  for (const Channel& channel : program.channels) check_channel_shape(program, channel, faults);
  for (const JoinClass& join : program.joins) check_join_shape(program, join, faults);
  for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
    const Cohort& cohort = program.cohorts[c];
    check_costs(cohort, faults);
    check_groups(cohort, faults);
    for (const Body& body : cohort.bodies) {
      for (std::size_t pc = 0; pc < body.instructions.size(); ++pc) check_instruction(program, c, body, pc, faults);
    }
    check_calls(cohort, faults);
    if (faults.empty()) check_sharing(program, cohort, faults);
  }
  if (faults.empty()) check_meetings(program, faults);  // counts through references that are now known to hold
  return faults;
}

}  // namespace stepcast::sim
