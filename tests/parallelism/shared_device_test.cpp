// What exchanges take from kernels of their own rank, and which copies of rows a dispatcher leaves.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

#include "models/catalog.h"
#include "parallelism/lower.h"
#include "topology/cluster.h"

using namespace stepcast;
using namespace stepcast::parallelism;

namespace {

const std::filesystem::path root = STEPCAST_SOURCE_DIR;

StepSpec small_spec(const char* model, int layers, int global_batch) {
  StepSpec spec;
  spec.model = models::load_model(root, model).value();
  spec.model.layers.resize(static_cast<std::size_t>(layers), spec.model.layers.back());
  spec.cluster = topology::load_cluster(root, "h100:8").value();
  spec.software = load_software(root, "generic").value();
  spec.workload.sequence_length = 2048;
  spec.workload.global_batch = global_batch;
  return spec;
}

StepSpec small_moe() {
  StepSpec spec = small_spec("qwen3-30b-a3b", 4, 32);
  spec.degrees.ep = 8;
  return spec;
}

// Ticks of all kernels and of all expert exchanges of the step's bodies, at mean rows.
struct Listed {
  double kernels = 0, exchanges = 0;
};
Listed listed(const LoweredStep& step, double rows) {
  Listed sum;
  const sim::Cohort& cohort = step.program.cohorts.front();
  for (const sim::Body& body : cohort.bodies) {
    for (const sim::Instruction& in : body.instructions) {
      const sim::Cost& cost = cohort.costs[in.cost];
      const double ticks = cost.base_ticks + (in.load == sim::none16 ? 0 : cost.per_row_ticks * rows);
      if (in.op == sim::Opcode::compute) sum.kernels += ticks;
      if (in.op == sim::Opcode::collective && in.stream == sim::Stream::ep) sum.exchanges += ticks;
    }
  }
  return sum;
}

Listed lowered(const StepSpec& spec) {
  const auto step = lower(spec);
  REQUIRE(step.ok());
  return listed(*step, 2048.0 * spec.model.moe.top_k);
}

long copies(const StepSpec& spec) {
  const auto step = lower(spec);
  REQUIRE(step.ok());
  const auto& works = step->program.cohorts.front().works;
  return std::count_if(works.begin(), works.end(), [](const sim::Work& w) { return w.name == "sort_rows"; });
}

}  // namespace

TEST_CASE("Kernels beside an exchange lose its SMs for as long as it takes") {
  StepSpec spec = small_moe();
  spec.runtime.dispatcher = topology::Dispatcher::all_to_all;  // whose own time knows no SMs
  const int half = spec.cluster.device.sms / 2;
  SECTION("Exchanges that kernels wait for take nothing") {
    spec.runtime.dispatcher_sms = 1;
    const Listed few = lowered(spec);
    spec.runtime.dispatcher_sms = half;
    CHECK(lowered(spec).kernels == Approx(few.kernels).epsilon(1e-12));
  }
  SECTION("Co-scheduled kernels go on at the rate of the SMs left") {
    spec.schedule = ScheduleKind::coscheduled;
    spec.overlap.ep = true;
    spec.software.kernel_slowdown_ep = 1;
    spec.runtime.dispatcher_sms = 1;
    const Listed few = lowered(spec);
    spec.runtime.dispatcher_sms = half;
    const Listed many = lowered(spec);
    CHECK(many.exchanges == Approx(few.exchanges).epsilon(1e-12));
    // An exchange of length x beside enough kernels costs x (1 - 1/2); one SM of 132 next to nothing. Those that run
    // with nothing beside them (the first forward, the last backward) cost nothing.
    CHECK(many.kernels - few.kernels > 0.1 * many.exchanges);
    CHECK(many.kernels - few.kernels < 0.5 * many.exchanges);
    const auto step = lower(spec);
    REQUIRE(step.ok());
    CHECK(std::any_of(step->assumptions.begin(), step->assumptions.end(),
                      [](const std::string& a) { return a.find("beside an expert exchange") != std::string::npos; }));
  }
}

TEST_CASE("Rows from an all-to-all are in order where a rank has one expert") {
  StepSpec spec = small_moe();
  spec.runtime.dispatcher = topology::Dispatcher::all_to_all;
  CHECK(copies(spec) > 0);
  spec.model.moe.experts = 8;
  CHECK(copies(spec) == 0);
  spec.runtime.dispatcher = topology::Dispatcher::deepep;  // brings tokens, which are copied into rows
  CHECK(copies(spec) > 0);
}

TEST_CASE(
    "The input gradient of a tensor-parallel region leaves it beside the weight gradient where the profile says") {
  StepSpec spec = small_spec("llama-3-8b", 2, 4);
  spec.degrees.tp = 8;
  spec.sequence_parallel = true;
  spec.overlap.tp = false;
  const auto waits_for_reduction = [&](bool beside) {
    spec.software.tp_gradients_beside_wgrad = beside;
    const auto step = lower(spec);
    REQUIRE(step.ok());
    const sim::Cohort& cohort = step->program.cohorts.front();
    int weights = 0, waiting = 0, order = 0;
    for (const sim::Body& body : cohort.bodies) {
      bool reduced = false;
      for (const sim::Instruction& in : body.instructions) {
        const std::string& name = cohort.works[in.work].name;
        if (name == "mlp_input.gradient") reduced = true;
        if (in.op == sim::Opcode::compute && reduced && (in.wait_streams & sim::bit(sim::Stream::tp)) != 0) {
          ++waiting;  // the first kernel that needs it
          reduced = false;
        }
        if (name == "mlp_fc1.wgrad") {
          ++weights;
          order += reduced ? 1 : 0;
        }
      }
    }
    CHECK(weights > 0);
    CHECK(waiting >= weights);
    return order;
  };
  CHECK(waits_for_reduction(false) == 0);
  CHECK(waits_for_reduction(true) > 0);
  const auto software = load_software(root, "megatron-lm-2022");
  REQUIRE(software.ok());
  CHECK(software->tp_gradients_beside_wgrad);
  CHECK_FALSE(load_software(root, "megatron-lm-2021")->tp_gradients_beside_wgrad);
}
