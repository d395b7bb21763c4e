#include "sim/engine/flows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/rng.h"

namespace stepcast::sim {
namespace {

constexpr double one_link = 0x1p30;
constexpr std::size_t most_remembered = std::size_t{1} << 16;
constexpr double same_level = 1e-12;                          // relative: links that fill up together
constexpr double slowest_rate = 1e-9;                         // rounding never stops a flow for good
[[maybe_unused]] constexpr std::size_t always_checked = 256;  // flows; with more, debug builds check some solves

}  // namespace

double port_share(double ticks, Ticks work) {
  if (!(ticks > 0) || work <= 0) return 0;
  constexpr double steps = 1024;
  const double share = std::min(1.0, ticks / static_cast<double>(work));
  return std::max(1.0, std::round(share * steps)) / steps;
}

std::size_t FlowSet::SignatureHash::operator()(const std::vector<std::uint64_t>& words) const {
  std::uint64_t h = 0;
  for (const std::uint64_t w : words) h = mix64(h ^ w);
  return static_cast<std::size_t>(h);
}

FlowSet::FlowSet(std::span<const double> capacity) : links_(capacity.size()) {
  for (std::size_t l = 0; l < capacity.size(); ++l) links_[l].capacity = std::llround(capacity[l] * one_link);
}

// A change on the link matters when it is, or was, above its capacity.
void FlowSet::touch(std::int32_t link) {
  LinkState& l = links_[static_cast<std::size_t>(link)];
  if (l.dirty || l.load <= l.capacity) return;
  l.dirty = true;
  dirty_.push_back(link);
}

void FlowSet::schedule(std::uint32_t flow) {
  Flow& f = flows_[flow];
  const double left = std::ceil(std::max(0.0, f.remaining) / f.rate);
  f.end = f.since + static_cast<Ticks>(left);
  ends_.push({f.end, f.key, flow, ++f.version});
}

void FlowSet::start(Ticks now, Ticks work, std::uint64_t key, std::uint32_t id, const FlowDemand& demand) {
  STEPCAST_ASSERT(work > 0);
  if (now < now_) {
    ++stats_.late;
    now = now_;
  }
  now_ = now;
  std::uint32_t at = static_cast<std::uint32_t>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  Flow& f = flows_[at];
  f.key = key;
  f.id = id;
  f.links = demand.links;
  f.nic = demand.nic;
  f.nvlink = demand.nvlink;
  f.intensity = std::max(demand.nic, demand.nvlink);
  f.remaining = static_cast<double>(work);
  f.rate = 1;
  f.since = now;
  f.alone_end = now + work;
  f.work = work;
  f.running = true;
  f.loads.clear();
  for (const LinkShare& share : *demand.links) {
    LinkState& link = links_[static_cast<std::size_t>(share.link)];
    const double q = static_cast<double>(share.nic) * demand.nic + static_cast<double>(share.nvlink) * demand.nvlink;
    // Alone on a whole link, nothing is slower than its cost says.
    const std::int64_t load = std::llround(std::min(1.0, q) * one_link);
    if (load == 0) continue;
    f.loads.push_back({share.link, load});
    link.load += load;
    link.flows.push_back(at);
    touch(share.link);
  }
  ++running_;
  ++stats_.flows;
  schedule(at);
}

void FlowSet::finish(std::uint32_t flow) {
  Flow& f = flows_[flow];
  for (const Load& load : f.loads) {
    touch(load.link);
    LinkState& link = links_[static_cast<std::size_t>(load.link)];
    link.load -= load.q;
    link.flows.erase(std::find(link.flows.begin(), link.flows.end(), flow));
  }
  f.running = false;
  ++f.version;
  free_.push_back(flow);
  --running_;
  stats_.alone_s += to_seconds(f.work).value;
  if (now_ > f.alone_end) {
    ++stats_.slowed;
    stats_.delay_s += to_seconds(now_ - f.alone_end).value;
  }
}

bool FlowSet::take(Ticks now, std::uint32_t& id) {
  now_ = std::max(now_, now);
  while (!ends_.empty()) {
    const Event event = ends_.top();
    const Flow& f = flows_[event.flow];
    if (!f.running || f.version != event.version) {
      ends_.pop();
      continue;
    }
    if (event.time > now) return false;
    ends_.pop();
    id = f.id;
    finish(event.flow);
    return true;
  }
  return false;
}

Ticks FlowSet::next() {
  if (!dirty_.empty()) solve();
  while (!ends_.empty()) {
    const Event& event = ends_.top();
    const Flow& f = flows_[event.flow];
    if (f.running && f.version == event.version) return event.time;
    ends_.pop();
  }
  return never;
}

void FlowSet::set_rate(std::uint32_t flow, double rate) {
  Flow& f = flows_[flow];
  if (f.rate == rate) return;
  f.remaining = std::max(0.0, f.remaining - f.rate * static_cast<double>(now_ - f.since));
  f.since = now_;
  f.rate = rate;
  schedule(flow);
}

// The flow and all that links above their capacity couple it with.
void FlowSet::collect(std::uint32_t seed) {
  flows_[seed].marked = true;
  coupled_.push_back(seed);
  for (std::size_t i = coupled_.size() - 1; i < coupled_.size(); ++i) {
    for (const Load& load : flows_[coupled_[i]].loads) {
      LinkState& link = links_[static_cast<std::size_t>(load.link)];
      if (link.marked || link.load <= link.capacity) continue;
      link.marked = true;
      coupled_links_.push_back(load.link);
      for (const std::uint32_t f : link.flows) {
        if (flows_[f].marked) continue;
        flows_[f].marked = true;
        coupled_.push_back(f);
      }
    }
  }
}

void FlowSet::solve() {
  std::vector<std::uint32_t> seeds;
  for (const std::int32_t l : dirty_) {
    LinkState& link = links_[static_cast<std::size_t>(l)];
    link.dirty = false;
    seeds.insert(seeds.end(), link.flows.begin(), link.flows.end());
  }
  dirty_.clear();
  std::vector<std::uint32_t> all;
  for (const std::uint32_t seed : seeds) {
    if (flows_[seed].marked) continue;
    coupled_.clear();
    coupled_links_.clear();
    collect(seed);
    solve_coupled();
    for (const std::int32_t l : coupled_links_) links_[static_cast<std::size_t>(l)].marked = false;
    all.insert(all.end(), coupled_.begin(), coupled_.end());
  }
  for (const std::uint32_t f : all) flows_[f].marked = false;
#ifndef NDEBUG
  if (running_ <= always_checked || stats_.solves % 64 == 0) STEPCAST_ASSERT(certificate_error() <= 1e-9);
#endif
}

void FlowSet::solve_coupled() {
  ++stats_.solves;
  if (coupled_links_.empty()) {  // nothing binds any more
    for (const std::uint32_t f : coupled_) set_rate(f, 1);
    return;
  }
  std::sort(coupled_.begin(), coupled_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return flows_[a].key < flows_[b].key; });
  std::vector<std::uint64_t> signature;
  signature.reserve(3 * coupled_.size());
  for (const std::uint32_t f : coupled_) {
    signature.push_back(reinterpret_cast<std::uintptr_t>(flows_[f].links));
    signature.push_back(std::bit_cast<std::uint64_t>(flows_[f].nic));
    signature.push_back(std::bit_cast<std::uint64_t>(flows_[f].nvlink));
  }
  if (const auto found = known_.find(signature); found != known_.end()) {
    ++stats_.remembered;
    for (std::size_t i = 0; i < coupled_.size(); ++i) set_rate(coupled_[i], found->second[i]);
    return;
  }
  std::vector<double> rates(coupled_.size());
  fill(rates);
  for (std::size_t i = 0; i < coupled_.size(); ++i) set_rate(coupled_[i], rates[i]);
  if (known_.size() >= most_remembered) known_.clear();
  known_.emplace(std::move(signature), std::move(rates));
}

