// Forward/backward co-scheduling (Megatron-Core, --overlap-moe-expert-parallel-comm): 1F1B, interleaved when a rank
// holds several chunks, whose steady-state slots run a forward and a backward together, so that the all-to-all of one
// hides under the GEMMs of the other. One more warm-up forward than the interleaved schedule makes the two independent.
//
// With one chunk a rank the warm-up is that of the interleaved formula too, 2(p-1-r)+1, not 1F1B's p-r: a pair's output
// leaves at the pair's end, so neighbouring ranks would otherwise wait for each other in turn.
#include <algorithm>

#include "parallelism/schedules/interleaved_order.h"

namespace stepcast::parallelism::pipeline {

Result<Schedule> make_coscheduled(const ScheduleShape& shape) {
  Errors errors = shape_faults("coscheduled", shape);
  if (errors.empty() && shape.chunks > 1) interleaved_faults(errors, "coscheduled", shape);
  if (!errors.empty()) return errors;
  Schedule s = looped(ScheduleKind::coscheduled, shape);
  const std::vector<Turn> turns = interleaved_turns(shape);
  const auto turn = [&turns](int i) { return turns[static_cast<std::size_t>(i)]; };
  const auto backward_chunk = [&](int i) { return shape.chunks - 1 - turn(i).chunk; };
  const int total = static_cast<int>(turns.size());
  for (int rank = 0; rank < shape.stages; ++rank) {
    std::vector<Slot>& slots = s.ranks[static_cast<std::size_t>(rank)];
    const int warmup = std::min(interleaved_warmup(shape, rank) + 1, total);
    for (int i = 0; i < warmup; ++i) slots.push_back(forward(turn(i).chunk, turn(i).microbatch));
    for (int i = warmup; i < total; ++i) {
      const int back = i - warmup;
      slots.push_back(forward_backward(turn(i).chunk, turn(i).microbatch, backward_chunk(back), turn(back).microbatch));
    }
    for (int i = total - warmup; i < total; ++i) slots.push_back(backward(backward_chunk(i), turn(i).microbatch));
  }
  return s;
}

// As interleaved 1F1B, with pairs of f+b+w: (p-1)(f+b+w) idle.
double bubble_coscheduled(const ScheduleShape& shape, double /*f*/, double /*b*/, double /*w*/) {
  return static_cast<double>(shape.stages - 1) / (static_cast<double>(shape.microbatches) * shape.chunks);
}

}  // namespace stepcast::parallelism::pipeline
