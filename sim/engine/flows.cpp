#include "sim/engine/flows.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"

namespace stepcast::sim {
namespace {

constexpr double one_link = 0x1p30;
constexpr double slowest_rate = 1e-9;  // rounding never stops a flow for good
constexpr double same_rate = 0x1p-20;  // of a part: shares of links are single precision, and add up
[[maybe_unused]] constexpr std::size_t always_checked =
    256;                                               // flows; with more, debug builds check some solves in full
[[maybe_unused]] constexpr double certificate = 1e-9;  // relative

// A free place of the list, or a new one.
template <class T>
std::uint32_t place(std::vector<T>& all, std::vector<std::uint32_t>& free) {
  if (free.empty()) {
    all.emplace_back();
    return static_cast<std::uint32_t>(all.size()) - 1;
  }
  const std::uint32_t at = free.back();
  free.pop_back();
  return at;
}

}  // namespace

double port_share(double ticks, Ticks work) {
  if (!(ticks > 0) || work <= 0) return 0;
  constexpr double steps = 1024;
  const double share = std::min(1.0, ticks / static_cast<double>(work));
  return std::max(1.0, std::round(share * steps)) / steps;
}

void FlowStats::add(const FlowStats& more) {
  flows += more.flows;
  slowed += more.slowed;
  promoted += more.promoted;
  solves += more.solves;
  solved_flows += more.solved_flows;
  late += more.late;
  alone_s += more.alone_s;
  delay_s += more.delay_s;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    levels[l].operations += more.levels[l].operations;
    levels[l].flows += more.levels[l].flows;
    levels[l].alone_s += more.levels[l].alone_s;
    levels[l].delay_s += more.levels[l].delay_s;
  }
}

void FlowSet::schedule(std::uint32_t flow) {
  const Flow& f = flows_[flow];
  const double left = std::ceil(std::max(0.0, f.remaining) / std::max(slowest_rate, f.rate));
  ends_.set({f.since + static_cast<Ticks>(left), operations_[f.operation].key, flow});
}

// By the loads in loads_.
std::uint32_t FlowSet::add_flow(std::uint32_t operation, double work, double level, double cap) {
  const std::uint32_t at = place(flows_, free_flows_);
  flows_[at] = {operation, true, work, 1, level, now_};
  rates_.add(at, cap, loads_);
  schedule(at);
  Operation& op = operations_[operation];
  ++op.flows;
  ++op.running;
  return at;
}

void FlowSet::remove_flow(std::uint32_t flow) {
  rates_.remove(flow);
  flows_[flow].running = false;
  free_flows_.push_back(flow);
  --operations_[flows_[flow].operation].running;
}

void FlowSet::start(Ticks now, Ticks work, std::uint64_t key, std::uint32_t id, const FlowDemand& demand) {
  STEPCAST_ASSERT(work > 0);
  if (now < now_) {
    ++stats_.late;
    now = now_;
  }
  now_ = now;
  const std::uint32_t at = place(operations_, free_operations_);
  Operation& op = operations_[at];
  op.key = key;
  op.id = id;
  op.flows = op.running = 0;
  op.level = FlowLevel::macro;
  op.work = work;
  op.alone_end = now + work;
  op.demand = demand;
  ++running_;
  ++stats_.flows;
  if (rule_ != nullptr && rule_->level && demand.parts(*rule_->level) != nullptr) {
    start_parts(at, *rule_->level, 0);
  } else {
    start_whole(at);
  }
}

void FlowSet::start_whole(std::uint32_t operation) {
  const Operation& op = operations_[operation];
  loads_.clear();
  for (const LinkShare& share : *op.demand.links) {
    // Alone on a whole link, nothing is slower than its cost says.
    const std::int64_t load = std::llround(std::min(1.0, op.demand.load(share)) * one_link);
    if (load > 0) loads_.push_back({share.link, load});
  }
  add_flow(operation, static_cast<double>(op.work), 0, loads_.empty() ? 1 : op.demand.intensity());
}

void FlowSet::start_parts(std::uint32_t operation, FlowLevel level, double elapsed) {
  Operation& op = operations_[operation];
  const bool asked = rule_ != nullptr && rule_->level;
  const Cut& cut = cutter_.cut(op.demand, *op.demand.parts(level), static_cast<double>(op.work), elapsed,
                               asked ? std::numeric_limits<std::size_t>::max() : most_parts);
  op.level = level;
  op.flows = 0;
  for (std::int32_t p = 0; p < cut.ports; ++p) {
    if (free_ports_.empty()) free_ports_.push_back(rates_.add_link());
    op.ports.push_back(free_ports_.back());
    free_ports_.pop_back();
  }
  for (const CutFlow& part : cut.flows) {
    loads_.assign(cut.loads.begin() + static_cast<std::ptrdiff_t>(part.first),
                  cut.loads.begin() + static_cast<std::ptrdiff_t>(part.first + part.count));
    for (MaxMin::Load& load : loads_) {
      if (load.link < 0) load.link = op.ports[static_cast<std::size_t>(-1 - load.link)];
    }
    add_flow(operation, part.left, part.level, part.cap);
  }
}

