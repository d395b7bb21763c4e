// Memory peaks along the instruction list.

#include "sim/record/memory.h"

#include <catch2/catch.hpp>

#include "record_events.h"

using namespace stepcast;
using namespace stepcast::sim;
using namespace stepcast::sim::test;

namespace {

// Rows 10, 20, 30 ... by lane, for every load.
class TenPerLane : public LoadSource {
 public:
  void rows(std::uint64_t, int, int, int, std::span<float> out) const override {
    for (std::size_t l = 0; l < out.size(); ++l) out[l] = 10.0F * static_cast<float>(l + 1);
  }
};

// Forward allocates activations (some by routed rows) and a workspace that it frees when it ends; backward frees.
Program forward_backward() {
  Program p;
  p.ranks = 3;
  p.loads = 1;
  p.memory_parts = {"weights", "activations", "workspace"};
  Work forward = work("forward", Category::gemm);
  forward.memory = {{1, false, 1000, 7}, {2, false, 500, 0}, {2, true, -500, 0}};
  Work backward = work("backward", Category::gemm);
  backward.memory = {{2, false, 100, 1}, {1, true, -1000, -7}, {2, true, -100, -1}};
  Instruction f = op(Opcode::compute, Stream::compute, 0);
  Instruction b = op(Opcode::compute, Stream::compute, 1);
  f.load = b.load = 0;
  p.cohorts.push_back(cohort("stage 0", 0, 3, {forward, backward}, {f, b}));
  p.cohorts[0].static_bytes = {4000, 0, 0};
  return p;
}

Times at(Ticks begin) {
  return {{0, 0, 0}, {begin, begin, begin}, {begin, begin, begin}, {begin + 5, begin + 5, begin + 5}, {10, 20, 30}};
}

}  // namespace

TEST_CASE("the peak is the largest running sum of the rank with the most rows") {
  const Program p = forward_backward();
  const TenPerLane loads;
  Conditions conditions;
  conditions.loads = &loads;
  MemoryRecorder recorder(p);
  const Times first = at(100), second = at(200);
  recorder.on_instruction(event(p, 0, 0, first));
  recorder.on_instruction(event(p, 0, 1, second));
  const MemoryPeak peak = recorder.peak(conditions, 0, 100);

  CHECK(peak.rank == RankId(2));
  CHECK(peak.bytes == 4000 + 1000 + 210 + 500);
  CHECK(peak.at == 0);
  CHECK(peak.returns_to_level);
  CHECK(peak.peak_by_rank == std::vector<double>{4000 + 1000 + 70 + 500, 4000 + 1000 + 140 + 500, 5710});
  CHECK(peak.by_part == std::map<std::string, double>{{"weights", 4000}, {"activations", 1210}, {"workspace", 500}});
}

TEST_CASE("bytes that a step keeps are reported") {
  Program p = forward_backward();
  p.cohorts[0].works[1].memory[1].bytes = -900;
  MemoryRecorder recorder(p);
  const Times first = at(0), second = at(10);
  recorder.on_instruction(event(p, 0, 0, first));
  recorder.on_instruction(event(p, 0, 1, second));
  const TenPerLane loads;
  Conditions conditions;
  conditions.loads = &loads;
  CHECK_FALSE(recorder.peak(conditions, 0, 0).returns_to_level);
}

TEST_CASE("a cohort without effects peaks at its static bytes") {
  Program p = forward_backward();
  for (Work& w : p.cohorts[0].works) w.memory.clear();
  const MemoryPeak peak = MemoryRecorder(p).peak({}, 0, 0);
  CHECK(peak.bytes == 4000);
  CHECK(peak.rank == RankId(0));
  CHECK(peak.by_part == std::map<std::string, double>{{"weights", 4000}});
}
