// A cohort while it runs: time of each lane's streams, slots and host.
//
// Struct of arrays: one contiguous vector of lanes per stream and slot. The host
// is a vector plus one offset, so that issuing an instruction costs an addition
// and no pass over the lanes. Not thread-safe: one run owns it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/conditions.h"
#include "sim/engine/delays.h"
#include "sim/engine/group_plan.h"
#include "sim/engine/lanes.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// Rows of the recent (load, instance) pairs of one cohort, asked from the source once while they are held.
class RowCache {
 public:
  RowCache(const Program& program, int cohort, const LoadSource* source);
  void begin_step(std::uint64_t step);
  // By lane, padded with zeros to whole blocks; valid until the next call.
  [[nodiscard]] const float* rows(int load, int instance);

 private:
  const LoadSource* source_;
  int cohort_;
  std::uint64_t step_ = 0;
  std::size_t lanes_;
  std::size_t padded_;
  std::size_t ways_ = 1;
  std::vector<std::int32_t> local_of_load_;  // index among the loads that this cohort names
  std::vector<std::int32_t> held_;           // instance in each entry, -1: none
  LaneBuffer<float> rows_;
};

// One activation of a body.
struct Activation {
  const Instruction* code = nullptr;
  std::size_t size = 0;
  std::int32_t instance = -1;
  std::int32_t second_instance = -1;
  std::uint64_t first_ordinal = 0;  // of code[0] in the rank's step
};

struct CohortState {
  CohortState(const Program& program, int cohort, const Conditions& conditions);
  void begin_step(std::uint64_t next);
  // The part of begin_step() that changes times: what the host does once a step, and stalls.
  void begin_host(std::uint64_t next);

  [[nodiscard]] Ticks* tail(Stream s) { return times.data() + static_cast<std::size_t>(s) * stride; }
  [[nodiscard]] const Ticks* tail(Stream s) const { return times.data() + static_cast<std::size_t>(s) * stride; }
  [[nodiscard]] Ticks* slot(std::size_t i) { return times.data() + (stream_count + i) * stride; }
  [[nodiscard]] const Ticks* slot(std::size_t i) const { return times.data() + (stream_count + i) * stride; }
  [[nodiscard]] Ticks* host() { return times.data() + host_row * stride; }
  [[nodiscard]] const Ticks* host() const { return times.data() + host_row * stride; }
  [[nodiscard]] Ticks* scratch(std::size_t i) { return work.data() + i * stride; }
  [[nodiscard]] const float* rows_of(const Activation& a, const Instruction& in) {
    if (in.load == none16) return nullptr;
    return rows.rows(in.load, (in.flags & flag_second_instance) != 0 ? a.second_instance : a.instance);
  }
  // Lengthens a shared operation by what contention cost it; `end` by lane.
  void add_delays(const Instruction& in, std::uint64_t ordinal, Ticks* end) const {
    if (delays != nullptr && (in.flags & flag_shared) != 0) add_unit_delays(ordinal, end);
  }
  // When each lane's step ends, as on_step_end and RunResult define it.
  void step_end(std::span<Ticks> out) const;
  // Everything that the next instruction can read, for checkpoints: streams, slots, host.
  [[nodiscard]] std::size_t time_count() const { return (host_row + 1) * stride; }

  const Cohort* cohort;
  int index;
  std::size_t lanes;
  std::size_t padded;  // lanes in whole blocks
  std::size_t stride;  // ticks from one vector to the next: a line more, so that vectors do not share cache sets
  std::size_t host_row;
  LaneBuffer<Ticks> times;
  LaneBuffer<Ticks> work;
  Ticks host_offset = 0;  // a lane's host time is host()[lane] + host_offset
  bool uniform_speed;     // no slow factors and no noise: a cost without rows has one duration
  double sigma;
  std::uint64_t seed;
  LaneBuffer<double> slow;
  LaneBuffer<double> link_slow;          // empty: all 1
  std::span<const Ticks> stall_by_rank;  // host time lost at the begin of stall_step
  std::uint64_t stall_step;
  LaneBuffer<std::uint64_t> noise_keys;  // of the current step
  const Delays* delays;
  std::uint64_t step = 0;
  std::vector<GroupPlan> groups;
  RowCache rows;

 private:
  void add_unit_delays(std::uint64_t ordinal, Ticks* end) const;
};

inline constexpr std::size_t scratch_vectors = 6;

}  // namespace stepcast::sim
