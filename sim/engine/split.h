// A program cut into units: cohorts that advance on their own.
//
// Each unit of a cohort (Cohort::unit_of_lane) becomes a cohort, with its part of
// the group classes and channels; collectives that span units become joins. The
// same ranks then execute the same instructions at the same times, but groups
// that do not wait for each other can be at different places of their lists:
// what the contention tier needs (groups meet on links in time order), and what
// lets one step run on several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/engine/conditions.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// True when every group of the class lies inside one unit.
[[nodiscard]] bool inside_units(const Cohort& cohort, const GroupClass& group);

// Lanes by unit; one list of all lanes where the cohort is one unit.
[[nodiscard]] std::vector<std::vector<std::int32_t>> lanes_by_unit(const Cohort& cohort);

// Whether units can be told apart: each sends to one unit and receives from one, over every channel.
[[nodiscard]] bool separable(const Program& program);

struct SplitProgram {
  struct Origin {
    int cohort = 0, unit = 0;
    std::vector<std::int32_t> lanes;  // of the cohort
  };
  Program program;              // works and memory are left out: no recorder sees it
  std::vector<Origin> origins;  // by cohort of `program`
  // By cohort and group class of the original: the join that replaces the collective, -1 if it stays one.
  std::vector<std::vector<int>> join_of_group;
};
// The program must be separable.
[[nodiscard]] SplitProgram split_units(const Program& program);

// The original's loads as the units ask for them. Borrows both.
class UnitLoads final : public LoadSource {
 public:
  UnitLoads(const Program& original, const SplitProgram& split, const LoadSource* source)
      : original_(&original), split_(&split), source_(source) {}
  void rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const override;

 private:
  const Program* original_;
  const SplitProgram* split_;
  const LoadSource* source_;
};

}  // namespace stepcast::sim
