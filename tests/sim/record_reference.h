// Slow, obviously right ways to partition a step and to follow its memory, from all its events.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "random_program.h"
#include "sim/record/labels.h"
#include "sim/record/report.h"

namespace stepcast::sim::test {

// Gives a random program categories, and memory that depends on rows; whole bytes, so that sums are exact.
inline void decorate(Program& program, std::uint64_t seed) {
  testing::Draws draws(seed + 5000);
  program.memory_parts = {"a", "b", "c"};
  for (Cohort& cohort : program.cohorts) {
    cohort.works.clear();
    for (int w = 0; w < 5; ++w) {
      Work work;
      work.name = "work " + std::to_string(w);
      work.category = static_cast<Category>(draws.below(8));
      if (w > 2) work.collective = "collective";
      for (int m = draws.below(4); m > 0; --m) {
        const bool frees = draws.chance(50);
        const double bytes = draws.below(1000);
        const double per_row = draws.chance(30) ? draws.below(9) : 0;
        work.memory.push_back({static_cast<std::uint16_t>(draws.below(3)), draws.chance(50), frees ? -bytes : bytes,
                               frees ? -per_row : per_row});
      }
      cohort.works.push_back(work);
    }
    cohort.static_bytes = {1000.0 * draws.below(3), 77};
    for (Body& body : cohort.bodies) {
      for (Instruction& in : body.instructions) in.work = static_cast<std::uint16_t>(draws.below(5));
    }
  }
}

struct ReferenceInterval {
  std::size_t order;  // of its stream among transfers
  OpLabel label;
  Ticks ready, begin, end;
};

// Category of one instant in a gap, by the rules of sim/record/partition.h.
inline Category category_at(Ticks t, const std::vector<ReferenceInterval>& intervals, Ticks data_begin, Ticks data_end,
                            Ticks issued, Category rest) {
  const ReferenceInterval* best = nullptr;
  for (const ReferenceInterval& i : intervals) {
    if (i.begin <= t && t < i.end && (best == nullptr || i.order < best->order)) best = &i;
  }
  if (best != nullptr) return best->label.transfer;
  for (const ReferenceInterval& i : intervals) {
    const bool waits = i.ready <= t && t < i.begin && i.label.waiting != Category::bubble;
    if (waits && (best == nullptr || i.order < best->order)) best = &i;
  }
  if (best != nullptr) return best->label.waiting;
  for (const ReferenceInterval& i : intervals) {
    if (i.ready <= t && t < i.begin) return Category::bubble;
  }
  if (data_begin <= t && t < data_end) return Category::data;
  return t < issued ? Category::host : rest;
}

class ReferencePartition {
 public:
  ReferencePartition(const Program& program, const testing::KeepingSink& before, const testing::KeepingSink& step,
                     Ticks begin, Ticks end)
      : program_(program), labels_(program), before_(before), step_(step), begin_(begin), end_(end) {
    sent_.resize(program.channels.size());
    for (const testing::Seen& s : step.seen) {
      if (s.event.instruction->op == Opcode::send) sent_[s.event.instruction->target].push_back(&s.begin);
    }
  }

