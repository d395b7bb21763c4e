#include "sim/base/stats.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/binomial.hpp>

namespace stepcast {

namespace {

namespace policies = boost::math::policies;
using NoThrow =
    policies::policy<policies::domain_error<policies::ignore_error>, policies::overflow_error<policies::ignore_error>,
                     policies::evaluation_error<policies::ignore_error>>;
using Binomial = boost::math::binomial_distribution<double, NoThrow>;

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double m = mean(values);
  double sum = 0;
  for (double v : values) sum += (v - m) * (v - m);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  std::sort(out.begin(), out.end());
  return out;
}

double quantile(std::span<const double> ascending, double p) {
  if (ascending.empty()) return 0;
  const double at = std::clamp(p, 0.0, 1.0) * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double share = at - static_cast<double>(below);
  return ascending[below] + share * (ascending[above] - ascending[below]);
}

std::optional<RankInterval> quantile_ranks(std::size_t n, double p, double confidence) {
  if (n == 0 || !(p > 0 && p < 1) || !(confidence > 0 && confidence < 1)) return std::nullopt;
  const Binomial below(static_cast<double>(n), p);  // how many of n values lie below the quantile
  const double tail = (1 - confidence) / 2;
  const auto at_most = [&](std::size_t k) { return boost::math::cdf(below, static_cast<double>(k)); };
  // X(low) > q needs fewer than low values below q: P(B <= low - 1) <= tail.
  std::size_t low = 0;
  while (low < n && at_most(low) <= tail) ++low;
  // X(high) <= q needs at least high: P(B >= high) <= tail.
  std::size_t high = low + 1;
  while (high <= n && 1 - at_most(high - 1) > tail) ++high;
  if (low == 0 || high > n) return std::nullopt;
  return RankInterval{low, high, at_most(high - 1) - at_most(low - 1)};
}

std::optional<Interval> quantile_interval(std::span<const double> ascending, double p, double confidence) {
  const auto ranks = quantile_ranks(ascending.size(), p, confidence);
  if (!ranks) return std::nullopt;
  return Interval{ascending[ranks->low - 1], ascending[ranks->high - 1]};
}

}  // namespace stepcast
