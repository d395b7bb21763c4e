#include "sim/engine/flows.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"

namespace stepcast::sim {
namespace {

constexpr double one_link = 0x1p30;
constexpr double slowest_rate = 1e-9;  // rounding never stops a flow for good
[[maybe_unused]] constexpr std::size_t always_checked =
    256;                                               // flows; with more, debug builds check some solves in full
[[maybe_unused]] constexpr double certificate = 1e-9;  // relative

}  // namespace

double port_share(double ticks, Ticks work) {
  if (!(ticks > 0) || work <= 0) return 0;
  constexpr double steps = 1024;
  const double share = std::min(1.0, ticks / static_cast<double>(work));
  return std::max(1.0, std::round(share * steps)) / steps;
}

void FlowSet::schedule(std::uint32_t flow) {
  const Flow& f = flows_[flow];
  const double left = std::ceil(std::max(0.0, f.remaining) / std::max(slowest_rate, f.rate));
  ends_.set({f.since + static_cast<Ticks>(left), f.key, flow});
}

void FlowSet::start(Ticks now, Ticks work, std::uint64_t key, std::uint32_t id, const FlowDemand& demand) {
  STEPCAST_ASSERT(work > 0);
  if (now < now_) {
    ++stats_.late;
    now = now_;
  }
  now_ = now;
  auto at = static_cast<std::uint32_t>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  loads_.clear();
  for (const LinkShare& share : *demand.links) {
    const double q = static_cast<double>(share.nic) * demand.nic + static_cast<double>(share.nvlink) * demand.nvlink;
    // Alone on a whole link, nothing is slower than its cost says.
    const std::int64_t load = std::llround(std::min(1.0, q) * one_link);
    if (load > 0) loads_.push_back({share.link, load});
  }
  Flow& f = flows_[at];
  f = {key, id, true, static_cast<double>(work), 1, now, work, now + work};
  const double intensity = std::max(demand.nic, demand.nvlink);
  rates_.add(at, loads_.empty() ? 1 : std::min(1.0, intensity), loads_);
  schedule(at);
  ++running_;
  ++stats_.flows;
}

bool FlowSet::take(Ticks now, std::uint32_t& id) {
  now_ = std::max(now_, now);
  if (ends_.empty() || ends_.top().end > now) return false;
  const std::uint32_t flow = ends_.top().flow;
  ends_.pop();
  Flow& f = flows_[flow];
  id = f.id;
  rates_.remove(flow);
  f.running = false;
  free_.push_back(flow);
  --running_;
  stats_.alone_s += to_seconds(f.work).value;
  if (now_ > f.alone_end) {
    ++stats_.slowed;
    stats_.delay_s += to_seconds(now_ - f.alone_end).value;
  }
  return true;
}

Ticks FlowSet::next() {
  if (rates_.changed()) solve();
  return ends_.empty() ? never : ends_.top().end;
}

void FlowSet::solve() {
  for (const std::uint32_t flow : rates_.solve()) {
    Flow& f = flows_[flow];
    const double rate = rates_.rate(flow);
    if (rate == f.rate) continue;
    f.remaining = std::max(0.0, f.remaining - f.rate * static_cast<double>(now_ - f.since));
    f.since = now_;
    f.rate = rate;
    schedule(flow);
  }
  ++stats_.solves;
  stats_.solved_flows += static_cast<std::int64_t>(rates_.looked_at());
#ifndef NDEBUG
  STEPCAST_ASSERT(rates_.last_certificate_error() <= certificate);
  if (running_ <= always_checked || stats_.solves % 64 == 0) STEPCAST_ASSERT(certificate_error() <= certificate);
#endif
}

std::vector<std::pair<std::uint32_t, double>> FlowSet::rates() const {
  std::vector<std::pair<std::uint32_t, double>> all;
  for (const Flow& f : flows_) {
    if (f.running) all.emplace_back(f.id, f.rate);
  }
  return all;
}

}  // namespace stepcast::sim
