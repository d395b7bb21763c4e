#include "sim/engine/representative.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace stepcast::sim {

namespace {

bool groups_alike(const JoinClass& join) {
  std::map<std::int32_t, std::set<std::size_t>> cohorts_of_group;
  for (std::size_t c = 0; c < join.group_of_lane.size(); ++c) {
    for (const std::int32_t group : join.group_of_lane[c]) cohorts_of_group[group].insert(c);
  }
  return std::all_of(cohorts_of_group.begin(), cohorts_of_group.end(),
                     [&](const auto& group) { return group.second.size() == join.cohorts.size(); });
}

}  // namespace

std::optional<Program> representative(const Program& program) {
  if (!std::all_of(program.joins.begin(), program.joins.end(), groups_alike)) return std::nullopt;
  Program one = program;
  one.ranks = static_cast<int>(program.cohorts.size());
  for (std::size_t c = 0; c < one.cohorts.size(); ++c) {
    one.cohorts[c].ranks = {RankId(static_cast<std::int32_t>(c))};
    one.cohorts[c].units = 1;
    one.cohorts[c].unit_of_lane.clear();
    for (GroupClass& group : one.cohorts[c].groups) {
      group.group_size = 1;
      group.lanes = {0};
    }
  }
  for (Channel& channel : one.channels) channel.from_lane.clear();
  for (JoinClass& join : one.joins) join.group_of_lane.clear();
  return one;
}

void RepresentativeLoads::rows(std::uint64_t /*step*/, int load, int cohort, int /*instance*/,
                               std::span<float> rows) const {
  std::fill(rows.begin(), rows.end(), rows_[static_cast<std::size_t>(load * cohorts_ + cohort)]);
}

std::optional<RepresentativeLoads> representative_loads(const Program& program, const LoadSource& loads) {
  RepresentativeLoads one;
  one.cohorts_ = static_cast<int>(program.cohorts.size());
  one.rows_.assign(static_cast<std::size_t>(program.loads) * program.cohorts.size(), -1);
  std::vector<float> lanes;
  for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
    const Cohort& cohort = program.cohorts[c];
    lanes.resize(cohort.ranks.size());
    for (const Body& body : cohort.bodies) {
      for (const Instruction& in : body.instructions) {
        if (in.load == none16) continue;
        float& known = one.rows_[static_cast<std::size_t>(in.load) * program.cohorts.size() + c];
        if (known >= 0) continue;
        loads.rows(0, in.load, static_cast<int>(c), 0, lanes);
        if (std::adjacent_find(lanes.begin(), lanes.end(), std::not_equal_to<>()) != lanes.end()) return std::nullopt;
        known = lanes.front();
      }
    }
  }
  return one;
}

}  // namespace stepcast::sim
