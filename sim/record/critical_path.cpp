#include "sim/record/critical_path.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "sim/record/predecessors.h"
#include "sim/record/recorded_calls.h"

namespace stepcast::sim {
namespace {

using Place = Replay::Place;

// What bound a time: an op of this step, the host, or an op of the step before on `stream`.
struct Input {
  enum class Kind : std::uint8_t { op, host, before_step } kind = Kind::before_step;
  Place place;
  Stream stream = Stream::compute;
};

class Walk {
 public:
  Walk(const Program& program, const Labels& labels, const Replay& replay, Ticks step_begin)
      : program_(program),
        labels_(labels),
        replay_(replay),
        step_begin_(step_begin),
        predecessors_(program),
        calls_(program, replay) {}

  CriticalPath run() {
    now_ = replay_.result().step_end.back();
    start();
    while (now_ > step_begin_) follow();
    std::reverse(path_.hops.begin(), path_.hops.end());
    return std::move(path_);
  }

 private:
  [[nodiscard]] const Cohort& cohort() const { return program_.cohorts[static_cast<std::size_t>(place_.cohort)]; }
  [[nodiscard]] const Instruction& instruction(const Place& p) const {
    const Cohort& c = program_.cohorts[static_cast<std::size_t>(p.cohort)];
    return c.bodies[c.calls[static_cast<std::size_t>(p.call)].body].instructions[static_cast<std::size_t>(p.pc)];
  }

  // The first rank whose step ends last, at the place behind its last call.
  void start() {
    for (std::size_t c = 0; c < program_.cohorts.size(); ++c) {
      const Cohort& cohort = program_.cohorts[c];
      for (std::size_t l = 0; l < cohort.ranks.size(); ++l) {
        if (replay_.result().rank_end[static_cast<std::size_t>(cohort.ranks[l].value)] != now_) continue;
        place_ = {static_cast<std::int32_t>(c), static_cast<std::int32_t>(cohort.calls.size()), 0};
        lane_ = l;
        const auto streams = static_cast<std::uint8_t>(0xff & ~(bit(Stream::dp) | bit(Stream::copy)));
        to_input(find_input(streams, none16, now_, true), false);
        return;
      }
    }
    STEPCAST_ASSERT(false);  // some rank ends last
  }

  // One op whose end is now_: a hop for its own time, then to what bound its beginning.
  void follow() {
    const Instruction& in = instruction(place_);
    const RecordedOp& op = calls_.at(place_);
    const OpLabel& label = labels_.of(place_.cohort, place_.call, place_.pc);
    switch (in.op) {
      case Opcode::compute:
      case Opcode::send:
        hop(label.transfer, work_name(in), op.instance, op.ready[lane_]);
        break;
      case Opcode::collective: {
        const Ticks begin = op.begin_of(lane_);
        hop(label.transfer, work_name(in), op.instance, begin);
        to_slowest_of_group(in, op, begin);
        break;
      }
      case Opcode::join: {
        const Ticks begin = op.begin_of(lane_);
        hop(label.transfer, work_name(in), op.instance, begin);
        to_slowest_of_join(in, begin);
        break;
      }
      case Opcode::receive:
        if (op.end[lane_] > op.ready[lane_]) {
          const std::vector<std::int32_t>& from = program_.channels[in.target].from_lane;
          place_ = replay_.sender_of(place_);
          if (!from.empty()) lane_ = static_cast<std::size_t>(from[lane_]);
          return;
        }
        break;
      case Opcode::host_sync:
        follow_host();
        return;
    }
    if (now_ <= step_begin_) return;
    const Instruction& bound = instruction(place_);  // the member of a group may be elsewhere
    const auto streams = static_cast<std::uint8_t>(bound.wait_streams | bit(bound.stream));
    const bool issued = calls_.at(place_).issued_last[lane_];
    to_input(find_input(streams, bound.wait_slot, now_, issued), true);
  }

  // The input of the op at place_ that ended at `time`.
  Input find_input(std::uint8_t streams, std::uint16_t slot, Ticks time, bool issued_last) {
    Input before;
    bool from_before = false;
    // Of the step before, only dp and copy streams can end after this one's begin.
    const auto binds = [&](const Place& p, Stream stream) {
      if (p.call >= 0) return calls_.at(p).end[lane_] == time;
      if (!from_before || stream == Stream::dp || stream == Stream::copy) before.stream = stream;
      from_before = true;
      return false;
    };
    const auto on_stream = [&](Stream stream, Input& found) {
      const Place p = predecessors_.on_stream(place_, stream);
      if (!binds(p, stream)) return false;
      found = {Input::Kind::op, p, stream};
      return true;
    };
    Input found;
    const bool at_end = place_.call == static_cast<std::int32_t>(cohort().calls.size());
    const Stream own = at_end ? Stream::compute : instruction(place_).stream;
    if ((streams & bit(own)) != 0 && on_stream(own, found)) return found;
    if (slot != none16) {
      const Stream stream = predecessors_.stream_of_slot(place_.cohort, slot);
      const Place p = predecessors_.of_slot(place_, slot);
      if (binds(p, stream)) return {Input::Kind::op, p, stream};
    }
    for (unsigned rest = streams & ~static_cast<unsigned>(bit(own)); rest != 0; rest &= rest - 1) {
      if (on_stream(static_cast<Stream>(std::countr_zero(rest)), found)) return found;
    }
    if (issued_last) return {Input::Kind::host, {}, {}};
    STEPCAST_ASSERT(from_before);  // a time has a cause
    return before;
  }

