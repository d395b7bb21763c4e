#include "sim/base/stats.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <vector>

#include "sim/base/rng.h"

namespace stepcast {
namespace {

TEST_CASE("mean and deviation of a few values") {
  const std::vector<double> v = {2, 4, 4, 4, 5, 5, 7, 9};
  CHECK(mean(v) == 5);
  CHECK(standard_deviation(v) == Approx(std::sqrt(32.0 / 7)));
  CHECK(mean({}) == 0);
  CHECK(standard_deviation(std::vector<double>{3}) == 0);
}

TEST_CASE("quantiles interpolate between order statistics") {
  const std::vector<double> v = sorted(std::vector<double>{4, 1, 3, 2});
  CHECK(quantile(v, 0) == 1);
  CHECK(quantile(v, 1) == 4);
  CHECK(quantile(v, 0.5) == 2.5);
  CHECK(quantile(v, 0.25) == 1.75);
  CHECK(quantile({}, 0.5) == 0);
  CHECK(quantile(std::vector<double>{7}, 0.99) == 7);
}

TEST_CASE("ranks that enclose a quantile match the binomial") {
  // The median of 10: X(2) and X(9) enclose it with 1 - 2 * 11/1024.
  const auto median = quantile_ranks(10, 0.5, 0.95);
  REQUIRE(median);
  CHECK(median->low == 2);
  CHECK(median->high == 9);
  CHECK(median->coverage == Approx(1 - 22.0 / 1024));
  // p99 of 1000 samples.
  const auto p99 = quantile_ranks(1000, 0.99, 0.95);
  REQUIRE(p99);
  CHECK(p99->low >= 983);
  CHECK(p99->low <= 985);
  CHECK(p99->high >= 996);
  CHECK(p99->high <= 997);
  CHECK(p99->coverage >= 0.95);
}

TEST_CASE("too few samples give no interval") {
  CHECK_FALSE(quantile_ranks(100, 0.99, 0.95));
  CHECK_FALSE(quantile_ranks(5, 0.5, 0.95));
  CHECK_FALSE(quantile_ranks(0, 0.5, 0.95));
  CHECK(quantile_ranks(6, 0.5, 0.95));
  CHECK_FALSE(quantile_ranks(1000, 1.0, 0.95));
}

TEST_CASE("intervals cover the true quantile as often as they say") {
  int covered = 0;
  constexpr int trials = 2000;
  const double truth = 0.9;  // of the uniform distribution
  for (std::uint64_t t = 0; t < trials; ++t) {
    const RngKey key(5, t, Purpose::program_test);
    std::vector<double> v;
    for (std::uint64_t i = 0; i < 100; ++i) v.push_back(uniform(key.with(i)));
    const auto interval = quantile_interval(sorted(v), 0.9, 0.9);
    REQUIRE(interval);
    covered += interval->low <= truth && truth < interval->high ? 1 : 0;
  }
  CHECK(covered >= 0.88 * trials);
  CHECK(covered <= 0.97 * trials);
}

}  // namespace
}  // namespace stepcast
