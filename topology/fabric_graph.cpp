#include "topology/fabric_graph.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>

#include "topology/fabric_layout.h"
#include "topology/flow_network.h"

namespace stepcast::topology {

namespace {

struct Edge {
  int link = -1;  // none between a device and its NIC, and inside the spine
  int cost = 0;
  int index = 0;
};

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;
using Vertex = Graph::vertex_descriptor;

constexpr int closed = 1 << 20;  // above any route's cost

// By vertex: boost::edges(), which copies of a graph use too, trips -Wmaybe-uninitialized in g++ 12.
template <class Visit>
void for_each_edge(const Graph& graph, const Visit& visit) {
  for (Vertex v = 0; v < boost::num_vertices(graph); ++v) {
    const auto [first, last] = boost::out_edges(v, graph);
    for (auto e = first; e != last; ++e) visit(*e);
  }
}

int cost_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink_up:
    case LinkKind::nvlink_down:
      return 1;
    case LinkKind::nvlink_direct:
      return 2;
    case LinkKind::nic_up:
    case LinkKind::nic_down:
      return 16;
    case LinkKind::leaf_up:
    case LinkKind::leaf_down:
      return 256;
  }
  return closed;
}

}  // namespace

// Vertices in blocks: devices, NVLink switches, NICs (sending, then receiving side), leaf switches, spine planes. The
// pooled spine has one vertex a rail and plane, joined by a hub, so that changing rails there costs more than PXN.
struct FabricGraph::State {
  const Fabric& fabric;
  const FabricLayout& f;
  Vertex switches, nics, leaves, spine;
  int planes;
  Graph graph;
  int edges = 0;  // boost::num_edges counts them anew

  explicit State(const Fabric& owner)
      : fabric(owner),
        f(owner.layout()),
        switches(static_cast<Vertex>(f.devices)),
        nics(switches + static_cast<Vertex>((f.devices + f.domain - 1) / f.domain)),
        leaves(nics + static_cast<Vertex>(2 * f.nodes * f.rails)),
        spine(leaves + static_cast<Vertex>(owner.leaf_switch_count())),
        planes(std::max(f.planes_full, f.planes_last)),
        graph(spine + static_cast<Vertex>(planes * (f.switches_per_group + 1))) {
    for (int d = 0; d < f.devices; ++d) {
      add(device(d), nic_up(d), -1, 0);
      add(nic_down(d), device(d), -1, 0);
    }
    for (int plane = 0; plane < planes; ++plane) {
      for (int rail = 0; rail < f.switches_per_group; ++rail) {
        add(spine_of(rail, plane), spine_of(f.switches_per_group, plane), -1, 2);
        add(spine_of(f.switches_per_group, plane), spine_of(rail, plane), -1, 2);
      }
    }
    for (int i = 0; i < fabric.link_count(); ++i) {
      const Link link = fabric.link(LinkId(i));
      const auto [from, to] = ends(link);
      if (std::max(from, to) < boost::num_vertices(graph)) add(from, to, i, cost_of(link.kind));
    }
  }

  void add(Vertex from, Vertex to, int link, int cost) { boost::add_edge(from, to, Edge{link, cost, edges++}, graph); }

  [[nodiscard]] Vertex device(int d) const { return static_cast<Vertex>(d); }
  [[nodiscard]] Vertex nic_up(int d) const { return nics + static_cast<Vertex>(f.nic_index(d)); }
  [[nodiscard]] Vertex nic_down(int d) const { return nic_up(d) + static_cast<Vertex>(f.nodes * f.rails); }
  // `rail` = switches_per_group is the hub.
  [[nodiscard]] Vertex spine_of(int rail, int plane) const {
    return spine + static_cast<Vertex>(rail * planes + plane);
  }
  [[nodiscard]] Vertex leaf(int s) const { return leaves + static_cast<Vertex>(s); }
  [[nodiscard]] Vertex domain_switch(int d) const { return switches + static_cast<Vertex>(f.domain_index(d)); }

  [[nodiscard]] std::pair<Vertex, Vertex> ends(const Link& link) const {
    const int owner = link.owner;
    switch (link.kind) {
      case LinkKind::nvlink_up:
        return {device(owner), domain_switch(owner)};
      case LinkKind::nvlink_down:
        return {domain_switch(owner), device(owner)};
      case LinkKind::nvlink_direct:
        // A slot of a partly filled domain has a link that leads nowhere.
        return {device(owner), link.peer < f.devices ? device(link.peer) : boost::num_vertices(graph)};
      case LinkKind::nic_up:
        return {nic_up(owner), leaf(f.leaf_switch(owner))};
      case LinkKind::nic_down:
        return {leaf(f.leaf_switch(owner)), nic_down(owner)};
      case LinkKind::leaf_up:
        return {leaf(owner), spine_of(owner % f.switches_per_group, link.peer)};
      case LinkKind::leaf_down:
        return {spine_of(owner % f.switches_per_group, link.peer), leaf(owner)};
    }
    return {0, 0};
  }
};

