// The regular numbering of a fabric: which box, domain, rail, leaf and link an
// id belongs to, as arithmetic. Internal to topology's fabric files.
//
// Device d is local index d % per_node of node d / per_node. Links are numbered
// in blocks: NVLink up then down by device (a mesh: direct links by device and
// peer), NIC up then down by node and rail, leaf up then down by leaf switch and
// spine plane. Sprayed routing has one pooled plane; hashed routing has as many
// as a leaf has uplinks, and the last, partly filled leaf group has fewer.
#pragma once

#include <array>
#include <cstddef>

#include "topology/cluster.h"

namespace stepcast::topology {

struct FabricLayout {
  explicit FabricLayout(const Cluster& cluster);

  int devices, per_node, domain, rails, leaf_nodes, nodes, groups;
  int switches_per_group;  // leaf switches: `rails`, or 1 without rail optimisation
  bool mesh, pxn, hashed;
  double nvlink = 0, direct = 0, nic = 0;  // bytes/s a device, a direct link, a physical NIC
  double oversubscription = 1;
  int planes_full = 1, planes_last = 1, full_groups = 0;
  int first_nvlink_down = 0, first_nic_up = 0, first_nic_down = 0, first_leaf_up = 0, first_leaf_down = 0;
  int leaf_links = 0, links = 0;

  [[nodiscard]] int node(int d) const { return d / per_node; }
  [[nodiscard]] int domain_index(int d) const { return d / domain; }
  [[nodiscard]] int rail(int d) const { return d % per_node * rails / per_node; }
  [[nodiscard]] int group(int d) const { return node(d) / leaf_nodes; }
  [[nodiscard]] int nic_index(int d) const { return node(d) * rails + rail(d); }
  [[nodiscard]] int leaf_switch(int d) const {
    return group(d) * switches_per_group + (switches_per_group > 1 ? rail(d) : 0);
  }
  // Whole hosts and whole domains: the larger of the two.
  [[nodiscard]] int box() const { return domain > per_node ? domain : per_node; }

  [[nodiscard]] int group_nodes(int group) const;
  [[nodiscard]] double uplinks(int group) const;  // bytes/s of one leaf switch, each direction
  [[nodiscard]] int planes(int leaf_switch) const;
  [[nodiscard]] int leaf_link(int leaf_switch, int plane) const;
  void leaf_link_ends(int index, int& leaf_switch, int& plane) const;

  // A route: at most NVLink up and down, NIC up, leaf up and down, NIC down.
  struct Hops {
    std::array<int, 6> ids{};
    std::size_t count = 0;
    void add(int id) { ids[count++] = id; }
    [[nodiscard]] std::size_t size() const { return count; }
    [[nodiscard]] const int* begin() const { return ids.data(); }
    [[nodiscard]] const int* end() const { return ids.data() + count; }
  };
  [[nodiscard]] Hops hops(int a, int b) const;

 private:
  [[nodiscard]] int planes_of_size(int group_nodes) const;
  [[nodiscard]] int relay(int a, int b) const;
  void add_domain_hop(Hops& hops, int a, int b) const;
};

}  // namespace stepcast::topology
