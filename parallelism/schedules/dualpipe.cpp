// DualPipe (DeepSeek-AI 2024, arXiv 2412.19437): microbatches enter at both ends of the pipeline, half of them each, so
// that every rank holds two pieces, r and p-1-r, and pairs a forward of one way with a backward of the other. Two
// copies of the parameters; p+1 activations in flight.
#include <fmt/format.h>

#include "parallelism/schedules/bidirectional.h"
#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {

Result<Schedule> make_dualpipe(const ScheduleShape& given) {
  ScheduleShape shape = given;
  Errors errors = shape_faults("dualpipe", shape);
  require_two_chunks(errors, "dualpipe", shape);
  const int p = shape.stages;
  const int m = shape.microbatches;
  if (p % 2 != 0) fault(errors, "dualpipe", fmt::format("pp {}; it must be even", p));
  if (m % 2 != 0) {
    fault(errors, "dualpipe", fmt::format("{} microbatches; they must be even, half of them enter at each end", m));
  }
  if (m < 2 * std::int64_t{p}) {
    fault(errors, "dualpipe",
          fmt::format("{} microbatches on {} ranks; it needs 2 x pp = {} or more", m, p, 2 * std::int64_t{p}));
  }
  if (!errors.empty()) return errors;
  Schedule s;
  s.kind = ScheduleKind::dualpipe;
  s.shape = shape;
  s.virtual_stages = p;
  s.parameter_copies = 2;
  for (int rank = 0; rank < p; ++rank) {
    s.virtual_stage.push_back({rank, p - 1 - rank});
    const bool second_half = rank >= p / 2;
    TwoSides sides;
    sides.half = p / 2;
    sides.depth = second_half ? p - 1 - rank : rank;
    sides.microbatches = m / 2;
    sides.near_chunk = second_half ? 1 : 0;
    sides.near_first = second_half ? m / 2 : 0;
    sides.far_first = second_half ? 0 : m / 2;
    s.ranks.push_back(two_sided_slots(sides));
  }
  return s;
}

double bubble_dualpipe(const ScheduleShape& shape, double f, double b, double w) {
  return two_sided_bubble(shape.stages / 2, shape.microbatches / 2, f, b, w);
}

}  // namespace stepcast::parallelism::pipeline
