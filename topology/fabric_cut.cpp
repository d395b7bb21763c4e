#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "topology/fabric_traffic.h"
#include "topology/flow_network.h"

namespace stepcast::topology {

namespace {

enum Role : char { absent = '.', relay = 'o', sender = 's', receiver = 'r' };

// One leaf group's boxes by pattern: (pattern, how many).
using GroupContent = std::vector<std::pair<std::string, int>>;

// Roles of a touched box's devices. Devices of a domain without sender or receiver take no part.
struct Box {
  int index;
  std::string roles;
};

std::vector<Box> touched_boxes(const FabricLayout& f, std::span<const DeviceId> from, std::span<const DeviceId> to) {
  std::vector<std::pair<int, char>> members;
  members.reserve(from.size() + to.size());
  for (const DeviceId d : from) members.emplace_back(d.value, sender);
  for (const DeviceId d : to) members.emplace_back(d.value, receiver);
  std::ranges::sort(members);
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto [device, role] = members[i];
    STEPCAST_ASSERT(device >= 0 && device < f.devices);
    STEPCAST_ASSERT(i == 0 || members[i - 1].first != device || members[i - 1].second == role);
    const int index = device / f.box();
    const int first = index * f.box();
    if (boxes.empty() || boxes.back().index != index) {
      const auto size = static_cast<std::size_t>(std::min(f.box(), f.devices - first));
      boxes.push_back({index, std::string(size, absent)});
    }
    std::string& roles = boxes.back().roles;
    const int domain_first = (device - first) / f.domain * f.domain;
    const int domain_end = std::min(domain_first + f.domain, static_cast<int>(roles.size()));
    for (int d = domain_first; d < domain_end; ++d) {
      char& other = roles[static_cast<std::size_t>(d)];
      if (other == absent) other = relay;
    }
    roles[static_cast<std::size_t>(device - first)] = role;
  }
  return boxes;
}

class CutNetwork {
 public:
  explicit CutNetwork(const FabricLayout& f) : f_(f), source_(net_.add_vertex()), sink_(net_.add_vertex()) {
    spine_ = net_.add_vertex();
  }

  // Leaf switches of a group, `copies` groups merged.
  std::vector<int> add_group(int group, double copies) {
    std::vector<int> leaves;
    for (int s = 0; s < f_.switches_per_group; ++s) {
      leaves.push_back(net_.add_vertex());
      net_.add_edge(leaves.back(), spine_, copies * f_.uplinks(group));
      net_.add_edge(spine_, leaves.back(), copies * f_.uplinks(group));
    }
    return leaves;
  }

  // `leaves_of(node in the box)`: the leaf switches of that node's group.
  template <class LeavesOf>
  void add_box(const std::string& roles, double copies, const LeavesOf& leaves_of) {
    std::vector<int> device(roles.size(), -1);
    std::map<int, std::pair<int, int>> nic;  // by node in box and rail: sending and receiving side
    std::map<int, int> switches;             // domain in box -> vertex
    const double nvlink = copies * f_.nvlink;
    const double unbounded = copies * (f_.nvlink + f_.nic) * 4;
    for (std::size_t i = 0; i < roles.size(); ++i) {
      if (roles[i] == absent) continue;
      const int local = static_cast<int>(i);
      device[i] = net_.add_vertex();
      if (roles[i] == sender) net_.add_edge(source_, device[i], unbounded);
      if (roles[i] == receiver) net_.add_edge(device[i], sink_, unbounded);
      if (!f_.mesh && f_.domain > 1) {
        const auto [at, added] = switches.try_emplace(local / f_.domain, 0);
        if (added) at->second = net_.add_vertex();
        net_.add_edge(device[i], at->second, nvlink);
        net_.add_edge(at->second, device[i], nvlink);
      }
      // Two sides, so that devices which share a NIC do not reach each other through it.
      const auto [at, added] = nic.try_emplace(f_.nic_index(local), 0, 0);
      auto& [up, down] = at->second;
      if (added) {
        up = net_.add_vertex();
        down = net_.add_vertex();
        const std::vector<int>& leaves = leaves_of(f_.node(local));
        const int leaf = leaves[static_cast<std::size_t>(f_.switches_per_group > 1 ? f_.rail(local) : 0)];
        net_.add_edge(up, leaf, copies * f_.nic);
        net_.add_edge(leaf, down, copies * f_.nic);
      }
      net_.add_edge(device[i], up, unbounded);
      net_.add_edge(down, device[i], unbounded);
    }
    if (f_.mesh) add_mesh(device, copies * f_.direct);
  }

