// DualPipeV (github.com/deepseek-ai/DualPipe; "cut in half" by Qi et al.): DualPipe's order folded at the middle. Rank
// r holds pieces r and 2p-1-r, one copy of the model in all, and a microbatch runs down one arm of the V and up the
// other.
#include <fmt/format.h>

#include "parallelism/schedules/bidirectional.h"
#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {

Result<Schedule> make_dualpipe_v(const ScheduleShape& given) {
  ScheduleShape shape = given;
  Errors errors = shape_faults("dualpipe-v", shape);
  require_two_chunks(errors, "dualpipe-v", shape);
  if (shape.microbatches < 2 * std::int64_t{shape.stages}) {
    fault(errors, "dualpipe-v",
          fmt::format("{} microbatches on {} ranks; it needs 2 x pp = {} or more", shape.microbatches, shape.stages,
                      2 * std::int64_t{shape.stages}));
  }
  if (!errors.empty()) return errors;
  Schedule s = v_shaped(ScheduleKind::dualpipe_v, shape);
  for (int rank = 0; rank < shape.stages; ++rank) {
    TwoSides sides;
    sides.half = shape.stages;
    sides.depth = rank;
    sides.microbatches = shape.microbatches;
    s.ranks[static_cast<std::size_t>(rank)] = two_sided_slots(sides);
  }
  return s;
}

double bubble_dualpipe_v(const ScheduleShape& shape, double f, double b, double w) {
  return two_sided_bubble(shape.stages, shape.microbatches, f, b, w);
}

}  // namespace stepcast::parallelism::pipeline
