#include "sim/engine/max_min.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "sim/base/error.h"

namespace stepcast::sim {
namespace {

constexpr int level_bits = 50, load_bits = 30, weight_bits = 34;
constexpr int sum_over_load = level_bits + weight_bits - load_bits;
constexpr double one_level = 0x1p50, one_link = 0x1p30, one_sum = 0x1p84;
constexpr std::int64_t nothing = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t above_caps = std::int64_t{1} << 57;

// floor(room / weight), at most above_caps.
std::int64_t divided(__int128 room, std::int64_t weight) {
  if (room <= 0) return 0;
  const auto high = static_cast<std::int64_t>(room >> 64);
  const auto low = static_cast<std::uint64_t>(room);
  const double near = (static_cast<double>(high) * 0x1p64 + static_cast<double>(low)) / static_cast<double>(weight);
  if (near >= static_cast<double>(above_caps)) return above_caps;
  // Right to a unit or two.
  auto level = static_cast<std::int64_t>(near);
  while (static_cast<__int128>(weight) * level > room) --level;
  while (static_cast<__int128>(weight) * (level + 1) <= room) ++level;
  return level;
}

// The level at which a link (a private type of MaxMin) has something to decide, by what is known now.
template <class Link>
std::int64_t turn(const Link& here) {
  const std::int64_t at = here.kept > 0 ? here.level : nothing;
  if (here.rising == 0) return at;
  return std::min(at, divided((static_cast<__int128>(here.capacity) << sum_over_load) - here.used, here.rising));
}

}  // namespace

MaxMin::MaxMin(std::span<const double> capacity)
    : links_(capacity.size()), users_(capacity.size()), watched_(capacity.size(), 0) {
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    links_[l].capacity = std::max<std::int64_t>(1, std::llround(capacity[l] * one_link));
    links_[l].queued = nothing;
  }
}

std::int32_t MaxMin::add_link() {
  links_.emplace_back();
  links_.back().capacity = std::llround(one_link);
  links_.back().queued = nothing;
  users_.emplace_back();
  watched_.push_back(0);
  return static_cast<std::int32_t>(links_.size()) - 1;
}

std::span<MaxMin::FlowLoad> MaxMin::loads(std::uint32_t flow) {
  return std::span(loads_).subspan(flows_[flow].first, flows_[flow].count);
}

std::span<const MaxMin::FlowLoad> MaxMin::loads(std::uint32_t flow) const {
  return std::span(loads_).subspan(flows_[flow].first, flows_[flow].count);
}

// Room for the flow's loads: what a flow of this number had, or new room of a power of two.
void MaxMin::reserve(std::uint32_t flow, std::size_t count) {
  if (flow >= flows_.size()) {
    flows_.resize(flow + std::size_t{1});
    level_.resize(flows_.size());
    state_.resize(flows_.size(), State::absent);
  }
  Flow& f = flows_[flow];
  f.count = static_cast<std::uint32_t>(count);
  if (f.count <= f.room) return;
  f.first = static_cast<std::uint32_t>(loads_.size());
  f.room = std::bit_ceil(f.count);
  loads_.resize(loads_.size() + f.room);
  q_.resize(loads_.size());
}

void MaxMin::add(std::uint32_t flow, double cap, std::span<const Load> loads) {
  reserve(flow, loads.size());
  STEPCAST_ASSERT(state_[flow] == State::absent && cap > 0 && cap <= highest_cap);
  Flow& f = flows_[flow];
  f.stopped_by = none;
  level_[flow] = {0, std::max<std::int64_t>(1, std::llround(cap * one_level))};
  state_[flow] = State::frozen;
  for (std::uint32_t i = 0; i < f.count; ++i) {
    const Load& load = loads[i];
    Users& users = users_[static_cast<std::size_t>(load.link)];
    // Rounded down, so that flows whose loads fit reach their caps.
    const auto weight = static_cast<std::int64_t>((static_cast<Sum>(load.q) << sum_over_load) / level_[flow].cap);
    loads_[f.first + i] = {load.link, static_cast<std::uint32_t>(users.members.size()), weight};
    q_[f.first + i] = load.q;
    users.members.push_back({flow, i});
    users.load += load.q;
    if (users.load > link(load.link).capacity) watch(load.link);
  }
  fresh_.push_back(flow);
}

