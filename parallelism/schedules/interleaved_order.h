// The order in which interleaved schedules take (chunk, microbatch).
#pragma once

#include "parallelism/schedule.h"
#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {

struct Turn {
  int chunk = 0;
  int microbatch = 0;
};

// Megatron-Core (pipeline_parallel/schedules.py, get_schedule_table): microbatches in groups, each group through all
// chunks of the rank before the next. Forward order; the backward order has the chunks reversed.
[[nodiscard]] std::vector<Turn> interleaved_turns(const ScheduleShape& shape);

// Microbatches of a group: as given, or as many as ranks.
[[nodiscard]] int interleaved_group(const ScheduleShape& shape);

// Megatron-Core's rules: more than one rank and chunk; group between p and m; the last group full or at least p.
void interleaved_faults(Errors& errors, std::string_view name, const ScheduleShape& shape);

// Forwards of a rank before its first backward, Megatron-Core: 2 a stage behind it, one group for each further chunk.
[[nodiscard]] int interleaved_warmup(const ScheduleShape& shape, int rank);

}  // namespace stepcast::parallelism::pipeline
