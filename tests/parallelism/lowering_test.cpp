// The lowering on small layouts: sound programs, both engines, conserved bytes and tokens, memory back to its level.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

#include "models/catalog.h"
#include "parallelism/lower.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/oracle.h"
#include "sim/record/recorder.h"
#include "tests/parallelism/data_dependencies.h"
#include "topology/cluster.h"

using namespace stepcast;
using namespace stepcast::parallelism;

namespace {

const std::filesystem::path root = STEPCAST_SOURCE_DIR;

// A model of four layers with the shapes of a catalogue model, so that programs stay small.
StepSpec small_spec(const std::string& model, const std::string& cluster, int layers) {
  StepSpec spec;
  spec.model = models::load_model(root, model).value();
  spec.model.layers.resize(static_cast<std::size_t>(layers), spec.model.layers.back());
  spec.cluster = topology::load_cluster(root, cluster).value();
  spec.software = load_software(root, "generic").value();
  spec.workload.sequence_length = 2048;
  spec.workload.micro_batch = 1;
  spec.runtime.host_launch_us = 5;
  spec.runtime.host_sync_us = 20;
  spec.noise.device_sigma = 0.02;
  return spec;
}

struct Both {
  sim::StepReport report;
  Ticks oracle_step = 0;
};

Both run_both(const StepSpec& spec) {
  auto lowered = lower(spec);
  if (!lowered) {
    for (const Error& e : lowered.errors()) UNSCOPED_INFO(e.where << ": " << e.message);
  }
  REQUIRE(lowered.ok());
  CHECK(sim::check(lowered->program).empty());
  const auto slow = lowered->slow_factors(spec, 0);
  sim::Conditions conditions;
  conditions.slow_by_rank = slow;
  conditions.kernel_sigma = 0.01;
  conditions.loads = lowered->routing.get();
  sim::RecordOptions options;
  options.step = 1;
  auto report = sim::record_step(lowered->program, conditions, options);
  REQUIRE(report.ok());
  sim::RunOptions run;
  run.steps = 2;
  const auto oracle = sim::run_oracle(lowered->program, conditions, run);
  REQUIRE(oracle.ok());
  const auto early = parallelism::testing::dependency_faults(*lowered, conditions);
  INFO((early.empty() ? std::string() : early.front()));
  CHECK(early.empty());
  return {std::move(*report), oracle->last_step()};
}

void check_invariants(const Both& both) {
  CHECK(both.oracle_step == both.report.duration);
  CHECK(both.report.memory.returns_to_level);
  CHECK(both.report.memory.bytes > 0);
  for (const auto& partition : both.report.by_rank) {
    Ticks sum = 0;
    for (const Ticks t : partition) sum += t;
    CHECK(sum == both.report.duration);
  }
  Ticks path = 0;
  for (const auto& c : both.report.categories) path += c.critical_path;
  CHECK(path == both.report.duration);
}

}  // namespace

TEST_CASE("every schedule lowers a small MoE and both engines agree to the tick") {
  for (const ScheduleInfo& kind : schedules()) {
    StepSpec spec = small_spec("qwen3-30b-a3b", "h100:16", 16);
    spec.degrees.pp = 4;
    spec.degrees.ep = 4;
    spec.degrees.vpp = kind.kind == ScheduleKind::interleaved ? 2 : 1;
    spec.schedule = kind.kind;
    spec.overlap.ep = kind.kind == ScheduleKind::coscheduled || kind.kind == ScheduleKind::dualpipe ||
                      kind.kind == ScheduleKind::dualpipe_v;
    spec.workload.global_batch = 16 * 4;
    INFO(kind.name);
    check_invariants(run_both(spec));
  }
}

TEST_CASE("every sharding lowers and both engines agree to the tick") {
  for (const Sharding sharding : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3, Sharding::hsdp}) {
    for (const bool overlap : {true, false}) {
      StepSpec spec = small_spec("llama-3-8b", "h100:16", 4);
      spec.sharding = sharding;
      spec.shard_group = sharding == Sharding::hsdp ? 8 : 0;
      spec.overlap.gradients = spec.overlap.parameters = overlap;
      spec.workload.global_batch = 32;
      INFO("sharding " << static_cast<int>(sharding) << " overlap " << overlap);
      check_invariants(run_both(spec));
    }
  }
}

TEST_CASE("tensor, context and expert tensor parallelism with recomputation keep the invariants") {
  const std::vector<Recompute> recomputes = {
      {RecomputeMode::none, {}, "uniform", 0},
      {RecomputeMode::full, {}, "uniform", 0},
      {RecomputeMode::selective, {"core_attn", "layernorm", "moe_act", "mla_up_proj", "shared_experts"}, "uniform", 0},
      {RecomputeMode::selective, {"moe", "mlp"}, "uniform", 0}};
  for (const char* model : {"deepseek-v2-lite", "mixtral-8x7b"}) {
    for (const Recompute& recompute : recomputes) {
      for (const CpKind kind : {CpKind::ring, CpKind::all_gather, CpKind::all_to_all}) {
        StepSpec spec = small_spec(model, "h100:16", 4);
        spec.degrees.tp = 2;
        spec.degrees.cp = 2;
        spec.degrees.etp = 2;
        spec.degrees.ep = 4;
        spec.degrees.pp = 2;
        spec.cp_kind = kind;
        spec.sequence_parallel = true;
        spec.recompute = recompute;
        spec.workload.global_batch = 16;
        INFO(model << " recompute " << static_cast<int>(recompute.mode) << " cp " << static_cast<int>(kind));
        check_invariants(run_both(spec));
      }
    }
  }
}

