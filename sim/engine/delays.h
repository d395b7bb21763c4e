// By how much sharing links lengthened each operation of a run.
//
// The contention tier finds them in time order; with them known, time is
// max-plus again, so a run is repeated, recorded and traced by the lockstep tier
// with the same bits. One delay for all lanes of a unit (Cohort::unit_of_lane).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/units.h"
#include "sim/program/program.h"

namespace stepcast::sim {

class Delays {
 public:
  Delays() = default;
  Delays(const Program& program, std::uint64_t first_step, int steps);

  // Zero delays need not be added. Not thread-safe.
  void add(std::uint64_t step, int cohort, int unit, std::uint64_t ordinal, Ticks delay);
  // Once after the last add().
  void sort();
  [[nodiscard]] Ticks of(std::uint64_t step, int cohort, int unit, std::uint64_t ordinal) const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::uint64_t ordinal;
    Ticks delay;
  };
  [[nodiscard]] std::size_t index(std::uint64_t step, int cohort, int unit) const;

  std::uint64_t first_step_ = 0;
  std::size_t units_ = 0;                    // of all cohorts
  std::vector<std::size_t> first_unit_;      // by cohort
  std::vector<std::vector<Entry>> entries_;  // by step and unit; ascending ordinals
};

}  // namespace stepcast::sim
