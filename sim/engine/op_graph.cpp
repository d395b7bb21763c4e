#include "sim/engine/op_graph.h"

#include <algorithm>
#include <queue>

#include <fmt/core.h>

#include "sim/engine/calendar_queue.h"
#include "sim/engine/flows.h"

namespace stepcast::sim {

namespace {
constexpr std::size_t most_ops = std::size_t{1} << 30;
constexpr std::uint32_t target_mask = 0x3fffffff;
}  // namespace

std::size_t OpGraph::bytes() const {
  return 4 * (durations.size() + offsets.size() + edges.size() + groups.size() + group_sizes.size()) +
         sizeof(Ticks) * (long_durations.size() + delays.size());
}

std::uint32_t OpGraphBuilder::add_op(Ticks duration) {
  if (duration < static_cast<Ticks>(OpGraph::table_bit)) {
    graph_.durations.push_back(static_cast<std::uint32_t>(duration));
  } else {
    graph_.durations.push_back(OpGraph::table_bit | static_cast<std::uint32_t>(graph_.long_durations.size()));
    graph_.long_durations.push_back(duration);
  }
  return static_cast<std::uint32_t>(graph_.durations.size() - 1);
}

void OpGraphBuilder::set_group(std::uint32_t op, std::uint32_t group, bool largest) {
  if (graph_.groups.size() <= op) graph_.groups.resize(op + std::size_t{1}, OpGraph::no_group);
  if (graph_.group_sizes.size() <= group) graph_.group_sizes.resize(group + std::size_t{1}, 0);
  graph_.groups[op] = group | (largest ? OpGraph::largest_bit : 0);
  ++graph_.group_sizes[group];
}

std::uint32_t OpGraphBuilder::add_bundle(std::uint64_t key, const FlowDemand& demand) {
  graph_.bundles.push_back({0, key, {}, demand, {}});
  return static_cast<std::uint32_t>(graph_.bundles.size() - 1);
}

void OpGraphBuilder::set_bundle(std::uint32_t op, std::uint32_t bundle) {
  if (graph_.bundle_of.size() <= op) graph_.bundle_of.resize(op + std::size_t{1}, OpGraph::no_group);
  graph_.bundle_of[op] = bundle;
  ++graph_.bundles[bundle].members;
}

void OpGraphBuilder::add_edge(std::uint32_t from, std::uint32_t to, Ticks delay, bool message) {
  std::uint32_t index = 0;
  if (delay != 0) {
    // Delays repeat from lane to lane: the last few are enough to keep the table small.
    const auto it = std::find_if(recent_delays_.begin(), recent_delays_.end(),
                                 [&](const auto& recent) { return recent.first == delay; });
    if (it != recent_delays_.end()) {
      index = it->second;
    } else {
      graph_.delays.push_back(delay);
      index = static_cast<std::uint32_t>(graph_.delays.size());
      if (recent_delays_.size() == 8) recent_delays_.erase(recent_delays_.begin());
      recent_delays_.emplace_back(delay, index);
    }
  }
  edges_.push_back({from, to | (message ? OpGraph::message_bit : 0), index});
}

Result<OpGraph> OpGraphBuilder::build() && {
  OpGraph& g = graph_;
  const std::size_t n = g.durations.size();
  std::size_t words = edges_.size();
  for (const Edge& e : edges_) words += e.delay != 0 ? 1 : 0;
  if (n >= most_ops || words > 0xffffffffU) {
    return make_error(ErrorCode::unsupported,
                      fmt::format("a graph of {} ops and {} words of edges; at most 2^30 and 2^32", n, words));
  }
  if (!g.groups.empty()) g.groups.resize(n, OpGraph::no_group);
  if (!g.bundle_of.empty()) g.bundle_of.resize(n, OpGraph::no_group);
  g.offsets.assign(n + 1, 0);
  for (const Edge& e : edges_) g.offsets[e.from + std::size_t{1}] += e.delay != 0 ? 2 : 1;
  for (std::size_t i = 0; i < n; ++i) g.offsets[i + 1] += g.offsets[i];
  g.edges.resize(words);
  std::vector<std::uint32_t> next(g.offsets.begin(), g.offsets.end() - 1);
  for (const Edge& e : edges_) {
    std::uint32_t& at = next[e.from];
    g.edges[at++] = e.to | (e.delay != 0 ? OpGraph::delay_bit : 0);
    if (e.delay != 0) g.edges[at++] = e.delay - 1;
  }
  return std::move(graph_);
}

namespace {

constexpr std::uint32_t nobody = 0xffffffff;

// Times double as running maxima until an op is scheduled.
class GraphRun {
 public:
  explicit GraphRun(const OpGraph& graph) : graph_(graph), flows_(graph.link_capacity, &graph.flow_rule) {
    times_.ops.resize(graph.size());
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      ++times_.ops[graph.edges[e] & target_mask].missing;
      if ((graph.edges[e] & OpGraph::delay_bit) != 0) ++e;
    }
    groups_.resize(graph.group_sizes.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].missing = graph.group_sizes[g];
    if (graph.bundle_of.empty()) return;
    bundles_.resize(graph.bundles.size());
    for (std::size_t b = 0; b < bundles_.size(); ++b) bundles_[b].missing = graph.bundles[b].members;
    next_in_bundle_.assign(graph.size(), nobody);
  }

