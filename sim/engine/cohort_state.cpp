#include "sim/engine/cohort_state.h"

#include <algorithm>

#include "sim/base/error.h"

namespace stepcast::sim {

void LoadSource::rows_of(std::uint64_t step, int load, int cohort, int instance, std::size_t all,
                         std::span<const std::int32_t> lanes, std::span<float> out) const {
  std::vector<float> whole(all);
  rows(step, load, cohort, instance, whole);
  for (std::size_t i = 0; i < lanes.size(); ++i) out[i] = whole[static_cast<std::size_t>(lanes[i])];
}

namespace {
// Rows kept per cohort; enough for every microbatch of a stage of 256 ranks, so that backward need not ask again.
constexpr std::size_t row_cache_bytes = std::size_t{1} << 20;
}  // namespace

RowCache::RowCache(const Program& program, int cohort, const LoadSource* source)
    : source_(source),
      cohort_(cohort),
      lanes_(program.cohorts[static_cast<std::size_t>(cohort)].ranks.size()),
      padded_(padded_lanes(lanes_)),
      local_of_load_(static_cast<std::size_t>(program.loads), -1) {
  const Cohort& c = program.cohorts[static_cast<std::size_t>(cohort)];
  std::int32_t locals = 0;
  for (const Body& body : c.bodies) {
    for (const Instruction& in : body.instructions) {
      if (in.load != none16 && local_of_load_[in.load] < 0) local_of_load_[in.load] = locals++;
    }
  }
  if (locals == 0) return;
  std::int32_t instances = 1;
  for (const Call& call : c.calls) instances = std::max({instances, call.instance + 1, call.second_instance + 1});
  const std::size_t fitting = row_cache_bytes / (static_cast<std::size_t>(locals) * padded_ * sizeof(float));
  ways_ = std::clamp<std::size_t>(fitting, std::min(2, instances), static_cast<std::size_t>(instances));
  held_.assign(static_cast<std::size_t>(locals) * ways_, -1);
  rows_ = LaneBuffer<float>(held_.size() * padded_);
}

void RowCache::begin_step(std::uint64_t step) {
  step_ = step;
  std::fill(held_.begin(), held_.end(), -1);
}

const float* RowCache::rows(int load, int instance) {
  const auto local = static_cast<std::size_t>(local_of_load_[static_cast<std::size_t>(load)]);
  const std::size_t entry = local * ways_ + static_cast<std::size_t>(instance) % ways_;
  float* out = rows_.data() + entry * padded_;
  if (held_[entry] != instance) {
    source_->rows(step_, load, cohort_, instance, std::span<float>(out, lanes_));
    held_[entry] = instance;
  }
  return out;
}

CohortState::CohortState(const Program& program, int cohort_index, const Conditions& conditions)
    : cohort(&program.cohorts[static_cast<std::size_t>(cohort_index)]),
      index(cohort_index),
      lanes(cohort->ranks.size()),
      padded(padded_lanes(lanes)),
      stride(padded + block_lanes),
      host_row(stream_count + static_cast<std::size_t>(cohort->slots)),
      times((host_row + 1) * stride),
      work(scratch_vectors * stride),
      uniform_speed(conditions.slow_by_rank.empty() && conditions.kernel_sigma == 0),
      sigma(conditions.kernel_sigma),
      seed(conditions.seed),
      stall_by_rank(conditions.stall_by_rank),
      stall_step(conditions.stall_step),
      delays(conditions.delays),
      rows(program, cohort_index, conditions.loads) {
  if (!uniform_speed) {
    slow = LaneBuffer<double>(padded);
    std::fill_n(slow.data(), padded, 1.0);
    for (std::size_t i = 0; i < lanes; ++i) slow.data()[i] = factor_of(conditions.slow_by_rank, cohort->ranks[i]);
  }
  if (!conditions.link_slow_by_rank.empty()) {
    link_slow = LaneBuffer<double>(padded);
    std::fill_n(link_slow.data(), padded, 1.0);
    for (std::size_t i = 0; i < lanes; ++i)
      link_slow.data()[i] = factor_of(conditions.link_slow_by_rank, cohort->ranks[i]);
  }
  if (sigma > 0) noise_keys = LaneBuffer<std::uint64_t>(padded);
  groups.reserve(cohort->groups.size());
  for (const GroupClass& group : cohort->groups) groups.push_back(plan_groups(group));
}

void CohortState::begin_host(std::uint64_t next) {
  host_offset += cohort->step_host_ticks;
  if (stall_by_rank.empty() || next != stall_step) return;
  for (std::size_t i = 0; i < lanes; ++i) host()[i] += stall_by_rank[static_cast<std::size_t>(cohort->ranks[i].value)];
}

void CohortState::begin_step(std::uint64_t next) {
  step = next;
  begin_host(step);
  rows.begin_step(step);
  if (sigma > 0) {
    for (std::size_t i = 0; i < lanes; ++i) noise_keys.data()[i] = noise_key(seed, step, cohort->ranks[i]).bits;
  }
}

void CohortState::add_unit_delays(std::uint64_t ordinal, Ticks* end) const {
  for (std::int32_t unit = 0; unit < cohort->units; ++unit) {
    const Ticks delay = delays->of(step, index, unit, ordinal);
    if (delay == 0) continue;
    for (std::size_t i = 0; i < lanes; ++i) {
      if (cohort->units == 1 || cohort->unit_of_lane[i] == unit) end[i] += delay;
    }
  }
}

void CohortState::step_end(std::span<Ticks> out) const {
  for (std::size_t i = 0; i < lanes; ++i) out[i] = host()[i] + host_offset;
  for (int s = 0; s < stream_count; ++s) {
    const auto stream = static_cast<Stream>(s);
    if (stream == Stream::dp || stream == Stream::copy) continue;
    const Ticks* times_of = tail(stream);
    for (std::size_t i = 0; i < lanes; ++i) out[i] = std::max(out[i], times_of[i]);
  }
}

}  // namespace stepcast::sim
