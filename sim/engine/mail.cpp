#include "sim/engine/mail.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"

namespace stepcast::sim {

Mail::Mail(const Program& program)
    : program_(&program), messages_(program.channels.size()), free_(1), meetings_(program.joins.size()) {
  for (const Channel& channel : program.channels) {
    message_lanes_ = std::max(message_lanes_, program.cohorts[static_cast<std::size_t>(channel.to)].ranks.size());
  }
  for (const JoinClass& join : program.joins) {
    std::int32_t groups = 1;
    for (const auto& lanes : join.group_of_lane) {
      for (std::int32_t group : lanes) groups = std::max(groups, group + 1);
    }
    groups_.push_back(static_cast<std::size_t>(groups));
  }
}

void Mail::set_components(std::vector<std::size_t> of_channel, std::size_t count) {
  component_ = std::move(of_channel);
  free_.resize(count);
}

void Mail::begin_step(bool keep) {
  keep_ = keep;
  for (auto& channel : messages_) channel.clear();
  for (auto& join : meetings_) join.clear();
}

void Mail::send(std::size_t channel, std::size_t k, const Ticks* end) {
  auto& messages = messages_[channel];
  if (messages.size() <= k) messages.resize(k + 1);
  const Channel& c = program_->channels[channel];
  const std::size_t lanes = program_->cohorts[static_cast<std::size_t>(c.to)].ranks.size();
  LaneBuffer<Ticks>& message = messages[k];
  STEPCAST_ASSERT(message.empty());
  auto& spare = free_[component_.empty() ? 0 : component_[channel]];
  if (spare.empty()) {
    message = LaneBuffer<Ticks>(message_lanes_);
  } else {
    message = std::move(spare.back());
    spare.pop_back();
  }
  Ticks* out = message.data();
  if (c.from_lane.empty()) {
    std::copy_n(end, lanes, out);
  } else {
    for (std::size_t i = 0; i < lanes; ++i) out[i] = end[c.from_lane[i]];
  }
}

const Ticks* Mail::arrival(std::size_t channel, std::size_t k) const {
  const auto& messages = messages_[channel];
  return k < messages.size() && !messages[k].empty() ? messages[k].data() : nullptr;
}

void Mail::take(std::size_t channel, std::size_t k) {
  if (keep_) return;
  free_[component_.empty() ? 0 : component_[channel]].push_back(std::move(messages_[channel][k]));
  messages_[channel][k] = LaneBuffer<Ticks>();
}

std::size_t Mail::member(std::size_t join, int cohort) const {
  const auto& cohorts = program_->joins[join].cohorts;
  return static_cast<std::size_t>(std::find(cohorts.begin(), cohorts.end(), cohort) - cohorts.begin());
}

std::size_t Mail::member_lanes(std::size_t join, std::size_t member) const {
  return program_->cohorts[static_cast<std::size_t>(program_->joins[join].cohorts[member])].ranks.size();
}

bool Mail::join(std::size_t join, std::size_t k, std::size_t member, const Ticks* ready, const Ticks* duration) {
  auto& meetings = meetings_[join];
  if (meetings.size() <= k) meetings.resize(k + 1);
  Meeting& m = meetings[k];
  if (m.arrived == 0) {
    m.begin.assign(groups_[join], 0);
    m.longest.assign(groups_[join], 0);
  }
  const JoinClass& j = program_->joins[join];
  const std::size_t lanes = member_lanes(join, member);
  for (std::size_t i = 0; i < lanes; ++i) {
    const std::size_t group = j.group_of_lane.empty() ? 0 : static_cast<std::size_t>(j.group_of_lane[member][i]);
    m.begin[group] = std::max(m.begin[group], ready[i]);
    m.longest[group] = std::max(m.longest[group], duration[i]);
  }
  return ++m.arrived == j.cohorts.size();
}

const Meeting* Mail::meeting(std::size_t join, std::size_t k) const {
  const bool complete = arrived(join, k) == program_->joins[join].cohorts.size() && !meetings_[join][k].held;
  return complete ? &meetings_[join][k] : nullptr;
}

void Mail::bound(const Meeting& meeting, Ticks& begin, Ticks& end) {
  begin = end = 0;
  for (std::size_t g = 0; g < meeting.begin.size(); ++g) {
    begin = std::max(begin, meeting.begin[g]);
    end = std::max(end, meeting.begin[g] + meeting.longest[g]);
  }
}

std::size_t Mail::arrived(std::size_t join, std::size_t k) const {
  return k < meetings_[join].size() ? meetings_[join][k].arrived : 0;
}

void Mail::take_meeting(std::size_t join, std::size_t k) {
  Meeting& m = meetings_[join][k];
  if (++m.taken < program_->joins[join].cohorts.size() || keep_) return;
  m.begin = {};
  m.longest = {};
}

void Mail::resolve(std::size_t join, const Meeting& meeting, std::size_t member, bool largest, const Ticks* duration,
                   Ticks* begin, Ticks* end) const {
  const JoinClass& j = program_->joins[join];
  const std::size_t lanes = member_lanes(join, member);
  for (std::size_t i = 0; i < lanes; ++i) {
    const std::size_t group = j.group_of_lane.empty() ? 0 : static_cast<std::size_t>(j.group_of_lane[member][i]);
    begin[i] = meeting.begin[group];
    end[i] = meeting.begin[group] + (largest ? meeting.longest[group] : duration[i]) + meeting.delay;
  }
}

}  // namespace stepcast::sim
