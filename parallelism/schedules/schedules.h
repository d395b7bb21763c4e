// The schedules, one file each, and the few words they are written in.
//
// Internal to parallelism: the table in schedule.cpp is the way in. Each make_*
// checks its own rules and returns all faults at once.
#pragma once

#include <string>

#include "parallelism/schedule.h"
#include "sim/base/error.h"

namespace stepcast::parallelism::pipeline {

// Slots.
Slot forward(int chunk, int microbatch);
Slot backward(int chunk, int microbatch);
Slot backward_input(int chunk, int microbatch);
Slot backward_weight(int chunk, int microbatch);
Slot forward_backward(int chunk, int microbatch, int second_chunk, int second_microbatch);

// Positive sizes and a bounded number of slots; then `kind`'s own rules are added to the same list.
[[nodiscard]] Errors shape_faults(std::string_view name, const ScheduleShape& shape);
void fault(Errors& errors, std::string_view name, const std::string& message);
// Faults unless the shape has one chunk a rank; the message names what to use instead.
void require_one_chunk(Errors& errors, std::string_view name, const ScheduleShape& shape);
// Sets chunks to 2 where the schedule by its nature holds two and the shape says 1 (not given); else faults.
void require_two_chunks(Errors& errors, std::string_view name, ScheduleShape& shape);

// A schedule without slots, its pieces laid round the ranks: piece = chunk * p + rank.
[[nodiscard]] Schedule looped(ScheduleKind kind, const ScheduleShape& shape);
// Two pieces a rank, r and 2p-1-r: the first and the last piece share rank 0.
[[nodiscard]] Schedule v_shaped(ScheduleKind kind, const ScheduleShape& shape);

[[nodiscard]] Result<Schedule> make_gpipe(const ScheduleShape& shape);
[[nodiscard]] Result<Schedule> make_one_f_one_b(const ScheduleShape& shape);
[[nodiscard]] Result<Schedule> make_interleaved(const ScheduleShape& shape);
[[nodiscard]] Result<Schedule> make_zb_h1(const ScheduleShape& shape);
[[nodiscard]] Result<Schedule> make_zb_v(const ScheduleShape& shape);
[[nodiscard]] Result<Schedule> make_dualpipe(const ScheduleShape& shape);
[[nodiscard]] Result<Schedule> make_dualpipe_v(const ScheduleShape& shape);
[[nodiscard]] Result<Schedule> make_coscheduled(const ScheduleShape& shape);

// Closed forms: ScheduleInfo::ideal_bubble.
double bubble_one_pass(const ScheduleShape& shape, double f, double b, double w);  // gpipe, 1f1b
double bubble_interleaved(const ScheduleShape& shape, double f, double b, double w);
double bubble_zb_h1(const ScheduleShape& shape, double f, double b, double w);
double bubble_zb_v(const ScheduleShape& shape, double f, double b, double w);
double bubble_dualpipe(const ScheduleShape& shape, double f, double b, double w);
double bubble_dualpipe_v(const ScheduleShape& shape, double f, double b, double w);
double bubble_coscheduled(const ScheduleShape& shape, double f, double b, double w);

}  // namespace stepcast::parallelism::pipeline
