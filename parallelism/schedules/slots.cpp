#include <cstdint>

#include <fmt/format.h>

#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {
namespace {

// 2^24 slots are 256 MiB; a real step has fewer than 2^20.
constexpr std::int64_t most_slots = std::int64_t{1} << 24;

Slot one(SlotKind kind, int chunk, int microbatch) {
  Slot slot;
  slot.kind = kind;
  slot.chunk = static_cast<std::int16_t>(chunk);
  slot.microbatch = microbatch;
  return slot;
}

Schedule blank(ScheduleKind kind, const ScheduleShape& shape) {
  Schedule s;
  s.kind = kind;
  s.shape = shape;
  s.ranks.resize(static_cast<std::size_t>(shape.stages));
  s.virtual_stages = shape.stages * shape.chunks;
  return s;
}

}  // namespace

Slot forward(int chunk, int microbatch) { return one(SlotKind::forward, chunk, microbatch); }
Slot backward(int chunk, int microbatch) { return one(SlotKind::backward, chunk, microbatch); }
Slot backward_input(int chunk, int microbatch) { return one(SlotKind::backward_input, chunk, microbatch); }
Slot backward_weight(int chunk, int microbatch) { return one(SlotKind::backward_weight, chunk, microbatch); }

Slot forward_backward(int chunk, int microbatch, int second_chunk, int second_microbatch) {
  Slot slot = one(SlotKind::forward_backward, chunk, microbatch);
  slot.second_chunk = static_cast<std::int16_t>(second_chunk);
  slot.second_microbatch = second_microbatch;
  return slot;
}

void fault(Errors& errors, std::string_view name, const std::string& message) {
  errors.push_back(
      make_error(ErrorCode::invalid, fmt::format("schedule {}: {}", name, message), "/parallelism/schedule"));
}

Errors shape_faults(std::string_view name, const ScheduleShape& shape) {
  constexpr int most_stages = 1 << 15;
  constexpr int most_chunks = 1 << 10;
  Errors errors;
  if (shape.stages < 1 || shape.stages > most_stages) {
    fault(errors, name, fmt::format("{} pipeline ranks; it must be 1 to {}", shape.stages, most_stages));
  }
  if (shape.chunks < 1 || shape.chunks > most_chunks) {
    fault(errors, name, fmt::format("{} chunks a rank (vpp); it must be 1 to {}", shape.chunks, most_chunks));
  }
  if (shape.microbatches < 1) {
    fault(errors, name, fmt::format("{} microbatches; it must be 1 or more", shape.microbatches));
  }
  if (shape.group_size < 0) {
    fault(errors, name, fmt::format("group size {}; it must be 0 (as many as ranks) or more", shape.group_size));
  }
  if (!errors.empty()) return errors;
  constexpr std::int64_t kinds = 3;                                       // forward, input gradient, weight gradient
  const std::int64_t pieces = std::int64_t{shape.stages} * shape.chunks;  // at most 2^25
  if (pieces * kinds > most_slots / shape.microbatches) {
    fault(errors, name,
          fmt::format("{} ranks x {} chunks x {} microbatches are more than the {} slots that a step "
                      "may have",
                      shape.stages, shape.chunks, shape.microbatches, most_slots));
  }
  return errors;
}

void require_one_chunk(Errors& errors, std::string_view name, const ScheduleShape& shape) {
  if (shape.chunks <= 1) return;
  fault(errors, name, fmt::format("vpp {}, but it holds one chunk a rank; 'interleaved' takes several", shape.chunks));
}

void require_two_chunks(Errors& errors, std::string_view name, ScheduleShape& shape) {
  if (shape.chunks > 2) {
    fault(errors, name, fmt::format("vpp {}, but it holds exactly two chunks a rank", shape.chunks));
  }
  shape.chunks = 2;
}

Schedule looped(ScheduleKind kind, const ScheduleShape& shape) {
  Schedule s = blank(kind, shape);
  for (int rank = 0; rank < shape.stages; ++rank) {
    std::vector<int>& pieces = s.virtual_stage.emplace_back();
    for (int chunk = 0; chunk < shape.chunks; ++chunk) pieces.push_back(chunk * shape.stages + rank);
  }
  return s;
}

Schedule v_shaped(ScheduleKind kind, const ScheduleShape& shape) {
  Schedule s = blank(kind, shape);
  for (int rank = 0; rank < shape.stages; ++rank) s.virtual_stage.push_back({rank, 2 * shape.stages - 1 - rank});
  return s;
}

}  // namespace stepcast::parallelism::pipeline
