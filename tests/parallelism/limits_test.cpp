// What a program cannot hold is refused with its key, and what changes nothing is said.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/parallelism/cut_spec.h"

using namespace stepcast;
using namespace stepcast::parallelism;
using stepcast::parallelism::testing::check_refused;

namespace {

// One sequence a device.
StepSpec spec_of(const std::string& model, const std::string& cluster, int layers) {
  StepSpec spec = testing::cut_spec(model, cluster, layers, 256);
  spec.workload.global_batch = spec.cluster.devices;
  return spec;
}

bool notes(const StepSpec& spec, const std::string& what) {
  const auto step = lower(spec);
  REQUIRE(step.ok());
  return std::any_of(step->assumptions.begin(), step->assumptions.end(),
                     [&](const std::string& a) { return a.find(what) != std::string::npos; });
}

}  // namespace

TEST_CASE("copies of a sharded model are of equal size") {
  StepSpec spec = spec_of("llama-3-8b", "h100:8", 2);
  spec.sharding = Sharding::hsdp;
  spec.shard_group = 3;
  check_refused(spec, "/parallelism/shard_group", "8 data-parallel ranks");
  spec.shard_group = 4;
  CHECK(lower(spec).ok());
  CHECK_FALSE(notes(spec, "shard_group"));
  spec.shard_group = 16;
  CHECK(notes(spec, "parallelism.shard_group 16: there are 8 data-parallel ranks"));
}

TEST_CASE("a rank with more layers than a program holds is refused") {
  check_refused(spec_of("llama-3-8b", "h100:8", 5000), "/parallelism/pp", "5000 layers");
  check_refused(spec_of("llama-3-8b", "h100:8", 100'000), "/parallelism/pp", "100000 layers");
}

TEST_CASE("more channels between stages than instructions can name are refused") {
  StepSpec spec = spec_of("llama-3-8b", "h100:64", 32832);
  spec.degrees.pp = 64;
  spec.degrees.vpp = 513;
  spec.schedule = ScheduleKind::interleaved;
  spec.workload.global_batch = 64;
  check_refused(spec, "/parallelism", "65662 channels between pipeline ranks");
}

TEST_CASE("an operation longer than the clock holds is refused") {
  StepSpec spec = spec_of("llama-3-8b", "h100:8", 2);
  spec.workload.sequence_length = 1 << 24;
  spec.workload.micro_batch = 64;
  spec.workload.global_batch = 512;
  check_refused(spec, "/workload", "more than the 2252 s that one may take");
}

TEST_CASE("a schedule of pairs and a dispatch without its split of tokens are refused") {
  StepSpec spec = spec_of("olmoe-1b-7b", "h100:8", 4);
  spec.degrees.pp = 2;
  spec.degrees.ep = 4;
  spec.workload.global_batch = 16;
  spec.schedule = ScheduleKind::coscheduled;
  spec.overlap.ep = false;
  check_refused(spec, "/overlap/ep", "schedule coscheduled");
  spec.overlap.ep = true;
  CHECK(lower(spec).ok());
  spec.degrees.tp = 2;
  spec.sequence_parallel = false;
  check_refused(spec, "/parallelism/sequence_parallel", "Megatron-Core refuses it");
  spec.sequence_parallel = true;
  CHECK(lower(spec).ok());
  spec.software.attention = {{"h100", "fa9"}};
  check_refused(spec, "/software/attention", "'fa9'");
}

TEST_CASE("V100 runs in fp16 and a bound x86 host is no faster") {
  StepSpec spec = spec_of("llama-3-8b", "v100:8", 2);
  spec.recipe.gemm = topology::Precision::fp16;
  CHECK(lower(spec).ok());
  const SoftwareProfile generic = load_software(testing::root, "generic").value();
  CHECK(factor_of(generic.host_binding_factor, "h100") == 1);
  CHECK(factor_of(generic.host_binding_factor, "gb200") < 1);
}

TEST_CASE("settings without effect are named") {
  StepSpec spec = spec_of("llama-3-8b", "h100:8", 4);
  spec.overlap.gradient_bucket_bytes = 1000;
  CHECK(notes(spec, "overlap.gradient_bucket_bytes 1000: buckets close at the end of a layer"));
  spec.overlap.gradient_bucket_bytes = 1e10;
  CHECK_FALSE(notes(spec, "gradient_bucket_bytes"));
  spec.recompute.mode = RecomputeMode::full;
  spec.recompute.method = "uniform";
  spec.recompute.block_layers = 2;
  CHECK(notes(spec, "recompute.layers 2 with the method uniform"));
  spec.runtime.cuda_graphs = CudaGraphs::partial;
  spec.runtime.graph_modules = {"mamba", "attn"};
  CHECK(notes(spec, "runtime.graph_modules mamba: llama-3-8b has no such module"));
  CHECK_FALSE(notes(spec, "runtime.graph_modules attn"));
}
