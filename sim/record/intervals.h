// Communication of a cohort that may still fall into a gap of its compute stream.
//
// One queue a stream, one column an instruction, one entry a lane: ready..begin
// waits, begin..end transfers. Streams are FIFO, so a lane's intervals never
// overlap within a queue and the oldest column closes first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/record/labels.h"

namespace stepcast::sim {

struct IntervalColumn {
  std::vector<Ticks> ready, begin, end;
  OpLabel label;

  void assign(const OpLabel& what, std::span<const Ticks> r, std::span<const Ticks> b, std::span<const Ticks> e) {
    label = what;
    ready.assign(r.begin(), r.end());
    begin.assign(b.begin(), b.end());
    end.assign(e.begin(), e.end());
  }
};

class OpenIntervals {
 public:
  [[nodiscard]] bool empty() const { return columns_.empty(); }
  [[nodiscard]] auto begin() const { return columns_.begin(); }
  [[nodiscard]] auto end() const { return columns_.end(); }

  IntervalColumn& push() {
    if (spare_.empty()) return columns_.emplace_back();
    columns_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    return columns_.back();
  }

  // Drops what ended before every lane's cursor.
  void drop_until(std::span<const Ticks> cursor) {
    while (!columns_.empty() && closed(columns_.front(), cursor)) {
      spare_.push_back(std::move(columns_.front()));
      columns_.pop_front();
    }
  }

 private:
  static bool closed(const IntervalColumn& column, std::span<const Ticks> cursor) {
    Ticks latest = 0;
    for (std::size_t lane = 0; lane < cursor.size(); ++lane) latest = std::max(latest, column.end[lane] - cursor[lane]);
    return latest <= 0;
  }

  std::deque<IntervalColumn> columns_;
  std::vector<IntervalColumn> spare_;
};

}  // namespace stepcast::sim
