// GPipe (Huang et al. 2019, arXiv 1811.06965): all forwards, then all backwards.
// Every microbatch is in flight at once; the backward passes take the microbatches in the order of the forward ones.
#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {

Result<Schedule> make_gpipe(const ScheduleShape& shape) {
  Errors errors = shape_faults("gpipe", shape);
  require_one_chunk(errors, "gpipe", shape);
  if (!errors.empty()) return errors;
  Schedule s = looped(ScheduleKind::gpipe, shape);
  for (std::vector<Slot>& slots : s.ranks) {
    for (int i = 0; i < shape.microbatches; ++i) slots.push_back(forward(0, i));
    for (int i = 0; i < shape.microbatches; ++i) slots.push_back(backward(0, i));
  }
  return s;
}

// The first microbatch crosses p-1 stages before the last stage works, and its gradient the same way back:
// (p-1)(f+b+w) idle of m(f+b+w).
double bubble_one_pass(const ScheduleShape& shape, double /*f*/, double /*b*/, double /*w*/) {
  return static_cast<double>(shape.stages - 1) / shape.microbatches;
}

}  // namespace stepcast::parallelism::pipeline