void MaxMin::remove(std::uint32_t flow) {
  STEPCAST_ASSERT(state_[flow] == State::frozen && level_[flow].now > 0);
  const Flow& f = flows_[flow];
  for (std::uint32_t i = f.first; i < f.first + f.count; ++i) {
    const FlowLoad load = loads_[i];
    Users& users = users_[static_cast<std::size_t>(load.link)];
    users.load -= q_[i];
    const Member last = users.members.back();
    users.members[load.member] = last;
    loads_[flows_[last.flow].first + last.load].member = load.member;
    users.members.pop_back();
    if (!watched(load.link)) continue;
    Link& l = link(load.link);
    l.used -= static_cast<Sum>(load.weight) * level_[flow].now;
    if (f.stopped_by == load.link) l.kept -= load.weight;
    if (l.kept > 0 && !l.dirty) {
      l.dirty = true;
      dirty_.push_back(load.link);
    }
    unwatch_idle(load.link);
  }
  state_[flow] = State::absent;
}

MaxMin::Sum MaxMin::sum(std::int32_t l) const {
  Sum used = 0;
  for (const Member& m : users_[static_cast<std::size_t>(l)].members) {
    used += static_cast<Sum>(loads(m.flow)[m.load].weight) * level_[m.flow].now;
  }
  return used;
}

void MaxMin::watch(std::int32_t l) {
  if (watched(l)) return;
  watched_[static_cast<std::size_t>(l)] = 1;
  link(l).used = sum(l);
}

void MaxMin::unwatch_idle(std::int32_t l) {
  if (link(l).kept == 0 && users_[static_cast<std::size_t>(l)].load <= link(l).capacity) {
    watched_[static_cast<std::size_t>(l)] = 0;
  }
}

void MaxMin::meet(std::int32_t l) {
  if (link(l).met) return;
  link(l).met = true;
  met_.push_back(l);
}

void MaxMin::queue(std::int32_t l) {
  Link& here = link(l);
  const std::int64_t at = turn(here);
  if (at >= here.queued) return;
  here.queued = at;
  events_.push_back({at, l});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

// From its level, or from 0 where it is new, the flow joins the rise.
void MaxMin::raise(std::uint32_t flow) {
  Flow& f = flows_[flow];
  const std::int64_t level = level_[flow].now;
  state_[flow] = State::rising;
  active_.push_back({flow, level});
  bool bound = false;
  for (const FlowLoad& load : loads(flow)) {
    if (!watched(load.link)) continue;
    bound = true;
    Link& l = link(load.link);
    meet(load.link);
    if (load.link == f.stopped_by) l.kept -= load.weight;
    l.used -= static_cast<Sum>(load.weight) * level;
    l.rising += load.weight;
    // A flow that joins from above what is in line can only put the link's turn off.
    if (level < l.queued) queue(load.link);
  }
  f.stopped_by = none;
  if (!bound) fix(flow, level_[flow].cap, none);
}

void MaxMin::fix(std::uint32_t flow, std::int64_t level, std::int32_t stopped_by) {
  level_[flow].now = level;
  state_[flow] = State::fixed;
  flows_[flow].stopped_by = stopped_by;
  for (const FlowLoad& load : loads(flow)) {
    if (!watched(load.link)) continue;
    Link& l = link(load.link);
    l.used += static_cast<Sum>(load.weight) * level;
    l.rising -= load.weight;
    if (load.link == stopped_by) l.kept += load.weight;
  }
}

void MaxMin::stop_all(std::int32_t l, std::int64_t level) {
  link(l).level = level;
  link(l).final = true;
  for (const Member& m : users_[static_cast<std::size_t>(l)].members) {
    if (state_[m.flow] == State::rising) fix(m.flow, level, l);
  }
}

bool MaxMin::raise_kept(std::int32_t l) {
  above_.clear();
  for (const Member& m : users_[static_cast<std::size_t>(l)].members) {
    if (state_[m.flow] == State::frozen && flows_[m.flow].stopped_by == l) above_.push_back(m.flow);
  }
  for (const std::uint32_t flow : above_) raise(flow);
  return !above_.empty();
}

// Frozen flows above the level at which the link fills up must come down: they join, highest first, as long as that is.
bool MaxMin::raise_above(std::int32_t l) {
  std::sort(above_.begin(), above_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return level_[a].now > level_[b].now; });
  const Link& here = link(l);
  for (std::size_t i = 0; i < above_.size(); ++i) {
    const Sum room = (static_cast<Sum>(here.capacity) << sum_over_load) - here.used;
    if (static_cast<Sum>(here.rising) * level_[above_[i]].now <= room) return i > 0;
    raise(above_[i]);
  }
  return true;
}

