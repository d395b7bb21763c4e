#include "topology/flow_network.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

namespace stepcast::topology {

namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;

struct FlowEdge {
  std::int64_t capacity = 0;
  std::int64_t residual = 0;
  Traits::edge_descriptor reverse;
};

using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, FlowEdge>;

}  // namespace

void FlowNetwork::add_edge(int from, int to, double capacity) {
  if (capacity > 0) edges_.push_back({from, to, capacity});
}

double FlowNetwork::max_flow(int source, int sink) const {
  double total = 0;
  for (const Edge& edge : edges_) total += edge.capacity;
  if (total <= 0) return 0;
  // The sum of all capacities stays below 2^60: no excess overflows. Powers of two scale without rounding.
  const int exponent = std::min(0, 59 - std::ilogb(total));
  FlowGraph graph(static_cast<std::size_t>(vertices_));
  for (const Edge& edge : edges_) {
    const auto from = static_cast<std::size_t>(edge.from);
    const auto to = static_cast<std::size_t>(edge.to);
    const auto forward = boost::add_edge(from, to, graph).first;
    const auto backward = boost::add_edge(to, from, graph).first;
    graph[forward].capacity = std::llround(std::ldexp(edge.capacity, exponent));
    graph[forward].reverse = backward;
    graph[backward].reverse = forward;
  }
  const std::int64_t flow =
      boost::push_relabel_max_flow(graph, static_cast<std::size_t>(source), static_cast<std::size_t>(sink),
                                   boost::get(&FlowEdge::capacity, graph), boost::get(&FlowEdge::residual, graph),
                                   boost::get(&FlowEdge::reverse, graph), boost::get(boost::vertex_index, graph));
  return std::ldexp(static_cast<double>(flow), -exponent);
}

}  // namespace stepcast::topology