bool FlowSet::take(Ticks now, std::uint32_t& id) {
  now_ = std::max(now_, now);
  while (!ends_.empty() && ends_.top().end <= now) {
    const std::uint32_t flow = ends_.top().flow;
    ends_.pop();
    remove_flow(flow);
    const std::uint32_t operation = flows_[flow].operation;
    if (operations_[operation].running > 0) continue;
    id = operations_[operation].id;
    end(operations_[operation]);
    free_operations_.push_back(operation);
    return true;
  }
  return false;
}

void FlowSet::end(Operation& op) {
  free_ports_.insert(free_ports_.end(), op.ports.rbegin(), op.ports.rend());
  op.ports.clear();
  --running_;
  const double alone = to_seconds(op.work).value;
  const double delay = to_seconds(std::max<Ticks>(0, now_ - op.alone_end)).value;
  FlowStats::Level& level = stats_.levels[static_cast<std::size_t>(op.level)];
  ++level.operations;
  level.flows += op.flows;
  level.alone_s += alone;
  level.delay_s += delay;
  stats_.alone_s += alone;
  stats_.delay_s += delay;
  if (now_ > op.alone_end) ++stats_.slowed;
}

Ticks FlowSet::next() {
  if (rates_.changed()) solve();
  return ends_.empty() ? never : ends_.top().end;
}

// The level at which the operation of a slowed flow has to go on.
FlowLevel FlowSet::wanted(std::uint32_t flow) const {
  const Flow& f = flows_[flow];
  const Operation& op = operations_[f.operation];
  if (f.rate >= 1 || op.level != FlowLevel::macro || (rule_ != nullptr && rule_->level)) return op.level;
  const FlowDemand& demand = op.demand;
  if (!demand.cuttable()) return op.level;
  const std::int32_t link = rates_.stopped_by(flow);
  const bool known = rule_ != nullptr && !rule_->kinds.empty();
  const LinkKind kind = known ? rule_->kinds[static_cast<std::size_t>(link)] : LinkKind::uplink;
  if (kind == LinkKind::nvlink) return op.level;
  const bool uneven = unequal(demand.volume);
  if (kind == LinkKind::hashed_uplink && demand.nics != nullptr) {
    // Parts that are alike would be folded into what they are now.
    return uneven || demand.nics->parts.size() <= most_parts ? FlowLevel::nic : op.level;
  }
  if (!uneven || (kind == LinkKind::nic && !meets_unequal(link, f.operation))) return op.level;
  if (demand.boxes == nullptr) return FlowLevel::nic;
  return demand.nics != nullptr && unequal_within(demand.volume, *demand.boxes) ? FlowLevel::nic : FlowLevel::box;
}

// Whether the link has flows of other operations whose lanes differ.
bool FlowSet::meets_unequal(std::int32_t link, std::uint32_t operation) const {
  const auto differs = [&](std::uint32_t flow) {
    const std::uint32_t other = flows_[flow].operation;
    return other != operation && operations_[other].demand.cuttable() && unequal(operations_[other].demand.volume);
  };
  return rates_.any_of(link, differs);
}

void FlowSet::update(std::uint32_t flow) {
  Flow& f = flows_[flow];
  double rate = f.level > 0 ? rates_.level(flow) / f.level : rates_.rate(flow);
  if (f.level > 0 && std::abs(rate - 1) < same_rate) rate = 1;
  if (rate == f.rate) return;
  f.remaining = std::max(0.0, f.remaining - f.rate * static_cast<double>(now_ - f.since));
  f.since = now_;
  f.rate = rate;
  schedule(flow);
  const FlowLevel level = wanted(flow);
  const Operation& op = operations_[f.operation];
  if (level != op.level) promotions_.push_back({op.key, flow, level});
}

// Cuts what the last solve slowed, in the order of keys so that both engines number alike.
void FlowSet::promote() {
  std::sort(promotions_.begin(), promotions_.end(),
            [](const Promotion& a, const Promotion& b) { return a.key < b.key; });
  for (const Promotion& p : promotions_) {
    const Flow f = flows_[p.flow];
    ends_.remove(p.flow);
    remove_flow(p.flow);
    start_parts(f.operation, p.level, static_cast<double>(operations_[f.operation].work) - f.remaining);
    ++stats_.promoted;
  }
  promotions_.clear();
}

void FlowSet::solve() {
  while (true) {
    for (const std::uint32_t flow : rates_.solve()) update(flow);
    ++stats_.solves;
    stats_.solved_flows += static_cast<std::int64_t>(rates_.looked_at());
    if (promotions_.empty()) break;
    promote();
  }
#ifndef NDEBUG
  STEPCAST_ASSERT(rates_.last_certificate_error() <= certificate);
  if (running_ <= always_checked || stats_.solves % 64 == 0) STEPCAST_ASSERT(certificate_error() <= certificate);
#endif
}

std::vector<std::pair<std::uint32_t, double>> FlowSet::rates() const {
  std::vector<std::pair<std::uint32_t, double>> all;
  for (const Flow& f : flows_) {
    if (f.running) all.emplace_back(operations_[f.operation].id, f.rate);
  }
  return all;
}

}  // namespace stepcast::sim