  Result<OpTimes> run() && {
    for (std::uint32_t op = 0; op < graph_.size(); ++op) {
      if (times_.ops[op].missing == 0) ready(op);
    }
    const std::size_t done = bundles_.empty() ? run_alone() : run_shared();
    if (done < graph_.size()) {
      const auto stuck =
          std::find_if(times_.ops.begin(), times_.ops.end(), [](const OpTime& t) { return t.missing > 0; });
      return make_error(ErrorCode::invalid,
                        fmt::format("{} of {} ops wait for each other for ever, the first of them op {}",
                                    graph_.size() - done, graph_.size(), stuck - times_.ops.begin()));
    }
    return std::move(times_);
  }

 private:
  // Without shared links. Number of ops that have ended.
  std::size_t run_alone() {
    std::size_t done = 0;
    while (!queue_.empty()) {
      const CalendarQueue::Event event = queue_.pop();
      if (queue_.opened()) prefetch_today();
      ++done;
      times_.makespan = event.time;
      release(event.id, event.time);
    }
    return done;
  }

  // All that happens at one time is in before rates are solved: flows end, then begin, then ops end, until nothing more
  // happens. Members of a flow may end before it; they are told of when it ends.
  std::size_t run_shared() {
    std::size_t done = 0;
    while (true) {
      Ticks now = queue_.empty() ? FlowSet::never : queue_.next_time();
      if (!arrivals_.empty()) now = std::min(now, arrivals_.top().begin);
      now = std::min(now, flows_.next());
      if (now == FlowSet::never) return done;
      clock_ = now;
      for (bool more = true; more;) {
        more = false;
        std::uint32_t bundle = 0;
        for (; flows_.take(now, bundle); more = true) end_bundle(bundle);
        for (; !arrivals_.empty() && arrivals_.top().begin <= now; more = true) start_flow();
        for (; !queue_.empty() && queue_.next_time() <= now; more = true) {
          const std::uint32_t op = queue_.pop().id;
          ++done;
          times_.makespan = std::max(times_.makespan, times_.ops[op].end);
          release(op, times_.ops[op].end);
        }
      }
    }
  }

  struct Bundle {
    std::uint32_t missing = 0, members = nobody;  // list through next_in_bundle_
    Ticks begin = 0, end = 0;                     // latest, alone
  };
  struct Arrival {
    Ticks begin;
    std::uint64_t key;
    std::uint32_t bundle;
    bool operator>(const Arrival& o) const { return begin != o.begin ? begin > o.begin : key > o.key; }
  };

  // The op's end alone is known.
  void join_bundle(std::uint32_t op, std::uint32_t index) {
    Bundle& b = bundles_[index];
    const OpTime& t = times_.ops[op];
    b.begin = std::max(b.begin, t.begin);
    b.end = std::max(b.end, t.end);
    next_in_bundle_[op] = b.members;
    b.members = op;
    if (--b.missing > 0) return;
    if (b.end > b.begin) {
      arrivals_.push({b.begin, graph_.bundles[index].key, index});
    } else {
      release_bundle(b, 0);
    }
  }

