#include "sim/record/dependencies.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace stepcast::sim {
namespace {

constexpr std::uint32_t no_op = 0xffffffffU;

// Meets ops that belong together: equal keys are the same message or the same execution of a collective.
struct Meeting {
  std::uint32_t kind;       // 0 collective, 1 join, 2 message
  std::uint32_t space;      // cohort of a collective, else 0
  std::uint32_t target;     // group class, join class or channel
  std::uint32_t group;      // group; sending lane
  std::uint64_t execution;  // ordinal in the step; k-th of the target
  std::uint32_t op;
  [[nodiscard]] auto key() const { return std::tie(kind, space, target, group, execution); }
};

// Lane of each rank, and the group of each lane.
class Places {
 public:
  explicit Places(const Program& program) : program_(program), lane_(static_cast<std::size_t>(program.ranks)) {
    for (const Cohort& cohort : program.cohorts) {
      for (std::size_t l = 0; l < cohort.ranks.size(); ++l) {
        lane_[static_cast<std::size_t>(cohort.ranks[l].value)] = static_cast<std::uint32_t>(l);
      }
      std::vector<std::vector<std::uint32_t>>& groups = group_.emplace_back();
      for (const GroupClass& g : cohort.groups) {
        std::vector<std::uint32_t>& of_lane = groups.emplace_back(g.lanes.size());
        for (std::size_t i = 0; i < g.lanes.size(); ++i) {
          of_lane[static_cast<std::size_t>(g.lanes[i])] =
              static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(g.group_size);
        }
      }
    }
  }
  [[nodiscard]] std::uint32_t lane(RankId rank) const { return lane_[static_cast<std::size_t>(rank.value)]; }
  [[nodiscard]] std::uint32_t group(const TimelineOp& op, std::uint16_t target) const {
    return group_[static_cast<std::size_t>(op.cohort)][target][lane(op.rank)];
  }
  [[nodiscard]] std::uint32_t join_group(const TimelineOp& op, std::uint16_t target) const {
    const JoinClass& join = program_.joins[target];
    if (join.group_of_lane.empty()) return 0;
    const auto member = std::find(join.cohorts.begin(), join.cohorts.end(), op.cohort) - join.cohorts.begin();
    return static_cast<std::uint32_t>(join.group_of_lane[static_cast<std::size_t>(member)][lane(op.rank)]);
  }

 private:
  const Program& program_;
  std::vector<std::uint32_t> lane_;
  std::vector<std::vector<std::vector<std::uint32_t>>> group_;  // by cohort, class and lane
};

class Finder {
 public:
  Finder(const Program& program, const Timeline& timeline) : program_(program), timeline_(timeline), places_(program) {}

  std::vector<Dependency> run() {
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      if (i == 0 || timeline_.ops[i].rank != timeline_.ops[i - 1].rank) begin_rank(timeline_.ops[i]);
      within_rank(i);
      meet(i);
    }
    between_ranks();
    const auto order = [](const Dependency& a, const Dependency& b) {
      return std::tie(a.to, a.from, a.kind) < std::tie(b.to, b.from, b.kind);
    };
    std::sort(found_.begin(), found_.end(), order);
    return std::move(found_);
  }

 private:
  void begin_rank(const TimelineOp& op) {
    tail_.fill(no_op);
    slot_.assign(static_cast<std::size_t>(program_.cohorts[static_cast<std::size_t>(op.cohort)].slots), no_op);
    host_ = no_op;
    messages_.assign(program_.channels.size(), 0);
    joins_.assign(program_.joins.size(), 0);
  }

  void add(Dependency::Kind kind, std::uint32_t from, std::uint32_t to) {
    if (from != no_op) found_.push_back({kind, from, to});
  }

