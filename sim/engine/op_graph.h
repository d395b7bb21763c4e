// A stored graph of operations, and its exact evaluation in time order.
//
// An op is ready when all its plain edges are done; it ends no earlier than the
// ends that its message edges bring:
//   ready = max over plain edges of (end of source + delay), 0 without edges
//   begin = ready, or the last ready time of its group
//   end   = max(begin + duration, ends of message sources)
// where duration is its own, or the longest of its group.
//
// Ops may form bundles that move over shared links together (flow_port.h); flows
// and rates are those of tier 2 (flows.h), and so is the order of updates.
//
// About 16 bytes an op plus 4 an edge: an op's duration and offset, a word an
// edge, and for graphs with groups a word an op. Ops number below 2^30.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/engine/flow_parts.h"
#include "sim/engine/flow_port.h"
#include "sim/engine/huge_pages.h"

namespace stepcast::sim {

struct OpGraph {
  static constexpr std::uint32_t no_group = 0xffffffff;
  static constexpr std::uint32_t table_bit = 0x80000000;    // duration: index into long_durations
  static constexpr std::uint32_t largest_bit = 0x80000000;  // group: everybody takes the longest duration
  static constexpr std::uint32_t delay_bit = 0x80000000;    // edge: the next word is an index into delays
  static constexpr std::uint32_t message_bit = 0x40000000;  // edge: bounds the end, not the begin

  std::vector<std::uint32_t> durations;  // by op
  std::vector<Ticks> long_durations;     // those of 2^31 ticks (2 ms) and more
  std::vector<std::uint32_t> offsets;    // into edges, by op, and one more
  std::vector<std::uint32_t> edges;      // words: target and bits, with delay_bit a second word
  std::vector<Ticks> delays;
  std::vector<std::uint32_t> groups;  // by op; empty: no op is in a group
  std::vector<std::uint32_t> group_sizes;

  struct Bundle {
    std::uint32_t members = 0;
    std::uint64_t key = 0;
    PortTicks ports;
    FlowDemand demand;          // without rates and volume
    std::vector<float> volume;  // by lane
  };
  std::vector<std::uint32_t> bundle_of;  // by op, no_group: none; empty: no op is in a bundle
  std::vector<Bundle> bundles;
  std::vector<double> link_capacity;
  FlowRule flow_rule;

  [[nodiscard]] std::size_t size() const { return durations.size(); }
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] Ticks duration(std::size_t op) const {
    const std::uint32_t d = durations[op];
    return (d & table_bit) == 0 ? static_cast<Ticks>(d) : long_durations[d & ~table_bit];
  }
};

// Adds ops and edges in any order; a target may be added after its source.
class OpGraphBuilder {
 public:
  std::uint32_t add_op(Ticks duration);
  // The op becomes a member of the group; ids are chosen by the caller, small and dense.
  void set_group(std::uint32_t op, std::uint32_t group, bool largest);
  void add_edge(std::uint32_t from, std::uint32_t to, Ticks delay = 0, bool message = false);
  // Something that moves together, with no members yet; its number. What the demand points to is borrowed.
  std::uint32_t add_bundle(std::uint64_t key, const FlowDemand& demand);
  void set_bundle(std::uint32_t op, std::uint32_t bundle);
  // What one member, or several together, need of the links.
  void raise_ports(std::uint32_t bundle, const PortTicks& ports) { graph_.bundles[bundle].ports.raise(ports); }
  void set_volume(std::uint32_t bundle, std::vector<float> volume) {
    graph_.bundles[bundle].volume = std::move(volume);
  }
  void set_links(const std::vector<double>& capacity, const FlowRule& rule) {
    graph_.link_capacity = capacity;
    graph_.flow_rule = rule;
  }
  // Fails with `unsupported` beyond 2^30 ops or 2^32 words of edges.
  [[nodiscard]] Result<OpGraph> build() &&;

 private:
  struct Edge {
    std::uint32_t from, to;
    std::uint32_t delay;  // index + 1 into delays, 0: none
  };
  OpGraph graph_;
  std::vector<Edge> edges_;
  std::vector<std::pair<Ticks, std::uint32_t>> recent_delays_;
};

// One op's times; the rest is what its evaluation needed, kept beside them because they are touched together.
struct OpTime {
  Ticks ready = 0, begin = 0, end = 0;
  std::uint32_t missing = 0;      // edges whose source has not ended
  std::uint32_t next_member = 0;  // of its group, those that were ready before it
};
struct OpTimes {
  HugeVector<OpTime> ops;
  Ticks makespan = 0;
};

// Takes events in the order (time, op). Fails with `invalid` when ops wait for each other for ever.
[[nodiscard]] Result<OpTimes> run_graph(const OpGraph& graph);

}  // namespace stepcast::sim
