// Kernels that a software profile adds to the expert block: unfused permutation and reordered block scales.
#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

#include "tests/parallelism/cut_spec.h"

using namespace stepcast;
using namespace stepcast::parallelism;

namespace {

struct Count {
  int all = 0, launched = 0;
};

Count count(const StepSpec& spec, const std::string& name) {
  const auto step = lower(spec);
  REQUIRE(step.ok());
  const sim::Cohort& cohort = step->program.cohorts.front();
  const auto body = std::find_if(cohort.bodies.begin(), cohort.bodies.end(),
                                 [](const sim::Body& b) { return b.name.starts_with("forward"); });
  REQUIRE(body != cohort.bodies.end());
  Count n;
  for (const sim::Instruction& in : body->instructions) {
    if (cohort.works[in.work].name != name) continue;
    ++n.all;
    if ((in.flags & sim::flag_no_launch) == 0) ++n.launched;
  }
  return n;
}

StepSpec eight_experts_a_rank() {
  StepSpec spec = testing::cut_spec("olmoe-1b-7b", "b200:8", 1, 1024);
  spec.degrees.ep = 8;
  spec.workload.global_batch = 8;
  return spec;
}

}  // namespace

TEST_CASE("without permute fusion the host puts an all-to-all's rows in order chunk by chunk") {
  StepSpec spec = eight_experts_a_rank();
  spec.runtime.dispatcher = topology::Dispatcher::all_to_all;
  CHECK(count(spec, "sort_rows.chunks").all == 0);
  spec.software.permute_fusion = false;
  spec.software.permute_chunk_us = 10;  // of 64 experts
  spec.software.host_launch_us = 100;
  // 6.4 each: what is left of one comes together with the next.
  CHECK(count(spec, "sort_rows.chunks").launched == 6);
  CHECK(count(spec, "unsort_rows.chunks").launched == 7);
  spec.runtime.dispatcher = topology::Dispatcher::hybridep;
  CHECK(count(spec, "sort_rows.chunks").all == 0);
}

TEST_CASE("block scales are reordered before each quantised product where the profile does not fuse it") {
  StepSpec spec = eight_experts_a_rank();
  spec.recipe.name = "mxfp8";
  spec.recipe.gemm = topology::Precision::mxfp8;
  CHECK(count(spec, "expert_fc1.swizzle").all == 0);
  spec.software.fused_swizzle = false;
  CHECK(count(spec, "expert_fc1.swizzle").all == 1);
  CHECK(count(spec, "qkv.swizzle").all == 1);
  CHECK(count(spec, "qkv.swizzle").launched == 0);
  spec.recipe.name = "fp8-tensorwise";  // one scale a tensor
  CHECK(count(spec, "expert_fc1.swizzle").all == 0);
}