  void start_flow() {
    const Arrival arrival = arrivals_.top();
    arrivals_.pop();
    const OpGraph::Bundle& wanted = graph_.bundles[arrival.bundle];
    const Ticks work = bundles_[arrival.bundle].end - arrival.begin;
    FlowDemand demand = wanted.demand;
    demand.nic = port_share(wanted.ports.nic, work);
    demand.nvlink = port_share(wanted.ports.nvlink, work);
    demand.volume = &wanted.volume;
    flows_.start(arrival.begin, work, arrival.key, arrival.bundle, demand);
  }

  void end_bundle(std::uint32_t index) {
    Bundle& b = bundles_[index];
    release_bundle(b, std::max<Ticks>(0, clock_ - b.end));
  }

  void release_bundle(const Bundle& b, Ticks delay) {
    for (std::uint32_t op = b.members; op != nobody; op = next_in_bundle_[op]) {
      times_.ops[op].end += delay;
      queue_.push(std::max(times_.ops[op].end, clock_), op);
    }
  }

  struct Group {
    std::uint32_t missing = 0;
    std::uint32_t members = nobody;  // list through next_member
    Ticks begin = 0, longest = 0;
  };

  // Ops are many and scattered, so what the coming events touch is asked for before it is needed: their edges when
  // they are scheduled, the first two targets when their bucket opens.
  void prefetch_today() const {
    for (const CalendarQueue::Event& event : queue_.today()) {
      const std::uint32_t first = graph_.offsets[event.id];
      const std::uint32_t last = std::min(graph_.offsets[event.id + std::size_t{1}], first + 2);
      for (std::uint32_t e = first; e < last; ++e) __builtin_prefetch(&times_.ops[graph_.edges[e] & target_mask]);
    }
  }

  void release(std::uint32_t op, Ticks end) {
    const std::uint32_t last = graph_.offsets[op + std::size_t{1}];
    for (std::uint32_t e = graph_.offsets[op]; e < last; ++e) {
      const std::uint32_t word = graph_.edges[e];
      const std::uint32_t to = word & target_mask;
      OpTime& target = times_.ops[to];
      Ticks at = end;
      if ((word & OpGraph::delay_bit) != 0) at += graph_.delays[graph_.edges[++e]];
      Ticks& bound = (word & OpGraph::message_bit) != 0 ? target.end : target.ready;
      bound = std::max(bound, at);
      if (--target.missing == 0) ready(to);
    }
  }

  void ready(std::uint32_t op) {
    OpTime& t = times_.ops[op];
    const std::uint32_t word = groups_.empty() ? OpGraph::no_group : graph_.groups[op];
    if (word == OpGraph::no_group) return schedule(op, t.ready, graph_.duration(op));
    Group& group = groups_[word & ~OpGraph::largest_bit];
    group.begin = std::max(group.begin, t.ready);
    group.longest = std::max(group.longest, graph_.duration(op));
    t.next_member = group.members;
    group.members = op;
    if (--group.missing > 0) return;
    for (std::uint32_t m = group.members; m != nobody; m = times_.ops[m].next_member) {
      const bool largest = (graph_.groups[m] & OpGraph::largest_bit) != 0;
      schedule(m, group.begin, largest ? group.longest : graph_.duration(m));
    }
  }

  void schedule(std::uint32_t op, Ticks begin, Ticks duration) {
    OpTime& t = times_.ops[op];
    t.begin = begin;
    t.end = std::max(begin + duration, t.end);
    const std::uint32_t bundle = bundles_.empty() ? OpGraph::no_group : graph_.bundle_of[op];
    // What loads nothing does not wait for the other lanes of its unit.
    if (bundle != OpGraph::no_group && graph_.bundles[bundle].ports.any()) return join_bundle(op, bundle);
    queue_.push(std::max(t.end, clock_), op);
    __builtin_prefetch(graph_.edges.data() + graph_.offsets[op]);
  }

  const OpGraph& graph_;
  OpTimes times_;
  std::vector<Group> groups_;
  CalendarQueue queue_;
  Ticks clock_ = 0;  // with bundles only
  std::vector<Bundle> bundles_;
  std::vector<std::uint32_t> next_in_bundle_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  FlowSet flows_;
};

}  // namespace

Result<OpTimes> run_graph(const OpGraph& graph) { return GraphRun(graph).run(); }

}  // namespace stepcast::sim
