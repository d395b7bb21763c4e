// How the largest value of each group is found, chosen by the shape of the groups.
//
// Groups that are contiguous or strided become a few vertical maxima of blocks
// of eight lanes and shuffles within a block; anything else goes by index.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program.h"

namespace stepcast::sim {

struct GroupPlan {
  enum class Kind : std::uint8_t { alone, blocks, indexed };
  Kind kind = Kind::alone;
  // blocks: a unit takes the blocks base + offset; lanes of a block that differ only in bits of `low_mask` are of one
  // group. A unit holds 8 / (low_mask + 1) interleaved groups, or all of one.
  std::vector<std::uint32_t> bases;
  std::vector<std::uint32_t> offsets;
  std::uint32_t low_mask = 0;
  // indexed: members, group by group.
  std::uint32_t group_size = 1;
  std::vector<std::int32_t> lanes;
};

// `group` is a partition of the lanes (see check()).
[[nodiscard]] GroupPlan plan_groups(const GroupClass& group);

}  // namespace stepcast::sim
