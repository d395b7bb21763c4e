#include "sim/record/meetings.h"

#include <algorithm>
#include <cstddef>

#include "sim/record/dependencies.h"

namespace stepcast::sim {
namespace {

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

std::vector<RankId> members_of_join(const Program& program, const Meeting& meeting) {
  const JoinClass& join = program.joins[meeting.target];
  std::vector<RankId> ranks;
  for (std::size_t m = 0; m < join.cohorts.size(); ++m) {
    const std::vector<RankId>& all = program.cohorts[static_cast<std::size_t>(join.cohorts[m])].ranks;
    for (std::size_t lane = 0; lane < all.size(); ++lane) {
      const std::int32_t group = join.group_of_lane.empty() ? 0 : join.group_of_lane[m][lane];
      if (static_cast<std::uint32_t>(group) == meeting.group) ranks.push_back(all[lane]);
    }
  }
  return ranks;
}

std::vector<RankId> ends_of_message(const Program& program, const Meeting& meeting) {
  const Channel& channel = program.channels[meeting.target];
  const std::vector<RankId>& senders = program.cohorts[static_cast<std::size_t>(channel.from)].ranks;
  const std::vector<RankId>& receivers = program.cohorts[static_cast<std::size_t>(channel.to)].ranks;
  std::size_t to = meeting.group;
  if (!channel.from_lane.empty()) {
    const auto sender = static_cast<std::int32_t>(meeting.group);
    to = static_cast<std::size_t>(std::find(channel.from_lane.begin(), channel.from_lane.end(), sender) -
                                  channel.from_lane.begin());
  }
  if (to >= receivers.size()) return {senders[meeting.group]};  // nobody takes it
  return {senders[meeting.group], receivers[to]};
}

}  // namespace

std::vector<Meeting> meetings(const Program& program, const Timeline& timeline) {
  const Places places(program);
  std::vector<Meeting> found(timeline.ops.size());
  std::vector<std::uint64_t> messages, joins;  // executed by the rank at hand
  for (std::size_t i = 0; i < found.size(); ++i) {
    const TimelineOp& op = timeline.ops[i];
    if (i == 0 || op.rank != timeline.ops[i - 1].rank) {
      messages.assign(program.channels.size(), 0);
      joins.assign(program.joins.size(), 0);
    }
    const Instruction& in = instruction_of(program, op);
    switch (in.op) {
      case Opcode::collective:
        found[i] = {Meeting::Kind::collective, static_cast<std::uint32_t>(op.cohort), in.target,
                    places.group(op, in.target), op.ordinal};
        break;
      case Opcode::join:
        found[i] = {Meeting::Kind::join, 0, in.target, places.join_group(op, in.target), joins[in.target]++};
        break;
      case Opcode::send:
        found[i] = {Meeting::Kind::message, 0, in.target, places.lane(op.rank), messages[in.target]++};
        break;
      case Opcode::receive: {
        const std::vector<std::int32_t>& from = program.channels[in.target].from_lane;
        const std::uint32_t lane = places.lane(op.rank);
        const std::uint32_t sender = from.empty() ? lane : static_cast<std::uint32_t>(from[lane]);
        found[i] = {Meeting::Kind::message, 0, in.target, sender, messages[in.target]++};
        break;
      }
      case Opcode::compute:
      case Opcode::host_sync:
        break;
    }
  }
  return found;
}

std::vector<RankId> members(const Program& program, const Meeting& meeting) {
  switch (meeting.kind) {
    case Meeting::Kind::collective: {
      const Cohort& cohort = program.cohorts[meeting.cohort];
      const GroupClass& groups = cohort.groups[meeting.target];
      std::vector<RankId> ranks;
      for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(groups.group_size); ++i) {
        const std::size_t at = std::size_t{meeting.group} * static_cast<std::size_t>(groups.group_size) + i;
        ranks.push_back(cohort.ranks[static_cast<std::size_t>(groups.lanes[at])]);
      }
      return ranks;
    }
    case Meeting::Kind::join:
      return members_of_join(program, meeting);
    case Meeting::Kind::message:
      return ends_of_message(program, meeting);
    case Meeting::Kind::none:
      break;
  }
  return {};
}

}  // namespace stepcast::sim