  // `launched`: place_ was issued by the host, whose launch belongs to the hop.
  void to_input(const Input& input, bool launched) {
    switch (input.kind) {
      case Input::Kind::op:
        place_ = input.place;
        return;
      case Input::Kind::host:
        follow_issue(launched ? now_ - cohort().launch_ticks : now_);
        return;
      case Input::Kind::before_step:
        hop(input.stream == Stream::dp ? Category::exposed_dp : Category::other, "from the step before", -1,
            step_begin_);
        return;
    }
  }

  // place_ is a host_sync whose end, recorded in a slot, bound the hop before.
  void follow_host() {
    const Ticks went_on = calls_.at(place_).ready[lane_];
    if (jump_from_sync(went_on)) return;
    follow_issue(went_on);
  }

  // Back along the host, which was at place_ at `time`, to the op that a synchronisation waited for or to the step's
  // beginning. Instructions issued in between cost launch_ticks each, synchronisations sync_ticks.
  void follow_issue(Ticks time) {
    for (Place p = predecessors_.before(place_); p.call >= 0; p = predecessors_.before(p)) {
      const Instruction& in = instruction(p);
      if (in.op == Opcode::host_sync) {
        place_ = p;
        time = calls_.at(p).ready[lane_];
        if (jump_from_sync(time)) return;
      } else if ((in.flags & flag_no_launch) == 0) {
        time -= cohort().launch_ticks;
      }
    }
    hop(Category::host, "host", -1, time);
    hop(Category::data, "once a step", -1, time - cohort().step_host_ticks);
    hop(Category::host, "from the step before", -1, step_begin_);
  }

  // If one of the streams or the slot that the host_sync at place_ waits for ended at `time`: to that op.
  bool jump_from_sync(Ticks time) {
    const Instruction& in = instruction(place_);
    const auto jump = [&](const Place& p) {
      if (p.call < 0 || calls_.at(p).end[lane_] != time) return false;
      hop(Category::host, "host", -1, time);
      place_ = p;
      return true;
    };
    if (in.wait_slot != none16 && jump(predecessors_.of_slot(place_, in.wait_slot))) return true;
    for (unsigned rest = in.wait_streams; rest != 0; rest &= rest - 1) {
      if (jump(predecessors_.on_stream(place_, static_cast<Stream>(std::countr_zero(rest))))) return true;
    }
    return false;
  }

  void to_slowest_of_group(const Instruction& in, const RecordedOp& op, Ticks begin) {
    if (op.ready[lane_] == begin) return;
    const GroupClass& group = cohort().groups[in.target];
    const auto size = static_cast<std::size_t>(group.group_size);
    const auto position = static_cast<std::size_t>(
        std::find(group.lanes.begin(), group.lanes.end(), static_cast<std::int32_t>(lane_)) - group.lanes.begin());
    for (std::size_t i = position / size * size; i < position / size * size + size; ++i) {
      const auto member = static_cast<std::size_t>(group.lanes[i]);
      if (op.ready[member] != begin) continue;
      lane_ = member;
      return;
    }
    STEPCAST_ASSERT(false);  // a collective begins when its last member is ready
  }

  void to_slowest_of_join(const Instruction& in, Ticks begin) {
    if (calls_.at(place_).ready[lane_] == begin) return;
    const JoinClass& join = program_.joins[in.target];
    const std::vector<Place> members = replay_.members_of(place_);
    const auto group_of = [&](std::size_t member, std::size_t lane) {
      return join.group_of_lane.empty() ? 0 : join.group_of_lane[member][lane];
    };
    std::size_t own = 0;
    while (members[own].cohort != place_.cohort) ++own;
    const std::int32_t group = group_of(own, lane_);
    for (std::size_t m = 0; m < members.size(); ++m) {
      const std::vector<Ticks>& ready = calls_.at(members[m]).ready;
      for (std::size_t l = 0; l < ready.size(); ++l) {
        if (ready[l] != begin || group_of(m, l) != group) continue;
        place_ = members[m];
        lane_ = l;
        return;
      }
    }
    STEPCAST_ASSERT(false);  // as above
  }

  [[nodiscard]] const std::string& work_name(const Instruction& in) const { return cohort().works[in.work].name; }

  // From now_ back to `begin`, cut at the step's begin; nothing where that is not earlier.
  void hop(Category category, const std::string& name, int instance, Ticks begin) {
    const Ticks from = std::max(begin, step_begin_);
    if (from < now_) {
      path_.hops.push_back({cohort().ranks[lane_], category, name, instance, from, now_});
      path_.by_category[static_cast<std::size_t>(category)] += now_ - from;
      now_ = from;
    }
  }

  const Program& program_;
  const Labels& labels_;
  const Replay& replay_;
  Ticks step_begin_;
  Predecessors predecessors_;
  RecordedCalls calls_;
  CriticalPath path_;
  Ticks now_ = 0;  // everything later is explained
  Place place_;
  std::size_t lane_ = 0;
};

}  // namespace

CriticalPath critical_path(const Program& program, const Labels& labels, const Replay& replay, Ticks step_begin) {
  return Walk(program, labels, replay, step_begin).run();
}

}  // namespace stepcast::sim