  void within_rank(std::uint32_t i) {
    const Instruction& in = instruction_of(program_, timeline_.ops[i]);
    const bool sync = in.op == Opcode::host_sync;
    if (!sync) add(Dependency::Kind::stream, tail_[static_cast<std::size_t>(in.stream)], i);
    for (std::size_t s = 0; s < stream_count; ++s) {
      const bool own = !sync && s == static_cast<std::size_t>(in.stream);
      if ((in.wait_streams >> s & 1U) != 0 && !own) add(Dependency::Kind::wait, tail_[s], i);
    }
    if (in.wait_slot != none16) add(Dependency::Kind::wait, slot_[in.wait_slot], i);
    if (sync || (in.flags & flag_no_launch) == 0) add(Dependency::Kind::host, host_, i);
    if (sync) {
      host_ = i;
    } else {
      tail_[static_cast<std::size_t>(in.stream)] = i;
    }
    if (in.record_slot != none16) slot_[in.record_slot] = i;
  }

  void meet(std::uint32_t i) {
    const TimelineOp& op = timeline_.ops[i];
    const Instruction& in = instruction_of(program_, op);
    const auto cohort = static_cast<std::uint32_t>(op.cohort);
    switch (in.op) {
      case Opcode::collective:
        meetings_.push_back({0, cohort, in.target, places_.group(op, in.target), op.ordinal, i});
        break;
      case Opcode::join:
        meetings_.push_back({1, 0, in.target, places_.join_group(op, in.target), joins_[in.target]++, i});
        break;
      case Opcode::send:
        meetings_.push_back({2, 0, in.target, places_.lane(op.rank), messages_[in.target]++, i});
        break;
      case Opcode::receive: {
        const std::vector<std::int32_t>& from = program_.channels[in.target].from_lane;
        const std::uint32_t lane = places_.lane(op.rank);
        const std::uint32_t sender = from.empty() ? lane : static_cast<std::uint32_t>(from[lane]);
        meetings_.push_back({2, 0, in.target, sender, messages_[in.target]++, i});
        break;
      }
      case Opcode::compute:
      case Opcode::host_sync:
        break;
    }
  }

  void between_ranks() {
    std::sort(meetings_.begin(), meetings_.end(),
              [](const Meeting& a, const Meeting& b) { return a.key() != b.key() ? a.key() < b.key() : a.op < b.op; });
    for (std::size_t first = 0, last = 0; first < meetings_.size(); first = last) {
      while (last < meetings_.size() && meetings_[last].key() == meetings_[first].key()) ++last;
      const bool message = meetings_[first].kind == 2;
      std::uint32_t cause = no_op;
      for (std::size_t m = first; m < last; ++m) {
        const TimelineOp& op = timeline_.ops[meetings_[m].op];
        if (message) {
          if (instruction_of(program_, op).op == Opcode::send) cause = meetings_[m].op;
        } else if (cause == no_op || op.ready > timeline_.ops[cause].ready) {
          cause = meetings_[m].op;
        }
      }
      for (std::size_t m = first; m < last; ++m) {
        if (meetings_[m].op == cause) continue;
        add(message ? Dependency::Kind::message : Dependency::Kind::group, cause, meetings_[m].op);
      }
    }
  }

  const Program& program_;
  const Timeline& timeline_;
  Places places_;
  std::array<std::uint32_t, stream_count> tail_{};
  std::vector<std::uint32_t> slot_;
  std::uint32_t host_ = no_op;
  std::vector<std::uint64_t> messages_, joins_;  // executed by the rank at hand
  std::vector<Meeting> meetings_;
  std::vector<Dependency> found_;
};

}  // namespace

const char* name(Dependency::Kind kind) {
  static constexpr std::array<const char*, 5> names = {"stream", "wait", "host", "message", "group"};
  return names[static_cast<std::size_t>(kind)];
}

const Instruction& instruction_of(const Program& program, const TimelineOp& op) {
  const Cohort& cohort = program.cohorts[static_cast<std::size_t>(op.cohort)];
  const Body& body = cohort.bodies[cohort.calls[static_cast<std::size_t>(op.call)].body];
  return body.instructions[static_cast<std::size_t>(op.pc)];
}

const Work& work_of(const Program& program, const TimelineOp& op) {
  return program.cohorts[static_cast<std::size_t>(op.cohort)].works[instruction_of(program, op).work];
}

std::vector<Dependency> dependencies(const Program& program, const Timeline& timeline) {
  return Finder(program, timeline).run();
}

}  // namespace stepcast::sim
