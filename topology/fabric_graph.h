// The fabric built explicitly as a Boost graph from its links, and searched.
//
// The slow, obviously right way of what Fabric computes from ids: one vertex for
// each device, NVLink switch, NIC, leaf switch and spine plane, one edge a link.
// For fabrics of up to some thousand devices; tests compare it with Fabric.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "topology/fabric.h"

namespace stepcast::topology {

class FabricGraph {
 public:
  explicit FabricGraph(const Fabric& fabric);  // keeps a reference
  ~FabricGraph();
  FabricGraph(const FabricGraph&) = delete;
  FabricGraph& operator=(const FabricGraph&) = delete;

  [[nodiscard]] int vertex_count() const;
  [[nodiscard]] int edge_count() const;

  // Dijkstra over costs that prefer NVLink to NICs and NICs to the spine. Only devices that PXN may use relay: those
  // of a's host. Empty when a == b or there is no path.
  [[nodiscard]] std::vector<LinkId> route(DeviceId a, DeviceId b) const;

  // Cost of a route by the same rule: equal routes have equal costs, though ties may differ in links.
  [[nodiscard]] int cost(std::span<const LinkId> route) const;

  // Whether the links join up from a to b.
  [[nodiscard]] bool connects(std::span<const LinkId> route, DeviceId a, DeviceId b) const;

  // Maximum flow over the whole graph without merging; devices of domains without a member do not relay.
  [[nodiscard]] BytesPerSecond cut_capacity(std::span<const DeviceId> from, std::span<const DeviceId> to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::topology