  Partition of(std::size_t cohort, std::size_t lane) const {
    Partition result{};
    std::vector<ReferenceInterval> intervals;
    for (const testing::Seen& s : before_.seen) {
      const Instruction& in = *s.event.instruction;
      const bool lasting = in.stream == Stream::dp || in.stream == Stream::copy;
      if (s.event.cohort == static_cast<int>(cohort) && lasting && in.op != Opcode::host_sync) {
        add(intervals, s, lane, s.begin[lane]);
      }
    }
    const Cohort& c = program_.cohorts[cohort];
    std::vector<std::size_t> received(program_.channels.size(), 0);
    Ticks cursor = begin_, issued = begin_, synchronised = begin_, data_begin = begin_, data_end = begin_;
    bool first = true;
    for (const testing::Seen& s : step_.seen) {
      const Instruction& in = *s.event.instruction;
      if (s.event.cohort != static_cast<int>(cohort)) continue;
      if (in.op == Opcode::host_sync) {
        synchronised = s.end[lane];
        continue;
      }
      if ((in.flags & flag_no_launch) == 0) {
        issued = std::max(issued, s.host[lane]);
        if (first && c.step_host_ticks > 0) {
          data_end = s.host[lane] - c.launch_ticks;
          data_begin = data_end - c.step_host_ticks;
        }
        first = false;
      }
      if (in.op == Opcode::compute && in.stream == Stream::compute) {
        gap(result, intervals, cursor, s.begin[lane], data_begin, data_end, issued);
        const Ticks from = std::max(cursor, s.begin[lane]);
        if (s.end[lane] > from) result[static_cast<std::size_t>(s.event.work->category)] += s.end[lane] - from;
        cursor = std::max(from, s.end[lane]);
      } else if (in.op == Opcode::receive) {
        const Channel& channel = program_.channels[in.target];
        const std::size_t from = channel.from_lane.empty() ? lane : static_cast<std::size_t>(channel.from_lane[lane]);
        const Ticks message = (*sent_[in.target][received[in.target]++])[from];
        add(intervals, s, lane, std::clamp(message, s.ready[lane], s.end[lane]));
      } else {
        add(intervals, s, lane, s.begin[lane]);
      }
    }
    issued = std::max(issued, synchronised);
    const std::vector<Ticks>& ends = step_.step_ends[cohort];
    const Ticks stage_end = *std::max_element(ends.begin(), ends.end());
    gap(result, intervals, cursor, std::max(cursor, std::min(stage_end, end_)), data_begin, data_end, issued);
    gap(result, intervals, std::max(cursor, stage_end), end_, data_begin, data_end, issued, Category::bubble);
    return result;
  }

 private:
  void add(std::vector<ReferenceInterval>& intervals, const testing::Seen& s, std::size_t lane, Ticks begin) const {
    static constexpr std::array<std::size_t, stream_count> order = {3, 0, 1, 2, 5, 4, 6, 7};  // by stream
    intervals.push_back({order[static_cast<std::size_t>(s.event.instruction->stream)],
                         labels_.of(s.event.cohort, s.event.call, s.event.pc), s.ready[lane], begin, s.end[lane]});
  }

  static void gap(Partition& result, const std::vector<ReferenceInterval>& intervals, Ticks from, Ticks to,
                  Ticks data_begin, Ticks data_end, Ticks issued, Category rest = Category::other) {
    std::vector<Ticks> cuts = {from, to, data_begin, data_end, issued};
    for (const ReferenceInterval& i : intervals) cuts.insert(cuts.end(), {i.ready, i.begin, i.end});
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (cuts[i] < from || cuts[i + 1] > to || cuts[i] == cuts[i + 1]) continue;
      const Category category = category_at(cuts[i], intervals, data_begin, data_end, issued, rest);
      result[static_cast<std::size_t>(category)] += cuts[i + 1] - cuts[i];
    }
  }

  const Program& program_;
  Labels labels_;
  const testing::KeepingSink& before_;
  const testing::KeepingSink& step_;
  Ticks begin_, end_;
  std::vector<std::vector<const std::vector<Ticks>*>> sent_;  // by channel and message: begin by lane
};

// Peak of one lane, static bytes included.
inline double reference_peak(const Program& program, const testing::KeepingSink& step, std::size_t cohort,
                             std::size_t lane) {
  double bytes = 0, peak = 0, fixed = 0;
  for (double part : program.cohorts[cohort].static_bytes) fixed += part;
  for (const testing::Seen& s : step.seen) {
    if (s.event.cohort != static_cast<int>(cohort)) continue;
    for (const bool at_end : {false, true}) {
      for (const MemoryEffect& m : s.event.work->memory) {
        if (m.at_end != at_end) continue;
        bytes += m.bytes;
        if (!s.rows.empty()) bytes += m.bytes_per_row * static_cast<double>(s.rows[lane]);
      }
      peak = std::max(peak, bytes);
    }
  }
  return fixed + peak;
}

}  // namespace stepcast::sim::test
