// Statistics of samples: mean, quantiles, and intervals of quantiles from order statistics.
//
// Sums run in the given order, so results do not depend on threads. No NaN goes in, none comes out.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace stepcast {

// 0 for no values.
[[nodiscard]] double mean(std::span<const double> values);

// Of a sample: divided by n - 1. 0 for fewer than two values.
[[nodiscard]] double standard_deviation(std::span<const double> values);

[[nodiscard]] std::vector<double> sorted(std::span<const double> values);

// Quantile p in [0, 1] by linear interpolation between order statistics at (n - 1) p (Hyndman and Fan 1996, type 7,
// the default of R and NumPy). 0 for no values.
[[nodiscard]] double quantile(std::span<const double> ascending, double p);

// Ranks, from 1, of two order statistics that enclose the true quantile with at least the wanted confidence, whatever
// the distribution: P(X(low) <= q < X(high)) = P(low <= B < high), B binomial(n, p). Each side errs by at most
// (1 - confidence) / 2. None when n values cannot give that.
struct RankInterval {
  std::size_t low = 0, high = 0;
  double coverage = 0;  // the confidence that is reached
};
[[nodiscard]] std::optional<RankInterval> quantile_ranks(std::size_t n, double p, double confidence);

struct Interval {
  double low = 0, high = 0;
};
[[nodiscard]] std::optional<Interval> quantile_interval(std::span<const double> ascending, double p, double confidence);

// How many samples the quantile needs before it is reported: fewer leave it to one or two values.
inline constexpr std::size_t samples_for_p95 = 100;
inline constexpr std::size_t samples_for_p99 = 500;

}  // namespace stepcast
