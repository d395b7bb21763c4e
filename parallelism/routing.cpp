#include "parallelism/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallelism/routing_sample.h"

namespace stepcast::parallelism {
namespace {

// Rows of a group's microbatch that the sampler's fixed point can hold; a real one has fewer than 2^32.
constexpr double most_rows = 0x1p42;

std::int64_t whole_tokens(const RoutingShape& shape) {
  const double tokens = shape.tokens_per_rank * shape.ep * shape.etp;
  return std::llround(std::clamp(tokens, 0.0, most_rows / shape.top_k));
}

std::int64_t source_slots(const RoutingSpec& spec, const RoutingShape& shape) {
  if (spec.drop == DropPolicy::none || !(spec.capacity_factor > 0)) return 0;
  const double mean = shape.tokens_per_rank * shape.top_k / shape.experts;
  // A product such as 128 x 1.1 must not gain a slot from its last bit.
  constexpr double rounding = 1e-9;
  const double slots = std::ceil(mean * spec.capacity_factor * (1 - rounding));
  return static_cast<std::int64_t>(std::clamp(slots, 1.0, most_rows));
}

}  // namespace

Routing::Routing(RoutingSpec spec, RoutingShape shape, std::uint64_t seed, std::vector<ExpertLanes> cohorts,
                 int microbatches_per_group)
    : spec_(std::move(spec)),
      shape_(shape),
      seed_(seed),
      microbatches_per_group_(std::max(microbatches_per_group, 1)),
      tokens_(whole_tokens(shape)) {
  STEPCAST_ASSERT(shape_.experts > 0 && shape_.top_k > 0 && shape_.top_k <= shape_.experts);
  STEPCAST_ASSERT(shape_.ep > 0 && shape_.experts % shape_.ep == 0);
  slots_per_source_ = source_slots(spec_, shape_);
  popularity_ = std::make_shared<const detail::Popularity>(spec_, shape_.experts);
  for (const ExpertLanes& lanes : cohorts) {
    CohortGroups c;
    c.groups = lanes.group;
    std::sort(c.groups.begin(), c.groups.end());
    c.groups.erase(std::unique(c.groups.begin(), c.groups.end()), c.groups.end());
    for (std::size_t lane = 0; lane < lanes.group.size(); ++lane) {
      const auto at = std::lower_bound(c.groups.begin(), c.groups.end(), lanes.group[lane]) - c.groups.begin();
      STEPCAST_ASSERT(lanes.position[lane] >= 0 && lanes.position[lane] < shape_.ep);
      c.at.push_back(static_cast<std::int32_t>(at) * shape_.ep + lanes.position[lane]);
    }
    if (!c.groups.empty()) groups_ = std::max(groups_, c.groups.back() + 1);
    cohorts_.push_back(std::move(c));
  }
}

// scratch.hot holds the layer's persistent popularity.
void Routing::draw(RngKey microbatches, int group, int instance, detail::Scratch& scratch) const {
  if (spec_.kind == SkewKind::balanced) {
    detail::balanced_rows(tokens_, shape_.top_k, scratch);
    return;
  }
  const std::uint64_t ordinal =
      static_cast<std::uint64_t>(instance) * static_cast<std::uint64_t>(groups_) + static_cast<std::uint64_t>(group);
  popularity_->of_microbatch(microbatches.with(ordinal), scratch);
  detail::draw_rows(tokens_, shape_.top_k, scratch);
}

void Routing::keep(detail::Scratch& scratch) const {
  if (slots_per_source_ == 0) return;
  const std::int64_t sources = std::int64_t{shape_.ep} * shape_.etp;
  // Balanced routing is balanced at every source too.
  const bool even = spec_.kind == SkewKind::balanced;
  for (int e = 0; e < shape_.experts; ++e) {
    std::int64_t& rows = scratch.rows[static_cast<std::size_t>(e)];
    rows = even ? std::min(rows, sources * slots_per_source_)
                : detail::kept_rows(rows, tokens_, sources, slots_per_source_);
  }
}

void Routing::rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const {
  const CohortGroups& lanes = cohorts_[static_cast<std::size_t>(cohort)];
  STEPCAST_ASSERT(rows.size() == lanes.at.size());
  const auto local = static_cast<std::size_t>(shape_.experts / shape_.ep);
  if (slots_per_source_ > 0 && spec_.drop == DropPolicy::pad) {
    std::fill(rows.begin(), rows.end(), static_cast<float>(static_cast<std::int64_t>(local) * slots_per_expert()));
    return;
  }
  detail::Scratch scratch(shape_.experts);
  popularity_->persistent(RngKey(seed_, step, Purpose::routing_hot), load, scratch);
  const RngKey microbatches = RngKey(seed_, step, Purpose::routing_fresh).with(static_cast<std::uint64_t>(load));
  std::vector<float> by_position(lanes.groups.size() * static_cast<std::size_t>(shape_.ep));
  auto out = by_position.begin();
  for (const std::int32_t group : lanes.groups) {
    draw(microbatches, group, instance, scratch);
    keep(scratch);
    const std::int64_t* first = scratch.rows.get();
    for (int position = 0; position < shape_.ep; ++position, first += local) {
      *out++ = static_cast<float>(std::accumulate(first, first + local, std::int64_t{0}));
    }
  }
  for (std::size_t lane = 0; lane < rows.size(); ++lane) {
    rows[lane] = by_position[static_cast<std::size_t>(lanes.at[lane])];
  }
}

void Routing::rows_of(std::uint64_t step, int load, int cohort, int instance, std::size_t,
                      std::span<const std::int32_t> wanted, std::span<float> rows) const {
  const CohortGroups& lanes = cohorts_[static_cast<std::size_t>(cohort)];
  const auto local = static_cast<std::size_t>(shape_.experts / shape_.ep);
  if (slots_per_source_ > 0 && spec_.drop == DropPolicy::pad) {
    std::fill(rows.begin(), rows.end(), static_cast<float>(static_cast<std::int64_t>(local) * slots_per_expert()));
    return;
  }
  detail::Scratch scratch(shape_.experts);
  popularity_->persistent(RngKey(seed_, step, Purpose::routing_hot), load, scratch);
  const RngKey microbatches = RngKey(seed_, step, Purpose::routing_fresh).with(static_cast<std::uint64_t>(load));
  std::vector<bool> done(lanes.groups.size(), false);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto group = static_cast<std::size_t>(lanes.at[static_cast<std::size_t>(wanted[i])] / shape_.ep);
    if (done[group]) continue;
    done[group] = true;
    draw(microbatches, lanes.groups[group], instance, scratch);
    keep(scratch);
    for (std::size_t j = i; j < wanted.size(); ++j) {
      const std::int32_t at = lanes.at[static_cast<std::size_t>(wanted[j])];
      if (static_cast<std::size_t>(at / shape_.ep) != group) continue;
      const std::int64_t* first = scratch.rows.get() + static_cast<std::size_t>(at % shape_.ep) * local;
      rows[j] = static_cast<float>(std::accumulate(first, first + local, std::int64_t{0}));
    }
  }
}

