// Flows that share links: weighted max-min rates, in time order.
//
// A flow has work, the ticks it takes alone, and loads links with q(f, l) of their capacity c(l) while it runs at
// full rate. Its rate x(f) is at most 1. Ports share links evenly: with I(f) the share of its busiest port's rate that
// the flow uses at full rate, its port gets the level t(f) = x(f) I(f), and rates are max-min fair in levels:
//   sum over f of q(f, l) x(f) <= c(l) for every link;
//   every flow has x = 1, or a link that is full and on which no flow has a higher level (the certificate).
// max_min.h keeps the levels, change by change; here are work and time. A change of rates touches the flows whose rate
// it changes and no others; all changes of one time are one solve.
//
// Rates depend on which flows began and ended when, and not on how they are named or in which order a time's changes
// come: both engines that use this give the same bits. A flow whose rate never fell ends exactly after its work.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/engine/end_queue.h"
#include "sim/engine/max_min.h"
#include "sim/program/program.h"

namespace stepcast::sim {

struct FlowDemand {
  const std::vector<LinkShare>* links = nullptr;  // borrowed for the call
  double nic = 0, nvlink = 0;                     // rate of the busiest port of each kind, of its full rate
};

// `ticks` of port time at full rate within `work` ticks, to 1/1024.
[[nodiscard]] double port_share(double ticks, Ticks work);

struct FlowStats {
  std::int64_t flows = 0, slowed = 0;         // slowed: ended later than alone
  std::int64_t solves = 0, solved_flows = 0;  // times at which rates were found, and flows looked at, in all
  std::int64_t remembered = 0;
  // Began before the time that had been reached, and were begun then: what follows a group of a join that is over while
  // other groups of its flow are not, or a step without a barrier at its end. Zero for lowered programs.
  std::int64_t late = 0;
  double alone_s = 0, delay_s = 0;
};

class FlowSet {
 public:
  static constexpr Ticks never = std::numeric_limits<Ticks>::max();

  // Capacities by link, 0 to 1 of nominal.
  explicit FlowSet(std::span<const double> capacity) : rates_(capacity) {}

  // Times never go back from call to call. `key` orders flows and is unique among those that run; work > 0.
  void start(Ticks now, Ticks work, std::uint64_t key, std::uint32_t id, const FlowDemand& demand);
  // When the next flow ends, by the rates from now on; call it once all starts and ends of this time are in.
  [[nodiscard]] Ticks next();
  // Takes the flows that end at `now` or before, one a call in the order (end, key); false when there is none.
  bool take(Ticks now, std::uint32_t& id);
  [[nodiscard]] bool empty() const { return running_ == 0; }
  [[nodiscard]] const FlowStats& stats() const { return stats_; }
  // See MaxMin. Of the rates since the last next(), for tests and debug builds.
  [[nodiscard]] double certificate_error() const { return rates_.certificate_error(); }
  // Id and rate of every flow that runs, in no meaningful order; the share of a link that is in use.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, double>> rates() const;
  [[nodiscard]] double used(std::int32_t link) const { return rates_.used(link); }

 private:
  struct Flow {
    std::uint64_t key = 0;
    std::uint32_t id = 0;
    bool running = false;
    double remaining = 0, rate = 1;
    Ticks since = 0, work = 0, alone_end = 0;
  };

  void schedule(std::uint32_t flow);
  void solve();

  MaxMin rates_;
  EndQueue ends_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  std::vector<MaxMin::Load> loads_;
  Ticks now_ = 0;
  std::size_t running_ = 0;
  FlowStats stats_;
};

}  // namespace stepcast::sim