FabricGraph::FabricGraph(const Fabric& fabric) : state_(std::make_unique<State>(fabric)) {}
FabricGraph::~FabricGraph() = default;

int FabricGraph::vertex_count() const { return static_cast<int>(boost::num_vertices(state_->graph)); }
int FabricGraph::edge_count() const { return state_->edges; }

std::vector<LinkId> FabricGraph::route(DeviceId a, DeviceId b) const {
  const State& s = *state_;
  const auto open = [&](Vertex to) {
    if (to >= s.switches) return true;
    const int d = static_cast<int>(to);
    return d == b.value || (s.f.pxn && s.f.node(d) == s.f.node(a.value));
  };
  const Graph& graph = s.graph;
  std::vector<int> cost(static_cast<std::size_t>(s.edges));
  for_each_edge(graph, [&](Graph::edge_descriptor e) {
    cost[static_cast<std::size_t>(graph[e].index)] = open(boost::target(e, graph)) ? graph[e].cost : closed;
  });
  std::vector<Vertex> before(boost::num_vertices(graph));
  std::vector<int> distance(boost::num_vertices(graph));
  boost::dijkstra_shortest_paths(
      graph, s.device(a.value),
      boost::weight_map(boost::make_iterator_property_map(cost.data(), boost::get(&Edge::index, graph)))
          .predecessor_map(before.data())
          .distance_map(distance.data()));
  std::vector<LinkId> links;
  if (distance[s.device(b.value)] >= closed) return links;
  for (Vertex at = s.device(b.value); at != s.device(a.value); at = before[at]) {
    // Parallel edges do not occur: each pair of vertices is joined once a direction.
    const Edge& edge = graph[boost::edge(before[at], at, graph).first];
    if (edge.link >= 0) links.emplace_back(edge.link);
  }
  std::ranges::reverse(links);
  return links;
}

int FabricGraph::cost(std::span<const LinkId> route) const {
  int total = 0;
  for (const LinkId id : route) total += cost_of(state_->fabric.link(id).kind);
  return total;
}

bool FabricGraph::connects(std::span<const LinkId> route, DeviceId a, DeviceId b) const {
  const State& s = *state_;
  Vertex at = s.device(a.value);
  // A route names no link between a device and its NIC, nor inside a spine plane: step over them.
  const auto steps = [&](Vertex from, Vertex to) {
    if (from == to) return true;
    const auto planes = static_cast<Vertex>(s.planes);
    const bool spine = from >= s.spine && to >= s.spine && (from - s.spine) % planes == (to - s.spine) % planes;
    const bool nic = (from >= s.nics && from < s.leaves) != (to >= s.nics && to < s.leaves);
    return spine || (nic && std::min(from, to) < s.switches && boost::edge(from, to, s.graph).second);
  };
  for (const LinkId id : route) {
    const auto [from, to] = s.ends(s.fabric.link(id));
    if (!steps(at, from)) return false;
    at = to;
  }
  return steps(at, s.device(b.value));
}

BytesPerSecond FabricGraph::cut_capacity(std::span<const DeviceId> from, std::span<const DeviceId> to) const {
  const State& s = *state_;
  std::vector<bool> touched(static_cast<std::size_t>(s.nics - s.switches), false);
  for (const auto& set : {from, to}) {
    for (const DeviceId d : set) touched[static_cast<std::size_t>(s.f.domain_index(d.value))] = true;
  }
  const auto open = [&](Vertex v) {
    return v >= s.switches || touched[static_cast<std::size_t>(s.f.domain_index(static_cast<int>(v)))];
  };
  FlowNetwork network;
  for (std::size_t v = 0; v < boost::num_vertices(s.graph); ++v) network.add_vertex();
  const int source = network.add_vertex();
  const int sink = network.add_vertex();
  const double unbounded = 8 * (s.f.nvlink + s.f.nic);
  const double spine = 8 * s.f.nic * s.f.nodes * s.f.rails / std::min(1.0, s.f.oversubscription);
  for_each_edge(s.graph, [&](Graph::edge_descriptor e) {
    const Vertex u = boost::source(e, s.graph);
    const Vertex v = boost::target(e, s.graph);
    if (!open(u) || !open(v)) return;
    const int link = s.graph[e].link;
    network.add_edge(static_cast<int>(u), static_cast<int>(v),
                     link < 0 ? (u >= s.spine ? spine : unbounded) : s.fabric.link(LinkId(link)).capacity.value);
  });
  for (const DeviceId d : from) network.add_edge(source, d.value, unbounded);
  for (const DeviceId d : to) network.add_edge(d.value, sink, unbounded);
  return BytesPerSecond(network.max_flow(source, sink));
}

}  // namespace stepcast::topology
