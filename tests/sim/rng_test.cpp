#include "sim/base/rng.h"

#include <catch2/catch.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "sim/engine/conditions.h"

namespace stepcast {
namespace {

TEST_CASE("draws are a function of their coordinates alone") {
  const RngKey a(1, 2, Purpose::kernel_noise);
  CHECK(a.with(3).with(4).bits == RngKey(1, 2, Purpose::kernel_noise).with(3).with(4).bits);
  CHECK(a.with(3).with(4).bits != a.with(4).with(3).bits);
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::uint64_t step = 0; step < 4; ++step) {
      for (auto purpose : {Purpose::routing_hot, Purpose::device_speed, Purpose::stall}) {
        for (std::uint64_t i = 0; i < 64; ++i) seen.insert(RngKey(seed, step, purpose).with(i).bits);
      }
    }
  }
  CHECK(seen.size() == 4 * 4 * 3 * 64);
}

TEST_CASE("uniform and normal draws have their moments") {
  const RngKey key(7, 0, Purpose::program_test);
  constexpr int n = 200000;
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0;
  std::array<int, 16> bins{};
  for (std::uint64_t i = 0; i < n; ++i) {
    const double u = uniform(key.with(i));
    REQUIRE(u > 0);
    REQUIRE(u < 1);
    sum += u;
    squares += u * u;
    ++bins[static_cast<std::size_t>(u * 16)];
    const double z = normal(key.with(i));
    normal_sum += z;
    normal_squares += z * z;
  }
  CHECK(sum / n == Approx(0.5).margin(0.003));
  CHECK(squares / n == Approx(1.0 / 3).margin(0.003));
  CHECK(normal_sum / n == Approx(0).margin(0.01));
  CHECK(normal_squares / n == Approx(1).margin(0.02));
  double chi2 = 0;
  for (int count : bins) chi2 += (count - n / 16.0) * (count - n / 16.0) / (n / 16.0);
  CHECK(chi2 < 40);  // 15 degrees of freedom, p about 5e-4
}

TEST_CASE("neighbouring coordinates give unrelated bits") {
  const RngKey key(1, 0, Purpose::kernel_noise);
  double flipped = 0;
  constexpr int n = 4096;
  for (std::uint64_t i = 0; i < n; ++i) flipped += std::popcount(key.with(i).bits ^ key.with(i + 1).bits);
  CHECK(flipped / n == Approx(32).margin(0.5));
}

TEST_CASE("kernel noise has mean one and the wanted deviation") {
  double sum = 0, squares = 0;
  constexpr int n = 200000;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double f = sim::noise_factor(sim::noise_key(1, 0, RankId(static_cast<std::int32_t>(i % 64))), i, 0.05);
    REQUIRE(f > 0);
    sum += f;
    squares += (f - 1) * (f - 1);
  }
  CHECK(sum / n == Approx(1).margin(5e-4));
  CHECK(std::sqrt(squares / n) == Approx(0.05).margin(5e-4));
}

TEST_CASE("ticks are the nearest ones") {
  CHECK(sim::nearest_tick(0) == 0);
  CHECK(sim::nearest_tick(0.49999999999) == 0);
  CHECK(sim::nearest_tick(0.5) == 0);  // ties to even
  CHECK(sim::nearest_tick(1.5) == 2);
  CHECK(sim::nearest_tick(123456789.4) == 123456789);
  CHECK(sim::nearest_tick(0x1.0p51 - 1) == (std::int64_t{1} << 51) - 1);
  const RngKey key(3, 0, Purpose::program_test);
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double t = uniform(key.with(i)) * std::exp2(static_cast<double>(i % 50));
    CHECK(sim::nearest_tick(t) == static_cast<Ticks>(std::nearbyint(t)));
  }
}

}  // namespace
}  // namespace stepcast
