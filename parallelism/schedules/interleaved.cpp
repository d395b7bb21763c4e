// Interleaved 1F1B (Narayanan et al. 2021, arXiv 2104.04473), in Megatron-Core's order: each rank holds v chunks, p
// pieces apart, so that the pipeline fills in pieces of 1/v of a stage.
#include <algorithm>

#include <fmt/format.h>

#include "parallelism/schedules/interleaved_order.h"

namespace stepcast::parallelism::pipeline {

int interleaved_group(const ScheduleShape& shape) { return shape.group_size > 0 ? shape.group_size : shape.stages; }

std::vector<Turn> interleaved_turns(const ScheduleShape& shape) {
  const int group = interleaved_group(shape);
  std::vector<Turn> turns;
  turns.reserve(static_cast<std::size_t>(shape.microbatches) * static_cast<std::size_t>(shape.chunks));
  for (int first = 0; first < shape.microbatches;) {
    const int end = shape.microbatches - first > group ? first + group : shape.microbatches;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int i = first; i < end; ++i) turns.push_back({chunk, i});
    }
    first = end;
  }
  return turns;
}

void interleaved_faults(Errors& errors, std::string_view name, const ScheduleShape& shape) {
  const int p = shape.stages;
  const int m = shape.microbatches;
  const int group = interleaved_group(shape);
  if (p == 1) fault(errors, name, fmt::format("vpp {} on one pipeline rank; chunks need pp above 1", shape.chunks));
  if (group < p || group > m) {
    fault(errors, name,
          fmt::format("a group of {} microbatches; it must be at least the {} ranks and at most the {} "
                      "microbatches of a pipeline",
                      group, p, m));
    return;
  }
  const int rest = m % group;
  if (rest > 0 && rest < p) {
    fault(errors, name,
          fmt::format("{} microbatches in groups of {} leave {}; the last group must be full or hold at "
                      "least the {} ranks (make the microbatches a multiple of {})",
                      m, group, rest, p, group));
  }
}

int interleaved_warmup(const ScheduleShape& shape, int rank) {
  return 2 * (shape.stages - 1 - rank) + (shape.chunks - 1) * interleaved_group(shape);
}

Result<Schedule> make_interleaved(const ScheduleShape& shape) {
  Errors errors = shape_faults("interleaved", shape);
  if (errors.empty()) {
    if (shape.chunks < 2) fault(errors, "interleaved", "vpp 1; it needs 2 or more chunks a rank (or use '1f1b')");
    interleaved_faults(errors, "interleaved", shape);
  }
  if (!errors.empty()) return errors;
  Schedule s = looped(ScheduleKind::interleaved, shape);
  const std::vector<Turn> turns = interleaved_turns(shape);
  const int total = static_cast<int>(turns.size());
  const auto turn = [&turns](int i) { return turns[static_cast<std::size_t>(i)]; };
  for (int rank = 0; rank < shape.stages; ++rank) {
    std::vector<Slot>& slots = s.ranks[static_cast<std::size_t>(rank)];
    const int warmup = std::min(interleaved_warmup(shape, rank), total);
    const auto add_backward = [&](int i) {
      slots.push_back(backward(shape.chunks - 1 - turn(i).chunk, turn(i).microbatch));
    };
    for (int i = 0; i < warmup; ++i) slots.push_back(forward(turn(i).chunk, turn(i).microbatch));
    for (int i = warmup; i < total; ++i) {
      slots.push_back(forward(turn(i).chunk, turn(i).microbatch));
      add_backward(i - warmup);
    }
    for (int i = total - warmup; i < total; ++i) add_backward(i);
  }
  return s;
}

// (p-1)(f+b+w) of a piece idle, of m v (f+b+w), for groups of p that fill.
double bubble_interleaved(const ScheduleShape& shape, double /*f*/, double /*b*/, double /*w*/) {
  return static_cast<double>(shape.stages - 1) / (static_cast<double>(shape.microbatches) * shape.chunks);
}

}  // namespace stepcast::parallelism::pipeline
