#include "sim/record/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/error.h"

namespace stepcast::sim {
namespace {

// Rows of one lane for the loads of one call, fetched once for each load and instance.
class LaneRows {
 public:
  LaneRows(const Conditions& conditions, std::uint64_t step, std::size_t cohort, std::size_t lane, std::size_t lanes)
      : conditions_(conditions), step_(step), cohort_(static_cast<int>(cohort)), lane_(lane), buffer_(lanes) {}

  double of(int load, int instance) {
    if (conditions_.loads == nullptr) return 0;
    if (load != load_ || instance != instance_) {
      conditions_.loads->rows(step_, load, cohort_, instance, buffer_);
      load_ = load;
      instance_ = instance;
    }
    return static_cast<double>(buffer_[lane_]);
  }

 private:
  const Conditions& conditions_;
  std::uint64_t step_;
  int cohort_;
  std::size_t lane_;
  std::vector<float> buffer_;
  int load_ = -1, instance_ = -1;
};

}  // namespace

MemoryRecorder::MemoryRecorder(const Program& program) : program_(program), cohorts_(program.cohorts.size()) {
  for (std::size_t c = 0; c < cohorts_.size(); ++c) {
    const Cohort& cohort = program.cohorts[c];
    Lanes& lanes = cohorts_[c];
    lanes.effects.resize(cohort.works.size());
    for (std::size_t w = 0; w < cohort.works.size(); ++w) {
      for (const MemoryEffect& m : cohort.works[w].memory) {
        STEPCAST_ASSERT(m.part < program.memory_parts.size());
        Effect& e = lanes.effects[w];
        (m.at_end ? e.end : e.begin) += m.bytes;
        (m.at_end ? e.end_per_row : e.begin_per_row) += m.bytes_per_row;
      }
    }
    lanes.own.assign(cohort.ranks.size(), 0);
    lanes.peak.assign(cohort.ranks.size(), 0);
    lanes.peak_phase.assign(cohort.ranks.size(), 0);
    lanes.peak_at.assign(cohort.ranks.size(), std::numeric_limits<Ticks>::min());
  }
}

void MemoryRecorder::on_instruction(const InstructionEvent& event) {
  Lanes& lanes = cohorts_[static_cast<std::size_t>(event.cohort)];
  const Effect& effect = lanes.effects[event.instruction->work];
  apply(lanes, effect.begin, effect.begin_per_row, event, false);
  apply(lanes, effect.end, effect.end_per_row, event, true);
  ++lanes.seen;
}

void MemoryRecorder::apply(Lanes& lanes, double bytes, double per_row, const InstructionEvent& event, bool at_end) {
  lanes.shared += bytes;
  lanes.gross += std::abs(bytes);
  const bool by_row = per_row != 0 && !event.rows.empty();
  if (by_row) {
    for (std::size_t l = 0; l < lanes.own.size(); ++l) lanes.own[l] += per_row * static_cast<double>(event.rows[l]);
    lanes.gross += std::abs(per_row) * static_cast<double>(*std::max_element(event.rows.begin(), event.rows.end()));
  }
  // Frees by row only lower `own`, which leaves quiet_below a valid, if low, bound.
  if (lanes.shared <= lanes.quiet_below && !(by_row && per_row > 0)) return;
  const Ticks* const at = at_end ? event.end.data() : event.begin.data();
  const std::uint32_t phase = 2 * lanes.seen + (at_end ? 1 : 0);
  double room = std::numeric_limits<double>::infinity();
  for (std::size_t l = 0; l < lanes.own.size(); ++l) {
    const double total = lanes.shared + lanes.own[l];
    if (total > lanes.peak[l]) {
      lanes.peak[l] = total;
      lanes.peak_phase[l] = phase;
      lanes.peak_at[l] = at[l];
    }
    room = std::min(room, lanes.peak[l] - lanes.own[l]);
  }
  lanes.quiet_below = room;
}

MemoryPeak MemoryRecorder::peak(const Conditions& conditions, std::uint64_t step, Ticks step_begin) const {
  MemoryPeak result;
  result.peak_by_rank.assign(static_cast<std::size_t>(program_.ranks), 0);
  std::size_t peak_cohort = 0, peak_lane = 0;
  for (std::size_t c = 0; c < cohorts_.size(); ++c) {
    const Cohort& cohort = program_.cohorts[c];
    const Lanes& lanes = cohorts_[c];
    const double fixed = std::accumulate(cohort.static_bytes.begin(), cohort.static_bytes.end(), 0.0);
    const double rounding = 1.0 + 1e-12 * lanes.gross;
    for (std::size_t l = 0; l < lanes.own.size(); ++l) {
      const double bytes = fixed + lanes.peak[l];
      const RankId rank = cohort.ranks[l];
      result.peak_by_rank[static_cast<std::size_t>(rank.value)] = bytes;
      if (std::abs(lanes.shared + lanes.own[l]) > rounding) result.returns_to_level = false;
      if (result.rank.valid() && (bytes < result.bytes || (bytes == result.bytes && rank > result.rank))) continue;
      result.bytes = bytes;
      result.rank = rank;
      result.at = lanes.peak_at[l] > step_begin ? lanes.peak_at[l] - step_begin : 0;
      peak_cohort = c;
      peak_lane = l;
    }
  }
  if (!result.rank.valid()) return result;
  const Lanes& lanes = cohorts_[peak_cohort];
  std::vector<double> parts(program_.memory_parts.size(), 0);
  if (lanes.peak[peak_lane] > 0)
    parts = parts_at(peak_cohort, peak_lane, lanes.peak_phase[peak_lane], conditions, step);
  const std::vector<double>& fixed = program_.cohorts[peak_cohort].static_bytes;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const double bytes = parts[p] + (p < fixed.size() ? fixed[p] : 0);
    if (std::abs(bytes) > 0.5) result.by_part[program_.memory_parts[p]] += bytes;
  }
  return result;
}

std::vector<double> MemoryRecorder::parts_at(std::size_t cohort_index, std::size_t lane, std::uint32_t phase,
                                             const Conditions& conditions, std::uint64_t step) const {
  const Cohort& cohort = program_.cohorts[cohort_index];
  std::vector<double> parts(program_.memory_parts.size(), 0);
  LaneRows rows(conditions, step, cohort_index, lane, cohort.ranks.size());
  std::uint32_t instruction = 0;
  for (const Call& call : cohort.calls) {
    for (const Instruction& in : cohort.bodies[call.body].instructions) {
      const bool second = (in.flags & flag_second_instance) != 0;
      for (const MemoryEffect& m : cohort.works[in.work].memory) {
        if (2 * instruction + (m.at_end ? 1 : 0) > phase) continue;
        double bytes = m.bytes;
        if (m.bytes_per_row != 0 && in.load != none16) {
          bytes += m.bytes_per_row * rows.of(in.load, second ? call.second_instance : call.instance);
        }
        parts[m.part] += bytes;
      }
      if (2 * ++instruction > phase) return parts;
    }
  }
  return parts;
}

}  // namespace stepcast::sim