std::vector<double> Routing::expert_rows(std::uint64_t step, int load, int group, int instance) const {
  detail::Scratch scratch(shape_.experts);
  popularity_->persistent(RngKey(seed_, step, Purpose::routing_hot), load, scratch);
  draw(RngKey(seed_, step, Purpose::routing_fresh).with(static_cast<std::uint64_t>(load)), group, instance, scratch);
  keep(scratch);
  const std::int64_t* first = scratch.rows.get();
  return {first, first + shape_.experts};
}

namespace {

// What load_of_step adds up over its draws.
struct Tally {
  std::vector<float> kept;  // rows of every expert and draw
  double sum = 0;
  double imbalance = 0;
  std::int64_t draws = 0;

  void add(std::span<const std::int64_t> rows, std::size_t experts_per_rank) {
    std::int64_t all = 0;
    std::int64_t busiest = 0;
    for (std::size_t first = 0; first < rows.size(); first += experts_per_rank) {
      const auto rank = rows.subspan(first, experts_per_rank);
      const std::int64_t of_rank = std::accumulate(rank.begin(), rank.end(), std::int64_t{0});
      busiest = std::max(busiest, of_rank);
      all += of_rank;
    }
    const auto ranks = static_cast<double>(rows.size() / experts_per_rank);
    kept.insert(kept.end(), rows.begin(), rows.end());
    sum += static_cast<double>(all);
    imbalance += all > 0 ? static_cast<double>(busiest) * ranks / static_cast<double>(all) : 1;
    ++draws;
  }
};

}  // namespace

ExpertLoad Routing::load_of_step(std::uint64_t step, int sample) const {
  constexpr std::int64_t most_draws = 8192;
  const int layers = std::max(shape_.layers, 1);
  const std::int64_t per_layer = std::int64_t{std::clamp(sample, 1, microbatches_per_group_)} * groups_;
  const std::int64_t all = per_layer * layers;
  const std::int64_t draws = std::min(all, most_draws);
  detail::Scratch scratch(shape_.experts);
  Tally tally;
  std::int64_t layer_drawn = -1;
  for (std::int64_t i = 0; i < draws; ++i) {
    const std::int64_t at = i * all / draws;
    const std::int64_t layer = at / per_layer;
    if (layer != layer_drawn) {
      popularity_->persistent(RngKey(seed_, step, Purpose::routing_hot), static_cast<int>(layer), scratch);
      layer_drawn = layer;
    }
    draw(RngKey(seed_, step, Purpose::routing_fresh).with(static_cast<std::uint64_t>(layer)),
         static_cast<int>(at % groups_), static_cast<int>(at % per_layer / groups_), scratch);
    keep(scratch);
    tally.add({scratch.rows.get(), static_cast<std::size_t>(shape_.experts)},
              static_cast<std::size_t>(shape_.experts / shape_.ep));
  }
  const double kept = tally.sum / static_cast<double>(draws);
  const double of_step = static_cast<double>(groups_) * microbatches_per_group_ * layers;
  const double routed = static_cast<double>(tokens_) * shape_.top_k;
  const double slots = static_cast<double>(slots_per_expert()) * shape_.experts;
  const bool padded = spec_.drop == DropPolicy::pad && slots > 0;
  ExpertLoad load;
  load.routed = routed * of_step;
  load.dropped = (routed - kept) * of_step;
  if (padded) load.padded = (slots - kept) * of_step;
  if (slots > 0) load.capacity_use = kept / slots;
  load.imbalance = padded ? 1 : tally.imbalance / static_cast<double>(draws);
  const auto middle = tally.kept.begin() + static_cast<std::ptrdiff_t>(tally.kept.size() / 2);
  std::nth_element(tally.kept.begin(), middle, tally.kept.end());
  load.median = *middle;
  load.min = *std::min_element(tally.kept.begin(), middle + 1);
  load.max = *std::max_element(middle, tally.kept.end());
  return load;
}

}  // namespace stepcast::parallelism
