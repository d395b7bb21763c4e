#include "sim/record/trace_counters.h"

#include <algorithm>
#include <cmath>

#include "sim/record/dependencies.h"

namespace stepcast::sim {
namespace {

class Counter {
 public:
  Counter(const Program& program, const Timeline& timeline, std::vector<CounterPoint>& points)
      : program_(program), timeline_(timeline), points_(points) {}

  void memory(std::uint32_t first, std::uint32_t last, Ticks origin) {
    double bytes = 0;
    for (double part : program_.cohorts[static_cast<std::size_t>(timeline_.ops[first].cohort)].static_bytes) {
      bytes += part;
    }
    Ticks at = origin;
    points_.push_back({CounterPoint::Kind::memory, first, at, bytes, 0});
    for (std::uint32_t i = first; i < last; ++i) {
      const TimelineOp& op = timeline_.ops[i];
      const Work& work = work_of(program_, op);
      for (const bool at_end : {false, true}) {
        const double before = bytes;
        for (const MemoryEffect& m : work.memory) {
          if (m.at_end == at_end) bytes += m.bytes + m.bytes_per_row * static_cast<double>(op.rows);
        }
        if (bytes == before) continue;
        at = std::max(at, at_end ? op.end : op.begin);
        points_.push_back({CounterPoint::Kind::memory, i, at, bytes, 0});
      }
    }
  }

  // Transfers may overlap: a sum of rates that rises where one begins and falls where it ends. A message counts where
  // it is sent.
  void links(std::uint32_t first, std::uint32_t last) {
    std::vector<CounterPoint> changes;
    for (std::uint32_t i = first; i < last; ++i) {
      const TimelineOp& op = timeline_.ops[i];
      const Opcode kind = instruction_of(program_, op).op;
      if (kind != Opcode::collective && kind != Opcode::join && kind != Opcode::send) continue;
      const Work& work = work_of(program_, op);
      const double bytes = work.wire_bytes + work.wire_per_row * static_cast<double>(op.rows);
      if (!(bytes > 0) || op.end <= op.begin) continue;
      const double rate = bytes / to_seconds(op.end - op.begin).value;
      const double nic = rate * work.nic_share;
      changes.push_back({CounterPoint::Kind::links, i, op.begin, rate - nic, nic});
      changes.push_back({CounterPoint::Kind::links, i, op.end, nic - rate, -nic});
    }
    std::stable_sort(changes.begin(), changes.end(),
                     [](const CounterPoint& a, const CounterPoint& b) { return a.at < b.at; });
    double nvlink = 0, nic = 0;
    int open = 0;
    for (std::size_t c = 0; c < changes.size(); ++c) {
      const bool begins = timeline_.ops[changes[c].op].begin == changes[c].at;
      open += begins ? 1 : -1;
      nvlink = open == 0 ? 0 : nvlink + changes[c].value;  // no rest of rounding where nothing is under way
      nic = open == 0 ? 0 : nic + changes[c].second;
      if (c + 1 < changes.size() && changes[c + 1].at == changes[c].at) continue;
      points_.push_back(
          {CounterPoint::Kind::links, changes[c].op, changes[c].at, std::max(0.0, nvlink), std::max(0.0, nic)});
    }
  }

  void rows(std::uint32_t first, std::uint32_t last) {
    double shown = -1;
    for (std::uint32_t i = first; i < last; ++i) {
      const TimelineOp& op = timeline_.ops[i];
      const Instruction& in = instruction_of(program_, op);
      const double value = static_cast<double>(op.rows);
      if (in.load == none16 || work_of(program_, op).category != Category::grouped_gemm || value == shown) continue;
      shown = value;
      points_.push_back({CounterPoint::Kind::rows, i, op.begin, value, 0});
    }
  }

 private:
  const Program& program_;
  const Timeline& timeline_;
  std::vector<CounterPoint>& points_;
};

}  // namespace

std::vector<CounterPoint> trace_counters(const Program& program, const Timeline& timeline, Ticks origin) {
  std::vector<CounterPoint> points;
  Counter counter(program, timeline, points);
  const auto ops = static_cast<std::uint32_t>(timeline.ops.size());
  for (std::uint32_t first = 0, last = 0; first < ops; first = last) {
    while (last < ops && timeline.ops[last].rank == timeline.ops[first].rank) ++last;
    counter.memory(first, last, origin);
    counter.links(first, last);
    counter.rows(first, last);
  }
  return points;
}

}  // namespace stepcast::sim
