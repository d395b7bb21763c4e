#include "parallelism/lowering/link_traffic.h"

#include <algorithm>
#include <map>

namespace stepcast::parallelism {
namespace {

using topology::PartLevel;

std::size_t unit_of(const sim::Cohort& cohort, std::int32_t lane) {
  return cohort.unit_of_lane.empty() ? 0
                                     : static_cast<std::size_t>(cohort.unit_of_lane[static_cast<std::size_t>(lane)]);
}

// By lane of the cohort, its place among the lanes of its list.
std::vector<std::int32_t> lane_in_list(const sim::Cohort& cohort, bool spans) {
  std::vector<std::int32_t> place;
  std::vector<std::int32_t> next(static_cast<std::size_t>(cohort.units), 0);
  for (std::size_t lane = 0; lane < cohort.ranks.size(); ++lane) {
    place.push_back(next[spans ? 0 : unit_of(cohort, static_cast<std::int32_t>(lane))]++);
  }
  return place;
}

void append(CutTraffic& to, const topology::LoadParts& more, const std::map<DeviceId, std::int32_t>& lane_of) {
  const auto first = static_cast<std::int32_t>(to.places.size());
  for (const auto& devices : more.places) {
    auto& lanes = to.places.emplace_back();
    for (const DeviceId d : devices) lanes.push_back(lane_of.at(d));
  }
  for (const topology::LoadPart& part : more.parts) {
    to.parts.push_back({first + part.out, first + part.in, part.even, part.links});
  }
}

// A ring moves at the pace of its slowest hop: a part each.
void append_ring(CutTraffic& to, const std::vector<topology::LinkLoad>& load) {
  const auto place = static_cast<std::int32_t>(to.places.size());
  to.places.emplace_back();
  to.parts.push_back({place, place, 0, load});
}

// Lists of which nothing leaves its domain, or that are one part, stay whole.
void drop_whole(std::vector<CutTraffic>& cuts) {
  bool any = false;
  for (CutTraffic& cut : cuts) {
    const bool leaves = std::any_of(cut.parts.begin(), cut.parts.end(), [](const CutTraffic::Part& part) {
      return std::any_of(part.links.begin(), part.links.end(), [](const auto& load) { return load.nic > 0; });
    });
    if (!leaves || cut.parts.size() < 2) cut = {};
    any = any || !cut.parts.empty();
  }
  if (!any) cuts.clear();
}

}  // namespace

DeviceId TrafficFinder::device(std::size_t cohort, std::int32_t lane) const {
  const RankId rank = low_.step.program.cohorts[cohort].ranks[static_cast<std::size_t>(lane)];
  return low_.step.placement[static_cast<std::size_t>(rank.value)];
}

Traffic TrafficFinder::of_group(std::size_t c, const sim::GroupClass& group) const {
  const sim::Cohort& cohort = low_.step.program.cohorts[c];
  const auto size = static_cast<std::size_t>(group.group_size);
  bool spans = false;
  for (std::size_t i = 0; i < group.lanes.size(); ++i) {
    spans = spans || unit_of(cohort, group.lanes[i]) != unit_of(cohort, group.lanes[i / size * size]);
  }
  const std::size_t lists = spans ? 1 : static_cast<std::size_t>(cohort.units);
  const bool uniform = group.name == "ep";
  Traffic traffic;
  traffic.of_unit.resize(lists);
  if (boxes_ && uniform) traffic.boxes.resize(lists);
  if (nics_) traffic.nics.resize(lists);
  const auto lane_of_list = lane_in_list(cohort, spans);
  for (std::size_t first = 0; first < group.lanes.size(); first += size) {
    const std::size_t list = spans ? 0 : unit_of(cohort, group.lanes[first]);
    std::vector<DeviceId> members;
    std::map<DeviceId, std::int32_t> lane_of;
    for (std::size_t i = first; i < first + size; ++i) {
      members.push_back(device(c, group.lanes[i]));
      lane_of[members.back()] = lane_of_list[static_cast<std::size_t>(group.lanes[i])];
    }
    const auto pattern = uniform ? topology::TrafficPattern::uniform : topology::TrafficPattern::ring;
    const auto load = topology::group_load(low_.fabric, members, pattern);
    traffic.of_unit[list].insert(traffic.of_unit[list].end(), load.begin(), load.end());
    if (!traffic.boxes.empty()) {
      append(traffic.boxes[list], topology::group_parts(low_.fabric, members, PartLevel::box), lane_of);
    }
    if (traffic.nics.empty()) continue;
    if (uniform) {
      append(traffic.nics[list], topology::group_parts(low_.fabric, members, PartLevel::nic), lane_of);
    } else {
      append_ring(traffic.nics[list], load);
    }
  }
  drop_whole(traffic.boxes);
  drop_whole(traffic.nics);
  return traffic;
}

Traffic TrafficFinder::of_channel(const sim::Channel& channel) const {
  const auto from = static_cast<std::size_t>(channel.from);
  const auto to = static_cast<std::size_t>(channel.to);
  const sim::Cohort& cohort = low_.step.program.cohorts[from];
  const auto units = static_cast<std::size_t>(cohort.units);
  std::vector<std::vector<DeviceId>> senders(units), receivers(units);
  for (std::size_t lane = 0; lane < low_.step.program.cohorts[to].ranks.size(); ++lane) {
    const std::int32_t source = channel.from_lane.empty() ? static_cast<std::int32_t>(lane) : channel.from_lane[lane];
    const std::size_t unit = unit_of(cohort, source);
    senders[unit].push_back(device(from, source));
    receivers[unit].push_back(device(to, static_cast<std::int32_t>(lane)));
  }
  Traffic traffic;
  for (std::size_t u = 0; u < units; ++u) {
    traffic.of_unit.push_back(topology::pairs_load(low_.fabric, senders[u], receivers[u]));
    if (nics_) append(traffic.nics.emplace_back(), topology::pairs_parts(low_.fabric, senders[u], receivers[u]), {});
  }
  drop_whole(traffic.nics);
  return traffic;
}

Traffic TrafficFinder::of_pair(const sim::JoinClass& join) const {
  Traffic traffic;
  traffic.of_unit.resize(1);
  if (nics_) traffic.nics.resize(1);
  std::map<std::int32_t, std::vector<DeviceId>> groups;
  for (std::size_t m = 0; m < join.cohorts.size(); ++m) {
    for (std::size_t lane = 0; lane < join.group_of_lane[m].size(); ++lane) {
      groups[join.group_of_lane[m][lane]].push_back(
          device(static_cast<std::size_t>(join.cohorts[m]), static_cast<std::int32_t>(lane)));
    }
  }
  for (auto& [id, members] : groups) {
    std::sort(members.begin(), members.end());
    const auto load = topology::group_load(low_.fabric, members, topology::TrafficPattern::ring);
    traffic.of_unit[0].insert(traffic.of_unit[0].end(), load.begin(), load.end());
    if (nics_) append_ring(traffic.nics[0], load);
  }
  drop_whole(traffic.nics);
  return traffic;
}

}  // namespace stepcast::parallelism