TEST_CASE("recomputing everything executes one more forward pass and keeps less") {
  StepSpec spec = small_spec("llama-3-8b", "h100:8", 4);
  spec.workload.global_batch = 16;
  const Both plain = run_both(spec);
  spec.recompute.mode = RecomputeMode::full;
  const Both full = run_both(spec);
  CHECK(full.report.memory.bytes < plain.report.memory.bytes);
  CHECK(full.report.executed_flops > plain.report.executed_flops * 1.2);
  CHECK(full.report.executed_flops < plain.report.executed_flops * 4.0 / 3.0);
  CHECK(full.report.duration > plain.report.duration);
}

TEST_CASE("a batch that does not fill the microbatches is refused with the numbers") {
  StepSpec spec = small_spec("llama-3-8b", "h100:8", 4);
  spec.workload.global_batch = 12;
  const auto lowered = lower(spec);
  REQUIRE(!lowered.ok());
  CHECK(lowered.errors().front().message.find("must be a multiple of dp 8") != std::string::npos);
}

TEST_CASE("a precision that the device lacks is refused") {
  StepSpec spec = small_spec("llama-3-8b", "a100:8", 4);
  spec.recipe.gemm = topology::Precision::fp8;
  spec.workload.global_batch = 8;
  const auto lowered = lower(spec);
  REQUIRE(!lowered.ok());
  CHECK(lowered.errors().front().message.find("fp8") != std::string::npos);
}

namespace {

// Of the first stage, in order of issue: names of the operations of bodies whose name begins with `body`.
std::vector<std::string> names_in(const sim::Program& program, const std::string& body) {
  std::vector<std::string> names;
  const sim::Cohort& cohort = program.cohorts.front();
  for (const sim::Body& b : cohort.bodies) {
    if (b.name.rfind(body, 0) != 0) continue;
    for (const sim::Instruction& in : b.instructions) names.push_back(cohort.works[in.work].name);
  }
  return names;
}

}  // namespace

TEST_CASE("nothing leaves a stage before the collective that made it has ended") {
  for (const bool sequence_parallel : {true, false}) {
    for (const bool hidden : {true, false}) {
      StepSpec spec = small_spec("llama-3-8b", "h100:16", 4);
      spec.degrees.tp = 8;
      spec.degrees.pp = 2;
      spec.sequence_parallel = sequence_parallel;
      spec.overlap.tp = hidden;
      spec.software.tp_overlap_share = 0.8;
      spec.workload.global_batch = 8;
      check_invariants(run_both(spec));
    }
  }
}

TEST_CASE("an exchange of gradients waits for the gradient, whatever the dispatcher") {
  for (const auto dispatcher : {topology::Dispatcher::deepep, topology::Dispatcher::hybridep,
                                topology::Dispatcher::all_to_all, topology::Dispatcher::all_gather}) {
    for (const char* schedule : {"1f1b", "coscheduled", "dualpipe-v"}) {
      StepSpec spec = small_spec("deepseek-v2-lite", "h100:16", 8);
      spec.degrees.pp = 2;
      spec.degrees.tp = 2;
      spec.degrees.ep = 4;
      spec.degrees.etp = 2;
      spec.sequence_parallel = true;
      spec.schedule = parse_schedule(schedule).value();
      spec.overlap.ep = spec.schedule != ScheduleKind::one_f_one_b;
      spec.runtime.dispatcher = dispatcher;
      spec.workload.global_batch = 4 * 8;
      INFO(schedule << " dispatcher " << static_cast<int>(dispatcher));
      check_invariants(run_both(spec));
    }
  }
}

TEST_CASE("DualPipe reduces the gradients of a piece when its last backward has made them") {
  StepSpec spec = small_spec("qwen3-30b-a3b", "h100:16", 8);
  spec.degrees.pp = 4;
  spec.degrees.ep = 4;
  spec.schedule = ScheduleKind::dualpipe;
  spec.overlap.ep = true;
  spec.workload.global_batch = 4 * 16;
  const auto overlapped = lower(spec);
  REQUIRE(overlapped.ok());
  const auto reductions = [](const std::vector<std::string>& names) {
    return std::count_if(names.begin(), names.end(), [](const auto& n) { return n.rfind("gradient_reduce", 0) == 0; });
  };
  CHECK(reductions(names_in(overlapped->program, "backward")) > 0);
  CHECK(reductions(names_in(overlapped->program, "step end")) == 0);
  const Both beside = run_both(spec);
  check_invariants(beside);
  spec.overlap.gradients = false;
  const Both after = run_both(spec);
  check_invariants(after);
  CHECK(beside.report.duration < after.report.duration);
}