// Progressive filling over coupled_ and coupled_links_.
void FlowSet::fill(std::vector<double>& rates) {
  const std::size_t n = coupled_.size();
  std::vector<bool> stopped(n, false);
  for (const std::int32_t l : coupled_links_) links_[static_cast<std::size_t>(l)].used = 0;
  std::size_t left = n;
  while (left > 0) {
    for (const std::int32_t l : coupled_links_) links_[static_cast<std::size_t>(l)].slope = 0;
    double level = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < n; ++i) {
      if (stopped[i]) continue;
      const Flow& f = flows_[coupled_[i]];
      level = std::min(level, f.intensity);
      for (const Load& load : f.loads) {
        LinkState& link = links_[static_cast<std::size_t>(load.link)];
        if (link.marked) link.slope += static_cast<double>(load.q) / f.intensity;
      }
    }
    for (const std::int32_t l : coupled_links_) {
      const LinkState& link = links_[static_cast<std::size_t>(l)];
      if (link.slope > 0) {
        level = std::min(level, std::max(0.0, static_cast<double>(link.capacity) - link.used) / link.slope);
      }
    }
    const double reached = level * (1 + same_level);
    const auto full = [&](const Load& load) {
      const LinkState& link = links_[static_cast<std::size_t>(load.link)];
      return link.marked && (static_cast<double>(link.capacity) - link.used) <= reached * link.slope;
    };
    std::vector<std::size_t> stopping;
    for (std::size_t i = 0; i < n; ++i) {
      if (stopped[i]) continue;
      const Flow& f = flows_[coupled_[i]];
      if (f.intensity <= reached || std::any_of(f.loads.begin(), f.loads.end(), full)) stopping.push_back(i);
    }
    STEPCAST_ASSERT(!stopping.empty());
    for (const std::size_t i : stopping) {
      const Flow& f = flows_[coupled_[i]];
      rates[i] = std::clamp(level / f.intensity, slowest_rate, 1.0);
      stopped[i] = true;
      for (const Load& load : f.loads) {
        LinkState& link = links_[static_cast<std::size_t>(load.link)];
        if (link.marked) link.used += static_cast<double>(load.q) * rates[i];
      }
    }
    left -= stopping.size();
  }
}

double FlowSet::certificate_error() const {
  std::vector<double> carried(links_.size(), 0), highest(links_.size(), 0);
  for (const Flow& f : flows_) {
    if (!f.running) continue;
    for (const Load& load : f.loads) {
      const auto l = static_cast<std::size_t>(load.link);
      carried[l] += static_cast<double>(load.q) * f.rate;
      highest[l] = std::max(highest[l], f.rate * f.intensity);
    }
  }
  double error = 0;
  for (std::size_t l = 0; l < links_.size(); ++l) {
    if (links_[l].capacity > 0) error = std::max(error, carried[l] / static_cast<double>(links_[l].capacity) - 1);
  }
  for (const Flow& f : flows_) {
    if (!f.running || f.rate >= 1) continue;
    // The best witness: a link that is full and on which the flow is among the highest levels.
    double best = 1 - f.rate;
    for (const Load& load : f.loads) {
      const auto l = static_cast<std::size_t>(load.link);
      const double slack = std::max(0.0, 1 - carried[l] / static_cast<double>(links_[l].capacity));
      const double below = std::max(0.0, 1 - f.rate * f.intensity / highest[l]);
      best = std::min(best, std::max(slack, below));
    }
    error = std::max(error, best);
  }
  return error;
}

}  // namespace stepcast::sim
