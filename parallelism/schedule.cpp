#include "parallelism/schedule.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism {
namespace {

using namespace pipeline;

constexpr std::array table{
    ScheduleInfo{ScheduleKind::gpipe, "gpipe", "all forwards, then all backwards", &make_gpipe, &bubble_one_pass},
    ScheduleInfo{ScheduleKind::one_f_one_b, "1f1b", "one forward, one backward; p microbatches in flight",
                 &make_one_f_one_b, &bubble_one_pass},
    ScheduleInfo{ScheduleKind::interleaved, "interleaved", "1F1B over several chunks a rank (Megatron-Core)",
                 &make_interleaved, &bubble_interleaved},
    ScheduleInfo{ScheduleKind::zb_h1, "zb-h1", "zero-bubble H1: weight gradients fill the tail, memory of 1F1B",
                 &make_zb_h1, &bubble_zb_h1},
    ScheduleInfo{ScheduleKind::zb_v, "zb-v", "zero-bubble V: two pieces a rank, input and weight gradients apart",
                 &make_zb_v, &bubble_zb_v},
    ScheduleInfo{ScheduleKind::dualpipe, "dualpipe", "microbatches from both ends, forward and backward paired",
                 &make_dualpipe, &bubble_dualpipe},
    ScheduleInfo{ScheduleKind::dualpipe_v, "dualpipe-v", "DualPipe folded into a V: one copy of the parameters",
                 &make_dualpipe_v, &bubble_dualpipe_v},
    ScheduleInfo{ScheduleKind::coscheduled, "coscheduled",
                 "1F1B or interleaved with paired slots that hide all-to-all (Megatron-Core)", &make_coscheduled,
                 &bubble_coscheduled},
};

}  // namespace

std::span<const ScheduleInfo> schedules() { return table; }

const ScheduleInfo& info(ScheduleKind kind) {
  const auto it = std::find_if(table.begin(), table.end(), [kind](const ScheduleInfo& i) { return i.kind == kind; });
  STEPCAST_ASSERT(it != table.end());
  return *it;
}

Result<ScheduleKind> parse_schedule(const std::string& name) {
  std::vector<std::string> names;
  for (const ScheduleInfo& i : table) {
    if (i.name == name) return i.kind;
    names.emplace_back(i.name);
  }
  return make_error(ErrorCode::invalid,
                    fmt::format("no schedule '{}'; there are {}{}", name.substr(0, 64), fmt::join(names, ", "),
                                suggestion(name, names)),
                    "/parallelism/schedule");
}

Schedule::Place Schedule::owner(int piece, int microbatch) const {
  const int p = shape.stages;
  switch (kind) {
    case ScheduleKind::dualpipe:
      return microbatch < shape.microbatches / 2 ? Place{piece, 0} : Place{p - 1 - piece, 1};
    case ScheduleKind::zb_v:
    case ScheduleKind::dualpipe_v:
      return piece < p ? Place{piece, 0} : Place{2 * p - 1 - piece, 1};
    default:
      return {piece % p, piece / p};
  }
}

}  // namespace stepcast::parallelism
