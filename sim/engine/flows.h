// Flows that share links: weighted max-min rates, in time order.
//
// An operation has work, the ticks it takes alone, and loads links with q(f, l) of their capacity c(l) while it runs at
// full rate. As one flow, its rate x(f) is at most 1. Ports share links evenly: with I(f) the share of its busiest
// port's rate that the flow uses at full rate, its port gets the level t(f) = x(f) I(f), and rates are max-min fair in
// levels:
//   sum over f of q(f, l) x(f) <= c(l) for every link;
//   every flow has x = 1, or a link that is full and on which no flow has a higher level (the certificate).
// max_min.h keeps the levels, change by change; here are work and time. A change of rates touches the flows whose rate
// it changes and no others; all changes of one time are one solve.
//
// An operation begins as one macro-flow, unless FlowRule::level says otherwise. A macro-flow whose rate falls below 1
// is cut into the flows of its parts (flow_parts.h) where one rate for all of them would be wrong:
//   - on a hashed uplink, where planes are not alike: by NIC;
//   - on an uplink, where its lanes differ by more than `unequal_share`: by box, or by NIC where they do so in a box;
//   - on a NIC the same, but only beside another operation of that kind. What it leaves of a NIC early is of no use to
//     macro-flows: they are on all NICs, and wait for the busiest.
// Of more than `most_parts` parts, those of much the same volume are folded. An operation stays cut until its last flow
// ends, and that is when it ends. At a level that the rule asks for nothing is folded.
//
// Rates depend on which operations began and ended when, and not on how they are named or in which order a time's
// changes come: both engines that use this give the same bits. What was never slowed ends exactly after its work.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/engine/end_queue.h"
#include "sim/engine/flow_parts.h"
#include "sim/engine/max_min.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// `ticks` of port time at full rate within `work` ticks, to 1/1024.
[[nodiscard]] double port_share(double ticks, Ticks work);

struct FlowStats {
  struct Level {
    std::int64_t operations = 0, flows = 0;  // that ended at this level, and the flows that they were cut into
    double alone_s = 0, delay_s = 0;
  };
  std::int64_t flows = 0, slowed = 0;         // operations; slowed: ended later than alone
  std::int64_t promoted = 0;                  // begun as macro-flows and cut
  std::int64_t solves = 0, solved_flows = 0;  // times at which rates were found, and flows looked at, in all
  // Began before the time that had been reached, and were begun then: what follows a group of a join that is over while
  // other groups of its flow are not, or a step without a barrier at its end. Zero for lowered programs.
  std::int64_t late = 0;
  double alone_s = 0, delay_s = 0;
  std::array<Level, flow_level_count> levels;

  void add(const FlowStats& more);
};

class FlowSet {
 public:
  static constexpr Ticks never = std::numeric_limits<Ticks>::max();
  static constexpr std::size_t most_parts = 64;  // box pairs of an exchange over eight boxes, and what stays in them

  // Capacities by link, 0 to 1 of nominal. Borrows the rule.
  explicit FlowSet(std::span<const double> capacity, const FlowRule* rule = nullptr) : rates_(capacity), rule_(rule) {}

  // Times never go back from call to call. `key` orders operations and is unique among those that run; work > 0.
  void start(Ticks now, Ticks work, std::uint64_t key, std::uint32_t id, const FlowDemand& demand);
  // When the next flow ends, by the rates from now on; call it once all starts and ends of this time are in. It may be
  // one of several of its operation.
  [[nodiscard]] Ticks next();
  // Takes the operations that end at `now` or before, one a call in the order (end, key); false when there is none.
  bool take(Ticks now, std::uint32_t& id);
  [[nodiscard]] bool empty() const { return running_ == 0; }
  [[nodiscard]] const FlowStats& stats() const { return stats_; }
  // See MaxMin. Of the rates since the last next(), for tests and debug builds.
  [[nodiscard]] double certificate_error() const { return rates_.certificate_error(); }
  // Operation's id and rate of every flow that runs, in no meaningful order; the share of a link that is in use.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, double>> rates() const;
  [[nodiscard]] double used(std::int32_t link) const { return rates_.used(link); }

 private:
  struct Operation {
    std::uint64_t key = 0;
    std::uint32_t id = 0, flows = 0, running = 0;  // flows in all, and that have not ended
    FlowLevel level = FlowLevel::macro;
    Ticks work = 0, alone_end = 0;
    FlowDemand demand;
    std::vector<std::int32_t> ports;
  };
  struct Flow {
    std::uint32_t operation = 0;
    bool running = false;
    double remaining = 0, rate = 1;
    double level = 0;  // at rate 1; 0: at its cap
    Ticks since = 0;
  };
  struct Promotion {
    std::uint64_t key;
    std::uint32_t flow;
    FlowLevel level;
  };

  std::uint32_t add_flow(std::uint32_t operation, double work, double level, double cap);
  void remove_flow(std::uint32_t flow);
  void start_whole(std::uint32_t operation);
  void start_parts(std::uint32_t operation, FlowLevel level, double elapsed);
  void end(Operation& operation);
  void schedule(std::uint32_t flow);
  void solve();
  void update(std::uint32_t flow);
  [[nodiscard]] FlowLevel wanted(std::uint32_t flow) const;
  [[nodiscard]] bool meets_unequal(std::int32_t link, std::uint32_t operation) const;
  void promote();

  MaxMin rates_;
  const FlowRule* rule_;
  EndQueue ends_;
  Cutter cutter_;
  std::vector<Operation> operations_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_operations_, free_flows_;
  std::vector<std::int32_t> free_ports_;
  std::vector<MaxMin::Load> loads_;
  std::vector<Promotion> promotions_;
  Ticks now_ = 0;
  std::size_t running_ = 0;  // operations
  FlowStats stats_;
};

}  // namespace stepcast::sim
