// The traffic of group classes, channels and joins on the fabric's links, whole and in parts.
//
// Internal to the lowering: links.cpp merges these links and hands them to the program.
#pragma once

#include <cstdint>
#include <vector>

#include "parallelism/lowering/stage.h"
#include "topology/link_load.h"

namespace stepcast::parallelism {

// One list's traffic cut into parts (sim::LinkParts), on links of the fabric.
struct CutTraffic {
  struct Part {
    std::int32_t out = 0, in = 0;
    double even = 0;
    std::vector<topology::LinkLoad> links;
  };
  std::vector<std::vector<std::int32_t>> places;  // lanes within the unit
  std::vector<Part> parts;
};

// For each unit, or for the whole cohort.
struct Traffic {
  std::vector<std::vector<topology::LinkLoad>> of_unit;
  std::vector<CutTraffic> boxes, nics;  // of each list; empty: not cut so
};

class TrafficFinder {
 public:
  // `boxes`, `nics`: whether traffic is cut into box pairs and NIC pairs.
  TrafficFinder(const Lowering& low, bool boxes, bool nics) : low_(low), boxes_(boxes), nics_(nics) {}

  [[nodiscard]] Traffic of_group(std::size_t cohort, const sim::GroupClass& group) const;
  [[nodiscard]] Traffic of_channel(const sim::Channel& channel) const;
  // DualPipe's two copies of a piece: groups that span two stages.
  [[nodiscard]] Traffic of_pair(const sim::JoinClass& join) const;

 private:
  [[nodiscard]] DeviceId device(std::size_t cohort, std::int32_t lane) const;

  const Lowering& low_;
  bool boxes_, nics_;
};

}  // namespace stepcast::parallelism
