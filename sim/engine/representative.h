// A program of one lane a cohort, for steps whose lanes all behave alike.
//
// Where nothing differs by rank (no noise, no slow devices, the same rows
// everywhere), every lane of a cohort runs through the same times, the largest of
// a group is any member's, and one lane tells the step to the tick. Groups shrink
// to one member and channels to one lane; joins keep one member a cohort.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/engine/conditions.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// Ranks are numbered by cohort: rank c stands for all of cohort c. Nothing where a join's groups are not alike: each
// must hold members of every cohort that the join names.
[[nodiscard]] std::optional<Program> representative(const Program& program);

// Rows of the representative lanes, the same in every step and instance. Thread-safe once made.
class RepresentativeLoads final : public LoadSource {
 public:
  void rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const override;

 private:
  friend std::optional<RepresentativeLoads> representative_loads(const Program& program, const LoadSource& loads);
  int cohorts_ = 0;
  std::vector<float> rows_;  // by load and cohort
};

// The loads of the first step's first instance, for sources that are known to give the same rows to every step and
// instance; nothing where two lanes of a cohort differ. `program` is the whole one.
[[nodiscard]] std::optional<RepresentativeLoads> representative_loads(const Program& program, const LoadSource& loads);

}  // namespace stepcast::sim
