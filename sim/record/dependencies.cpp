#include "sim/record/dependencies.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "sim/record/meetings.h"

namespace stepcast::sim {
namespace {

constexpr std::uint32_t no_op = 0xffffffffU;

// Equal keys are the same message or the same execution of a collective.
struct Member {
  Meeting meeting;
  std::uint32_t op;
  friend auto operator<=>(const Member&, const Member&) = default;
};

class Finder {
 public:
  Finder(const Program& program, const Timeline& timeline) : program_(program), timeline_(timeline) {}

  std::vector<Dependency> run() {
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      if (i == 0 || timeline_.ops[i].rank != timeline_.ops[i - 1].rank) begin_rank(timeline_.ops[i]);
      within_rank(i);
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

  void between_ranks() {
    const std::vector<Meeting> of_op = meetings(program_, timeline_);
    std::vector<Member> all;
    for (std::uint32_t i = 0; i < of_op.size(); ++i) {
      if (of_op[i].kind != Meeting::Kind::none) all.push_back({of_op[i], i});
    }
    std::sort(all.begin(), all.end());
    for (std::size_t first = 0, last = 0; first < all.size(); first = last) {
      while (last < all.size() && all[last].meeting == all[first].meeting) ++last;
      const bool message = all[first].meeting.kind == Meeting::Kind::message;
      std::uint32_t cause = no_op;
      for (std::size_t m = first; m < last; ++m) {
        const TimelineOp& op = timeline_.ops[all[m].op];
        if (message) {
          if (instruction_of(program_, op).op == Opcode::send) cause = all[m].op;
        } else if (cause == no_op || op.ready > timeline_.ops[cause].ready) {
          cause = all[m].op;
        }
      }
      for (std::size_t m = first; m < last; ++m) {
        if (all[m].op == cause) continue;
        add(message ? Dependency::Kind::message : Dependency::Kind::group, cause, all[m].op);
      }
    }
  }

  const Program& program_;
  const Timeline& timeline_;
  std::array<std::uint32_t, stream_count> tail_{};
  std::vector<std::uint32_t> slot_;
  std::uint32_t host_ = no_op;
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
