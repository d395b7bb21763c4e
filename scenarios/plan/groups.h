// The rank groups of every pipeline stage and where they lie, as the lowering finds them.
#pragma once

#include <vector>

#include "parallelism/layout.h"
#include "scenarios/plan/outline.h"
#include "topology/fabric.h"

namespace stepcast::scenarios::plan {

struct Groups {
  std::vector<StageGroups> kinds;  // distinct ones
  std::vector<int> kind_of_stage;
  std::vector<int> domain_of_stage;  // NVLink domain of the stage's first rank
};

// `shard_group`: of hsdp, 0 for other shardings.
[[nodiscard]] Groups find_groups(const parallelism::StepSpec& spec, const parallelism::Layout& layout,
                                 const topology::Fabric& fabric, int shard_group);

}  // namespace stepcast::scenarios::plan
