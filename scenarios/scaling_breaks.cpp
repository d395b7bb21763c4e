#include "scenarios/scaling_breaks.h"

#include <algorithm>

#include <fmt/format.h>

namespace stepcast::scenarios {
namespace {

// Below about this many rows an expert GEMM runs far from its asymptote (m0 of the fitted forms is 40 to 120).
constexpr double row_knee = 256;

std::string leaves_domain(const std::string& group, const GroupPlace& place) {
  return fmt::format("{} leaves the NVLink domain: {}", group, place.words);
}

std::string crosses_leaf(const std::string& group, const GroupPlace& place) {
  return fmt::format("{} traffic crosses a leaf switch: {}{}", group, place.words,
                     place.leaf_groups > 1 ? fmt::format(", under {} leaf groups", place.leaf_groups) : "");
}

// One number, the gradient norm, that all ranks add up: no traffic worth a name.
constexpr const char* whole_world = "world";

// A group that was not there had one rank.
void add_places(const ScaleMarks& before, const ScaleMarks& now, std::vector<std::string>& out) {
  const GroupPlace alone;
  for (const auto& [group, place] : now.places) {
    const auto known = before.places.find(group);
    const GroupPlace& was = known == before.places.end() ? alone : known->second;
    if (place.domains > 1 && was.domains <= 1) out.push_back(leaves_domain(group, place));
    if (place.crosses_leaf && !was.crosses_leaf) out.push_back(crosses_leaf(group, place));
  }
}

}  // namespace

ScaleMarks scale_marks(const Forecast& f) {
  ScaleMarks m;
  const auto& spec = f.scenario.spec;
  for (const auto& row : f.communication)
    if (row.group != whole_world) m.places[row.group] = {row.span, row.domains, row.leaf_groups, row.crosses_leaf};
  const int dp = spec.cluster.devices / (spec.degrees.tp * spec.degrees.cp * spec.degrees.pp);
  m.microbatches = spec.workload.global_batch / std::max(1, dp * spec.workload.micro_batch);
  m.stages = spec.degrees.pp;
  m.rows_per_expert = f.moe ? f.expert_load.median : 0;
  return m;
}

std::vector<std::string> scaling_breaks(const ScaleMarks* before, const ScaleMarks& now) {
  std::vector<std::string> out;
  if (before != nullptr) add_places(*before, now, out);
  if (now.stages > 1 && now.microbatches < now.stages && (!before || before->microbatches >= before->stages)) {
    out.push_back(fmt::format("microbatches run out: {} on {} stages", now.microbatches, now.stages));
  }
  if (now.rows_per_expert > 0 && now.rows_per_expert < row_knee && (!before || before->rows_per_expert >= row_knee)) {
    out.push_back(fmt::format("rows per expert below the knee: {:.0f}", now.rows_per_expert));
  }
  return out;
}

}  // namespace stepcast::scenarios
