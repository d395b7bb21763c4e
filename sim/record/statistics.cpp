#include "sim/record/statistics.h"

#include <algorithm>

namespace stepcast::sim {

Ticks mean(std::span<const Ticks> values) {
  if (values.empty()) return 0;
  Ticks sum = 0;
  for (Ticks t : values) sum += t;
  return sum / static_cast<Ticks>(values.size());
}

Ticks percentile(std::span<const Ticks> sorted, int percent) {
  const std::size_t rank = (sorted.size() * static_cast<std::size_t>(percent) + 99) / 100;
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

std::array<CategoryStats, category_count> category_stats(const std::vector<Partition>& by_rank) {
  std::array<CategoryStats, category_count> stats{};
  if (by_rank.empty()) return stats;
  std::vector<Ticks> values(by_rank.size());
  for (std::size_t k = 0; k < stats.size(); ++k) {
    for (std::size_t r = 0; r < by_rank.size(); ++r) values[r] = by_rank[r][k];
    CategoryStats& s = stats[k];
    const auto largest = std::max_element(values.begin(), values.end());
    s.max = *largest;
    s.max_rank = RankId(static_cast<std::int32_t>(largest - values.begin()));
    s.mean = mean(values);
    std::sort(values.begin(), values.end());
    s.p50 = percentile(values, 50);
    s.p95 = percentile(values, 95);
  }
  return stats;
}

}  // namespace stepcast::sim