void MaxMin::process(std::int32_t l, std::int64_t at) {
  Link& here = link(l);
  bool capped = false;
  above_.clear();
  for (const Member& m : users_[static_cast<std::size_t>(l)].members) {
    if (state_[m.flow] == State::rising) {
      if (level_[m.flow].cap > at) continue;
      fix(m.flow, level_[m.flow].cap, none);
      capped = true;
    } else if (state_[m.flow] == State::frozen && level_[m.flow].now > at) {
      above_.push_back(m.flow);
    }
  }
  if (capped) return;
  if (here.kept > 0 && at == here.level) {
    // Room for less than a unit of level each is none.
    const Sum room = (static_cast<Sum>(here.capacity) << sum_over_load) - here.used;
    const bool full = room - static_cast<Sum>(here.rising) * at < static_cast<Sum>(here.rising) + here.kept;
    if (full || here.final || !raise_kept(l)) stop_all(l, at);
    return;
  }
  if (!above_.empty() && raise_above(l)) return;
  stop_all(l, std::max<std::int64_t>(1, at));
}

std::span<const std::uint32_t> MaxMin::solve() {
  active_.clear();
  changed_.clear();
  for (const std::int32_t l : dirty_) {
    link(l).dirty = false;
    if (link(l).kept == 0) continue;
    meet(l);
    queue(l);
  }
  dirty_.clear();
  for (const std::uint32_t flow : fresh_) raise(flow);
  fresh_.clear();
  while (!events_.empty()) {
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    const Event event = events_.back();
    events_.pop_back();
    Link& l = link(event.link);
    if (event.level != l.queued) continue;
    l.queued = nothing;
    if (turn(l) == event.level) process(event.link, event.level);  // else it was put off meanwhile
    if (l.rising > 0 || !l.final) queue(event.link);
  }
  for (const std::int32_t l : met_) {
    link(l).met = link(l).final = false;
    unwatch_idle(l);
  }
  met_.clear();
  for (const Active& a : active_) {
    STEPCAST_ASSERT(state_[a.flow] == State::fixed);
    state_[a.flow] = State::frozen;
    if (a.before != level_[a.flow].now) changed_.push_back(a.flow);
  }
  return changed_;
}

double MaxMin::rate(std::uint32_t flow) const {
  const Level& level = level_[flow];
  return level.now == level.cap ? 1 : static_cast<double>(level.now) / static_cast<double>(level.cap);
}

double MaxMin::level(std::uint32_t flow) const { return static_cast<double>(level_[flow].now) / one_level; }

double MaxMin::used(std::int32_t l) const { return static_cast<double>(sum(l)) / one_sum; }

double MaxMin::error_of(std::span<const std::uint32_t> flows) const {
  struct Seen {
    double filled = -1;
    std::int64_t highest = 0;
  };
  std::vector<Seen> seen(links_.size());
  const auto look = [&](std::int32_t l) -> const Seen& {
    Seen& here = seen[static_cast<std::size_t>(l)];
    if (here.filled >= 0) return here;
    here.filled = used(l) * one_link / static_cast<double>(link(l).capacity);
    for (const Member& m : users_[static_cast<std::size_t>(l)].members) {
      here.highest = std::max(here.highest, level_[m.flow].now);
    }
    return here;
  };
  double error = 0;
  for (const std::uint32_t flow : flows) {
    double best = 1 - rate(flow);
    for (const FlowLoad& load : loads(flow)) {
      const Seen& here = look(load.link);
      error = std::max(error, here.filled - 1);
      // The best witness: a link that is full and on which the flow is among the highest.
      const double below = 1 - static_cast<double>(level_[flow].now) / static_cast<double>(here.highest);
      best = std::min(best, std::max(1 - here.filled, below));
    }
    error = std::max(error, best);
  }
  return error;
}

double MaxMin::certificate_error() const {
  std::vector<std::uint32_t> all;
  for (std::uint32_t flow = 0; flow < flows_.size(); ++flow) {
    if (state_[flow] == State::frozen) all.push_back(flow);
  }
  return error_of(all);
}

double MaxMin::last_certificate_error() const {
  std::vector<std::uint32_t> near;
  std::vector<bool> seen(links_.size(), false);
  for (const Active& a : active_) {
    near.push_back(a.flow);
    for (const FlowLoad& load : loads(a.flow)) {
      if (seen[static_cast<std::size_t>(load.link)]) continue;
      seen[static_cast<std::size_t>(load.link)] = true;
      for (const Member& m : users_[static_cast<std::size_t>(load.link)].members) near.push_back(m.flow);
    }
  }
  return error_of(near);
}

}  // namespace stepcast::sim
