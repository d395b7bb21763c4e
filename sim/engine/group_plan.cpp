#include "sim/engine/group_plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include "sim/engine/lanes.h"

namespace stepcast::sim {
namespace {

// The lanes of one group within a block, as a mask of eight bits, when it is a coset of a set of index bits.
std::optional<std::uint32_t> coset_mask(std::uint32_t pattern) {
  std::uint32_t mask = 0;
  std::uint32_t first = 0;
  while (((pattern >> first) & 1U) == 0) ++first;
  for (std::uint32_t lane = 0; lane < block_lanes; ++lane) {
    if (((pattern >> lane) & 1U) != 0) mask |= lane ^ first;
  }
  std::uint32_t coset = 0;
  for (std::uint32_t lane = 0; lane < block_lanes; ++lane) {
    if (((lane ^ first) & ~mask) == 0) coset |= 1U << lane;
  }
  if (coset != pattern) return std::nullopt;
  return mask;
}

// The blocks that one group touches, and which lanes of them; nothing if that differs from block to block.
struct Shape {
  std::vector<std::uint32_t> blocks;
  std::uint32_t mask = 0;
};

std::optional<Shape> shape_of(const std::int32_t* lanes, std::size_t size) {
  std::map<std::uint32_t, std::uint32_t> patterns;
  for (std::size_t i = 0; i < size; ++i) {
    const auto lane = static_cast<std::uint32_t>(lanes[i]);
    patterns[lane / block_lanes] |= 1U << (lane % block_lanes);
  }
  Shape shape;
  for (const auto& [block, pattern] : patterns) {
    if (pattern != patterns.begin()->second) return std::nullopt;
    shape.blocks.push_back(block);
  }
  const auto mask = coset_mask(patterns.begin()->second);
  if (!mask) return std::nullopt;
  shape.mask = *mask;
  return shape;
}

std::optional<GroupPlan> plan_blocks(const GroupClass& group) {
  if (group.lanes.size() % block_lanes != 0) return std::nullopt;
  const auto size = static_cast<std::size_t>(group.group_size);
  GroupPlan plan;
  plan.kind = GroupPlan::Kind::blocks;
  for (std::size_t g = 0; g < group.lanes.size() / size; ++g) {
    const auto shape = shape_of(&group.lanes[g * size], size);
    if (!shape) return std::nullopt;
    std::vector<std::uint32_t> offsets = shape->blocks;
    for (std::uint32_t& offset : offsets) offset -= shape->blocks[0];
    if (g == 0) {
      plan.offsets = offsets;
      plan.low_mask = shape->mask;
    } else if (offsets != plan.offsets || shape->mask != plan.low_mask) {
      return std::nullopt;
    }
    plan.bases.push_back(shape->blocks[0]);
  }
  // Interleaved groups share their blocks: one unit for all of them. Each unit is then complete, because the groups
  // are a partition and equal in shape.
  std::sort(plan.bases.begin(), plan.bases.end());
  plan.bases.erase(std::unique(plan.bases.begin(), plan.bases.end()), plan.bases.end());
  return plan;
}

}  // namespace

GroupPlan plan_groups(const GroupClass& group) {
  if (group.group_size == 1) return {};
  if (auto plan = plan_blocks(group)) return *std::move(plan);
  GroupPlan plan;
  plan.kind = GroupPlan::Kind::indexed;
  plan.group_size = static_cast<std::uint32_t>(group.group_size);
  plan.lanes = group.lanes;
  return plan;
}

}  // namespace stepcast::sim