  [[nodiscard]] double max_flow() const { return net_.max_flow(source_, sink_); }

 private:
  void add_mesh(const std::vector<int>& device, double capacity) {
    for (std::size_t a = 0; a < device.size(); ++a) {
      for (std::size_t b = 0; b < device.size(); ++b) {
        const bool joined = f_.domain_index(static_cast<int>(a)) == f_.domain_index(static_cast<int>(b));
        if (a != b && joined && device[a] >= 0 && device[b] >= 0) net_.add_edge(device[a], device[b], capacity);
      }
    }
  }

  const FabricLayout& f_;
  FlowNetwork net_;
  int source_, sink_, spine_ = -1;
};

// No domain and host of a box lies under two leaf groups.
bool boxes_nest_in_groups(const FabricLayout& f) {
  const int box_nodes = f.box() / f.per_node;
  return f.leaf_nodes % box_nodes == 0;
}

double merged_cut(const FabricLayout& f, const std::vector<Box>& boxes) {
  // Groups of the same size and content merge: size decides the uplinks.
  std::map<int, std::map<std::string, int>> by_group;
  for (const Box& box : boxes) ++by_group[f.group(box.index * f.box())][box.roles];
  struct Merged {
    int example = 0;
    int copies = 0;
  };
  std::map<std::tuple<int, GroupContent>, Merged> merged;
  for (const auto& [group, content] : by_group) {
    Merged& m = merged[{f.group_nodes(group), GroupContent(content.begin(), content.end())}];
    m.example = group;
    ++m.copies;
  }
  CutNetwork network(f);
  for (const auto& [key, m] : merged) {
    const std::vector<int> leaves = network.add_group(m.example, m.copies);
    for (const auto& [roles, count] : std::get<1>(key)) {
      network.add_box(roles, static_cast<double>(count) * m.copies,
                      [&](int) -> const std::vector<int>& { return leaves; });
    }
  }
  return network.max_flow();
}

double plain_cut(const FabricLayout& f, const std::vector<Box>& boxes) {
  CutNetwork network(f);
  std::map<int, std::vector<int>> leaves;
  for (const Box& box : boxes) {
    network.add_box(box.roles, 1, [&](int node_in_box) -> const std::vector<int>& {
      const int group = (box.index * (f.box() / f.per_node) + node_in_box) / f.leaf_nodes;
      auto at = leaves.find(group);
      if (at == leaves.end()) at = leaves.emplace(group, network.add_group(group, 1)).first;
      return at->second;
    });
  }
  return network.max_flow();
}

}  // namespace

BytesPerSecond cut_capacity(const FabricLayout& f, std::span<const DeviceId> from, std::span<const DeviceId> to) {
  if (from.empty() || to.empty()) return BytesPerSecond(0);
  const int domain = f.domain_index(from.front().value);
  const auto here = [&](DeviceId d) { return f.domain_index(d.value) == domain; };
  if (std::ranges::all_of(from, here) && std::ranges::all_of(to, here)) {
    const double senders = static_cast<double>(from.size());
    const double receivers = static_cast<double>(to.size());
    return BytesPerSecond(f.mesh ? senders * receivers * f.direct : std::min(senders, receivers) * f.nvlink);
  }
  const std::vector<Box> boxes = touched_boxes(f, from, to);
  return BytesPerSecond(boxes_nest_in_groups(f) ? merged_cut(f, boxes) : plain_cut(f, boxes));
}

}  // namespace stepcast::topology
