// Zero-bubble H1 (Qi et al. 2023, arXiv 2401.10241): 1F1B with the weight gradients split off. Rank r puts off r of
// them, which fill its tail while the input gradients of later ranks are done first. In flight on every rank: p.
#include <algorithm>

#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {

Result<Schedule> make_zb_h1(const ScheduleShape& shape) {
  Errors errors = shape_faults("zb-h1", shape);
  require_one_chunk(errors, "zb-h1", shape);
  if (!errors.empty()) return errors;
  Schedule s = looped(ScheduleKind::zb_h1, shape);
  const int m = shape.microbatches;
  for (int rank = 0; rank < shape.stages; ++rank) {
    std::vector<Slot>& slots = s.ranks[static_cast<std::size_t>(rank)];
    const int warmup = std::min(shape.stages - 1 - rank, m);
    for (int i = 0; i < warmup; ++i) slots.push_back(forward(0, i));
    for (int i = 0; i < m; ++i) {
      if (warmup + i < m) slots.push_back(forward(0, warmup + i));
      slots.push_back(backward_input(0, i));
      if (i >= rank) slots.push_back(backward_weight(0, i - rank));
    }
    for (int i = std::max(m - rank, 0); i < m; ++i) slots.push_back(backward_weight(0, i));
  }
  return s;
}

// (p-1)(f+b-w) of m (f+b+w) as long as w <= f; a longer w cannot hide more than the f it fills, so (p-1) b remains.
// With fewer microbatches than ranks there are not enough weight gradients to fill with.
double bubble_zb_h1(const ScheduleShape& shape, double f, double b, double w) {
  if (shape.microbatches < shape.stages) return -1;
  return (shape.stages - 1) * (b + std::max(f - w, 0.0)) / (shape.microbatches * (f + b + w));
}

}  // namespace stepcast::parallelism::pipeline
