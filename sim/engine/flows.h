// Flows that share links: weighted max-min rates, in time order.
//
// A flow has work, the ticks it takes alone, and loads links with q(f, l) of their capacity c(l) while it runs at
// full rate. Its rate x(f) is at most 1. Ports share links evenly: with I(f) the share of its busiest port's rate that
// the flow uses at full rate, its port gets the level t(f) = x(f) I(f), and rates are max-min fair in levels:
//   sum over f of q(f, l) x(f) <= c(l) for every link;
//   every flow has x = 1, or a link that is full and on which no flow has a higher level (the certificate).
// Progressive filling: raise one level for all; a flow stops at x = 1, or when one of its links is full.
//
// Loads are integers (2^-30 of a link), so that sums do not depend on order; only links loaded above their capacity can
// bind, and a change solves just the flows that such links couple. Rates are a pure function of the coupled flows
// in the order of their keys: both engines that use this give the same bits, and solutions are remembered.
// A flow whose rate never fell ends exactly after its work.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/base/units.h"
#include "sim/program/program.h"

namespace stepcast::sim {

struct FlowDemand {
  const std::vector<LinkShare>* links = nullptr;  // borrowed while the flow runs
  double nic = 0, nvlink = 0;                     // rate of the busiest port of each kind, of its full rate
};

// `ticks` of port time at full rate within `work` ticks, to 1/1024: equal operations then meet equal solutions.
[[nodiscard]] double port_share(double ticks, Ticks work);

struct FlowStats {
  std::int64_t flows = 0, slowed = 0;  // slowed: ended later than alone
  std::int64_t solves = 0, remembered = 0;
  // Began before the time that had been reached, and were begun then: what follows a group of a join that is over while
  // other groups of its flow are not, or a step without a barrier at its end. Zero for lowered programs.
  std::int64_t late = 0;
  double alone_s = 0, delay_s = 0;
};

class FlowSet {
 public:
  static constexpr Ticks never = std::numeric_limits<Ticks>::max();

  // Capacities by link, 0 to 1 of nominal; borrowed.
  explicit FlowSet(std::span<const double> capacity);

  // Times never go back from call to call. `key` orders flows and is unique among those that run; work > 0.
  void start(Ticks now, Ticks work, std::uint64_t key, std::uint32_t id, const FlowDemand& demand);
  // When the next flow ends, by the rates from now on; call it once all starts and ends of this time are in.
  [[nodiscard]] Ticks next();
  // Takes the flows that end at `now` or before, one a call in the order (end, key); false when there is none.
  bool take(Ticks now, std::uint32_t& id);
  [[nodiscard]] bool empty() const { return running_ == 0; }
  [[nodiscard]] const FlowStats& stats() const { return stats_; }
  // Largest violation of capacity and of the certificate over the running flows, relative. For tests and debug builds.
  [[nodiscard]] double certificate_error() const;

 private:
  struct Load {
    std::int32_t link;
    std::int64_t q;
  };
  struct Flow {
    std::uint64_t key = 0;
    std::uint32_t id = 0, version = 0;
    const std::vector<LinkShare>* links = nullptr;
    double nic = 0, nvlink = 0, intensity = 0;
    std::vector<Load> loads;
    double remaining = 0, rate = 1;
    Ticks since = 0, work = 0, alone_end = 0, end = 0;
    bool running = false, marked = false;
  };
  struct LinkState {
    std::int64_t capacity = 0, load = 0;
    std::vector<std::uint32_t> flows;
    bool dirty = false, marked = false;
    // Of one solve.
    double used = 0, slope = 0;
  };
  struct Event {
    Ticks time;
    std::uint64_t key;
    std::uint32_t flow, version;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : key > o.key; }
  };
  struct SignatureHash {
    std::size_t operator()(const std::vector<std::uint64_t>& words) const;
  };

  void touch(std::int32_t link);
  void schedule(std::uint32_t flow);
  void set_rate(std::uint32_t flow, double rate);
  void collect(std::uint32_t seed);
  void solve();
  void solve_coupled();
  void fill(std::vector<double>& rates);
  void finish(std::uint32_t flow);

  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_, coupled_;
  std::vector<std::int32_t> dirty_, coupled_links_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> ends_;
  std::unordered_map<std::vector<std::uint64_t>, std::vector<double>, SignatureHash> known_;
  Ticks now_ = 0;
  std::size_t running_ = 0;
  FlowStats stats_;
};

}  // namespace stepcast::sim
