// The partition of single ranks piece by piece, for drawing them over time.
//
// The same attribution as StepReport::by_rank: the pieces of a rank tile the
// step, and their sums by category are its partition.
#pragma once

#include <vector>

#include "sim/base/error.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "sim/engine/conditions.h"
#include "sim/program/program.h"

namespace stepcast::sim {

struct RecordOptions;

struct PartitionPiece {
  Ticks begin = 0, end = 0;  // since the step's begin
  Category category = Category::other;
};

struct WatchedRank {
  RankId rank;
  std::vector<PartitionPiece> pieces;  // in order of time
};

// Evaluates the step of `options` again. One entry a rank, in the order given; ranks that the program lacks are left
// out.
[[nodiscard]] Result<std::vector<WatchedRank>> record_pieces(const Program& program, const Conditions& conditions,
                                                             const RecordOptions& options,
                                                             const std::vector<RankId>& ranks);

}  // namespace stepcast::sim
