// Memory of every rank along its instruction list, as a caching allocator sees it.
//
// Bytes are allocated when an op begins and freed when it ends, in the order in
// which ops are issued, not in the order of their times: an allocator hands out
// a block when the host asks for it. Peak = static bytes of the cohort + the
// largest running sum, where
//   running += bytes + bytes_per_row x rows   over the effects of each op, those at its begin first.
// A lane's running sum is a part shared by the cohort plus a part of its own
// that only effects with rows touch, so most ops cost one addition a cohort.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/conditions.h"
#include "sim/engine/sink.h"
#include "sim/program/program.h"
#include "sim/record/report.h"

namespace stepcast::sim {

class MemoryRecorder {
 public:
  explicit MemoryRecorder(const Program& program);

  void on_instruction(const InstructionEvent& event);

  // Peak over ranks; its parts are recomputed for the peak's rank from the rows of `step`.
  [[nodiscard]] MemoryPeak peak(const Conditions& conditions, std::uint64_t step, Ticks step_begin) const;

 private:
  struct Effect {  // of one work, summed over parts
    double begin = 0, begin_per_row = 0;
    double end = 0, end_per_row = 0;
  };
  struct Lanes {
    std::vector<Effect> effects;            // by work
    double shared = 0;                      // running bytes that all lanes have
    std::vector<double> own;                // and that each lane has on top
    std::vector<double> peak;               // of shared + own
    std::vector<std::uint32_t> peak_phase;  // 2 x (instruction of the step) + (1 at its end)
    std::vector<Ticks> peak_at;
    double quiet_below = 0;  // no lane has a new peak while shared is not above
    double gross = 0;        // all bytes moved, bounds the rounding error
    std::uint32_t seen = 0;  // instructions
  };

  static void apply(Lanes& lanes, double bytes, double per_row, const InstructionEvent& event, bool at_end);
  // Bytes by part after all effects up to and including `phase`.
  [[nodiscard]] std::vector<double> parts_at(std::size_t cohort, std::size_t lane, std::uint32_t phase,
                                             const Conditions& conditions, std::uint64_t step) const;

  const Program& program_;
  std::vector<Lanes> cohorts_;
};

}  // namespace stepcast::sim
