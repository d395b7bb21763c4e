#include "sim/engine/op_graph.h"

#include <algorithm>

#include <fmt/core.h>

#include "sim/engine/calendar_queue.h"

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
  explicit GraphRun(const OpGraph& graph) : graph_(graph) {
    times_.ops.resize(graph.size());
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      ++times_.ops[graph.edges[e] & target_mask].missing;
      if ((graph.edges[e] & OpGraph::delay_bit) != 0) ++e;
    }
    groups_.resize(graph.group_sizes.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].missing = graph.group_sizes[g];
  }

  Result<OpTimes> run() && {
    for (std::uint32_t op = 0; op < graph_.size(); ++op) {
      if (times_.ops[op].missing == 0) ready(op);
    }
    std::size_t done = 0;
    while (!queue_.empty()) {
      const CalendarQueue::Event event = queue_.pop();
      if (queue_.opened()) prefetch_today();
      ++done;
      times_.makespan = event.time;
      release(event.id, event.time);
    }
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
    queue_.push(t.end, op);
    __builtin_prefetch(graph_.edges.data() + graph_.offsets[op]);
  }

  const OpGraph& graph_;
  OpTimes times_;
  std::vector<Group> groups_;
  CalendarQueue queue_;
};

}  // namespace

Result<OpTimes> run_graph(const OpGraph& graph) { return GraphRun(graph).run(); }

}  // namespace stepcast::sim
