// 1F1B (PipeDream-flush, Narayanan et al. 2021, arXiv 2006.09503): after p-1-r forwards rank r alternates, so that it
// holds p-r microbatches at most. Same bubble as GPipe.
#include <algorithm>

#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {

Result<Schedule> make_one_f_one_b(const ScheduleShape& shape) {
  Errors errors = shape_faults("1f1b", shape);
  require_one_chunk(errors, "1f1b", shape);
  if (!errors.empty()) return errors;
  Schedule s = looped(ScheduleKind::one_f_one_b, shape);
  const int m = shape.microbatches;
  for (int rank = 0; rank < shape.stages; ++rank) {
    std::vector<Slot>& slots = s.ranks[static_cast<std::size_t>(rank)];
    const int warmup = std::min(shape.stages - 1 - rank, m);
    for (int i = 0; i < warmup; ++i) slots.push_back(forward(0, i));
    for (int i = 0; i < m - warmup; ++i) {
      slots.push_back(forward(0, warmup + i));
      slots.push_back(backward(0, i));
    }
    for (int i = m - warmup; i < m; ++i) slots.push_back(backward(0, i));
  }
  return s;
}

}  // namespace stepcast::parallelism::pipeline
