// Mean and nearest-rank percentiles of times over ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/record/report.h"

namespace stepcast::sim {

// Rounded towards zero; 0 of none.
[[nodiscard]] Ticks mean(std::span<const Ticks> values);

// The smallest value that at least `percent` % of the values do not exceed. `sorted` ascending, not empty.
[[nodiscard]] Ticks percentile(std::span<const Ticks> sorted, int percent);

// Over ranks, by category; critical_path is left at zero.
[[nodiscard]] std::array<CategoryStats, category_count> category_stats(const std::vector<Partition>& by_rank);

}  // namespace stepcast::sim
