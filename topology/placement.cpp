#include <algorithm>
#include <vector>

#include "topology/fabric.h"
#include "topology/fabric_layout.h"

namespace stepcast::topology {

// Packed: device order. Scattered: whole boxes, one of each leaf group in turn, so that neighbouring boxes of the job
// share no leaf where there are two groups or more.
std::vector<DeviceId> place_ranks(const Fabric& fabric, int ranks) {
  const FabricLayout& f = fabric.layout();
  STEPCAST_ASSERT(ranks >= 0 && ranks <= f.devices);
  std::vector<DeviceId> placement;
  placement.reserve(static_cast<std::size_t>(ranks));
  if (fabric.cluster().placement == Placement::packed || f.groups == 1) {
    for (int r = 0; r < ranks; ++r) placement.emplace_back(r);
    return placement;
  }
  const int boxes = (f.devices + f.box() - 1) / f.box();
  std::vector<std::vector<int>> by_group(static_cast<std::size_t>(f.groups));
  for (int b = 0; b < boxes; ++b) by_group[static_cast<std::size_t>(f.group(b * f.box()))].push_back(b);
  std::size_t deepest = 0;
  for (const auto& group : by_group) deepest = std::max(deepest, group.size());
  for (std::size_t slot = 0; slot < deepest; ++slot) {
    for (const auto& group : by_group) {
      if (slot >= group.size()) continue;
      const int first = group[slot] * f.box();
      const int end = std::min(first + f.box(), f.devices);
      for (int d = first; d < end && static_cast<int>(placement.size()) < ranks; ++d) placement.emplace_back(d);
    }
  }
  return placement;
}

}  // namespace stepcast::topology
