// Pipeline schedules: what each pipeline rank runs, in which order.
//
// One function a schedule (parallelism/schedules/), one table that lists them.
// A schedule knows neither times nor models: slots only. Closed forms of the
// bubble stand beside each (worked_cases E).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::parallelism {

enum class ScheduleKind : unsigned char {
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  zb_v,
  dualpipe,
  dualpipe_v,
  coscheduled
};

enum class SlotKind : unsigned char {
  forward,
  backward,          // input and weight gradients together
  backward_input,    // dgrad only
  backward_weight,   // wgrad only
  forward_backward,  // co-scheduled: forward of (chunk, microbatch), full backward of (second_chunk, second_microbatch)
};

struct Slot {
  SlotKind kind = SlotKind::forward;
  std::int16_t chunk = 0;
  std::int32_t microbatch = 0;
  std::int16_t second_chunk = -1;
  std::int32_t second_microbatch = -1;
};

struct ScheduleShape {
  int stages = 1;        // pipeline ranks p
  int chunks = 1;        // virtual stages a rank (vpp)
  int microbatches = 1;  // m, over both directions for DualPipe
  int group_size = 0;    // interleaved: microbatches per group; 0: p
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  ScheduleShape shape;
  std::vector<std::vector<Slot>> ranks;         // by pipeline rank
  int virtual_stages = 1;                       // pieces that the model is cut into
  std::vector<std::vector<int>> virtual_stage;  // [rank][chunk] -> piece, 0 is the first
  // Where a microbatch's pieces live: DualPipe runs the second half of the microbatches in the other direction,
  // through the other copy. For the others every microbatch takes the same way.
  // owner(piece, microbatch) -> (rank, chunk)
  struct Place {
    int rank = 0;
    int chunk = 0;
  };
  [[nodiscard]] Place owner(int piece, int microbatch) const;
  int parameter_copies = 1;  // DualPipe: 2
};

struct ScheduleInfo {
  ScheduleKind kind;
  std::string_view name;  // "1f1b", "zb-h1", ...
  std::string_view summary;
  Result<Schedule> (*make)(const ScheduleShape& shape);
  // Closed-form idle time over ideal time of a rank for equal costs f, b, w per piece and free communication, with a
  // barrier at the end of the step (worked_cases E). Negative: no closed form for this shape.
  double (*ideal_bubble)(const ScheduleShape& shape, double forward, double input_gradient, double weight_gradient);
};

[[nodiscard]] std::span<const ScheduleInfo> schedules();
[[nodiscard]] const ScheduleInfo& info(ScheduleKind kind);
[[nodiscard]] Result<ScheduleKind> parse_schedule(const std::string& name);

// Every (piece, microbatch) runs forward once and backward once (or dgrad and wgrad once), forward before backward,
// dgrad before wgrad, and no rank waits for ever. Empty when sound.
[[nodiscard]] std::vector<std::string> check(const Schedule& schedule);

}  // namespace stepcast::parallelism
