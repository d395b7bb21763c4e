// One lane a cohort against all of them, where nothing differs by rank.
#include <algorithm>

#include <catch2/catch.hpp>

#include "random_program.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/representative.h"

namespace stepcast::sim {
namespace {

class EqualLoads final : public LoadSource {
 public:
  void rows(std::uint64_t, int load, int cohort, int, std::span<float> rows) const override {
    std::fill(rows.begin(), rows.end(), static_cast<float>(100 + 7 * load + cohort));
  }
};

}  // namespace

TEST_CASE("a representative lane takes the step of all lanes when nothing differs by rank") {
  const EqualLoads loads;
  int finished = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Program program = testing::random_program(seed, false);
    const auto one = representative(program);
    if (!one) continue;
    REQUIRE(check(*one).empty());
    const auto one_loads = representative_loads(program, loads);
    REQUIRE(one_loads);
    RunOptions options;
    options.steps = 2;
    Conditions conditions;
    conditions.loads = &loads;
    const auto whole = run_lockstep(program, conditions, options);
    conditions.loads = &*one_loads;
    const auto lane = run_lockstep(*one, conditions, options);
    INFO("seed " << seed);
    REQUIRE(whole.ok() == lane.ok());
    if (!whole) continue;
    ++finished;
    CHECK(whole->last_step() == lane->last_step());
  }
  CHECK(finished > 50);
}

TEST_CASE("loads that differ by lane have no representative") {
  const testing::HashedLoads loads(3);
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Program program = testing::random_program(seed, false);
    if (program.loads > 0 && !representative_loads(program, loads)) ++refused;
  }
  CHECK(refused > 0);
}

}  // namespace stepcast::sim
