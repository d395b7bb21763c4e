// A directed network with capacities and its maximum flow (Boost push-relabel).
//
// Capacities are rates; they are scaled to 64-bit integers so that the flow is
// exact to 2^-50 of the largest sum and the solver terminates.
#pragma once

#include <vector>

namespace stepcast::topology {

class FlowNetwork {
 public:
  int add_vertex() { return vertices_++; }
  // Capacities of 0 and below are dropped.
  void add_edge(int from, int to, double capacity);
  [[nodiscard]] double max_flow(int source, int sink) const;

 private:
  struct Edge {
    int from, to;
    double capacity;
  };
  int vertices_ = 0;
  std::vector<Edge> edges_;
};

}  // namespace stepcast::topology
