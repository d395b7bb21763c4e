#include "sim/engine/flow_parts.h"

#include <algorithm>
#include <cmath>

namespace stepcast::sim {
namespace {

constexpr double one_link = 0x1p30;
constexpr double least_left = 0.5;  // ticks

// Rounded down, so that what fits does not bind by rounding.
std::int64_t load_of(double share) { return static_cast<std::int64_t>(share * one_link); }

const LinkParts* of_list(const std::vector<LinkParts>& all, std::size_t list) {
  return all.empty() || all[list].parts.empty() ? nullptr : &all[list];
}

}  // namespace

void FlowDemand::follow(const LinkPattern& pattern, std::size_t unit) {
  const std::size_t list = pattern.of_unit.size() > 1 ? unit : 0;
  links = &pattern.of_unit[list];
  boxes = of_list(pattern.boxes, list);
  nics = of_list(pattern.nics, list);
}

double FlowDemand::intensity() const { return std::min(1.0, std::max(nic, nvlink)); }

const LinkParts* FlowDemand::parts(FlowLevel level) const {
  return level == FlowLevel::nic ? nics : level == FlowLevel::box ? boxes : nullptr;
}

std::vector<float> lane_volumes(const LinkUse& use, const float* rows, std::size_t lanes) {
  const double fixed = use.nic_ticks + use.nvlink_ticks;
  const double per_row = use.nic_ticks_per_row + use.nvlink_ticks_per_row;
  std::vector<float> volume;
  if (rows == nullptr || per_row <= 0) return volume;
  const double most = fixed + per_row * static_cast<double>(*std::max_element(rows, rows + lanes));
  if (most <= 0) return volume;
  volume.reserve(lanes);
  for (std::size_t i = 0; i < lanes; ++i) {
    volume.push_back(static_cast<float>((fixed + per_row * static_cast<double>(rows[i])) / most));
  }
  return volume;
}

bool unequal(const std::vector<float>* volume) {
  if (volume == nullptr || volume->empty()) return false;
  return *std::min_element(volume->begin(), volume->end()) < 1 - unequal_share;
}

bool unequal_within(const std::vector<float>* volume, const LinkParts& parts) {
  if (volume == nullptr || volume->empty()) return false;
  for (const auto& place : parts.places) {
    float least = 1, most = 0;
    for (const std::int32_t lane : place) {
      least = std::min(least, (*volume)[static_cast<std::size_t>(lane)]);
      most = std::max(most, (*volume)[static_cast<std::size_t>(lane)]);
    }
    if (least < most * (1 - unequal_share)) return true;
  }
  return false;
}

void Cutter::measure(const FlowDemand& demand, const LinkParts& parts) {
  places_.assign(parts.places.size(), {});
  const bool alike = demand.volume == nullptr || demand.volume->empty();
  for (std::size_t i = 0; i < places_.size() && !alike; ++i) {
    if (parts.places[i].empty()) continue;
    double most = 0, sum = 0;
    for (const std::int32_t lane : parts.places[i]) {
      const auto volume = static_cast<double>((*demand.volume)[static_cast<std::size_t>(lane)]);
      most = std::max(most, volume);
      sum += volume;
    }
    places_[i].most = most;
    places_[i].mean = sum / static_cast<double>(parts.places[i].size());
  }
  full_.clear();
  for (const LinkShare& share : *demand.links) full_.push_back(std::max(1.0, demand.load(share)));
  of_parts_.assign(full_.size(), false);
  for (const LinkParts::Part& part : parts.parts) {
    places_[static_cast<std::size_t>(part.out)].out += part.even;
    places_[static_cast<std::size_t>(part.in)].in += part.even;
    for (const LinkParts::Load& load : part.loads) of_parts_[static_cast<std::size_t>(load.at)] = true;
  }
}

void Cutter::add_load(std::int32_t link, double share) {
  const std::int64_t q = load_of(share);
  if (q > 0) cut_.loads.push_back({link, q});
}

// What the links that no part names carry of the busiest place, or a share of it.
void Cutter::load_rest(const FlowDemand& demand, double part) {
  for (std::size_t at = 0; at < full_.size(); ++at) {
    const LinkShare& share = (*demand.links)[at];
    if (!of_parts_[at]) add_load(share.link, demand.load(share) / full_[at] * part);
  }
}

// A port with one part is no link: the part's cap stands for it.
void Cutter::load_port(std::int32_t& port, int users, double share) {
  if (users < 2) return;
  if (port == 0) port = -++cut_.ports;
  add_load(port, share);
}

void Cutter::add(const FlowDemand& demand, const LinkParts::Part& part, double left) {
  Place& out = places_[static_cast<std::size_t>(part.out)];
  Place& in = places_[static_cast<std::size_t>(part.in)];
  const Place& rows = governing(demand, part);
  CutFlow flow;
  flow.left = left;
  flow.level = demand.intensity();
  double widest = part.even > 0 ? std::min(out.out, in.in) / part.even : 1;
  flow.cap = std::min(MaxMin::highest_cap, flow.level * widest);
  widest = flow.cap / flow.level;
  flow.first = cut_.loads.size();
  for (const LinkParts::Load& load : part.loads) {
    const auto at = static_cast<std::size_t>(load.at);
    const LinkShare share = {(*demand.links)[at].link, load.nic, load.nvlink};
    add_load(share.link, demand.load(share) / full_[at] * rows.mean / rows.most * widest);
  }
  if (&rows == busiest_ && part.even > 0) {
    load_rest(demand, part.even / (demand.rows_leave ? out.out : in.in) * widest);
  }
  if (part.even > 0) {
    load_port(out.out_port, out.out_users, part.even * widest / out.out);
    load_port(in.in_port, in.in_users, part.even * widest / in.in);
  }
  flow.count = cut_.loads.size() - flow.first;
  cut_.flows.push_back(flow);
}

void Cutter::split(const FlowDemand& demand, const LinkParts& parts, double work, double elapsed) {
  const auto left = [&](const LinkParts::Part& part) { return governing(demand, part).most * work - elapsed; };
  for (const LinkParts::Part& part : parts.parts) {
    if (left(part) < least_left || part.even <= 0) continue;
    if (busiest_ == nullptr && governing(demand, part).most >= 1) busiest_ = &governing(demand, part);
    ++places_[static_cast<std::size_t>(part.out)].out_users;
    ++places_[static_cast<std::size_t>(part.in)].in_users;
  }
  for (const LinkParts::Part& part : parts.parts) {
    const bool idle = part.even <= 0 && part.loads.empty();
    if (!idle && left(part) >= least_left) add(demand, part, left(part));
  }
}

void Cutter::fold(const FlowDemand& demand, const LinkParts& parts, double work, double elapsed) {
  double least = 1;
  for (const LinkParts::Part& part : parts.parts) least = std::min(least, governing(demand, part).most);
  classes_.resize(volume_classes);
  for (Class& c : classes_) {
    c.most = 0;
    c.loads.assign(full_.size(), 0);
  }
  for (const LinkParts::Part& part : parts.parts) {
    const Place& rows = governing(demand, part);
    const double step = least < 1 ? (rows.most - least) / (1 - least) * static_cast<double>(volume_classes) : 0;
    Class& c = classes_[std::min(volume_classes - 1, static_cast<std::size_t>(step))];
    c.most = std::max(c.most, rows.most);
    for (const LinkParts::Load& load : part.loads) {
      const auto at = static_cast<std::size_t>(load.at);
      c.loads[at] += demand.load({0, load.nic, load.nvlink}) / full_[at] * rows.mean;
    }
  }
  for (const Class& c : classes_) {
    if (c.most * work - elapsed < least_left) continue;
    CutFlow flow;
    flow.left = c.most * work - elapsed;
    flow.level = flow.cap = demand.intensity();
    flow.first = cut_.loads.size();
    for (std::size_t at = 0; at < full_.size(); ++at) add_load((*demand.links)[at].link, c.loads[at] / c.most);
    if (c.most >= 1) {
      load_rest(demand, 1);
      busiest_ = places_.data();
    }
    flow.count = cut_.loads.size() - flow.first;
    cut_.flows.push_back(flow);
  }
}

const Cut& Cutter::cut(const FlowDemand& demand, const LinkParts& parts, double work, double elapsed,
                       std::size_t most) {
  cut_.flows.clear();
  cut_.loads.clear();
  cut_.ports = 0;
  busiest_ = nullptr;
  measure(demand, parts);
  if (parts.parts.size() > most) {
    fold(demand, parts, work, elapsed);
  } else {
    split(demand, parts, work, elapsed);
  }
  CutFlow rest = {work - elapsed, demand.intensity(), demand.intensity(), cut_.loads.size(), 0};
  if (busiest_ == nullptr) load_rest(demand, 1);
  rest.count = cut_.loads.size() - rest.first;
  cut_.flows.push_back(rest);
  return cut_;
}

}  // namespace stepcast::sim
