// Random combinations of schedule, sharding, context parallelism, dispatcher, recompute and the rest: each either runs
// on both engines and keeps the invariants, or is refused with a reason and the key to change.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "models/catalog.h"
#include "parallelism/lower.h"
#include "sim/base/rng.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/oracle.h"
#include "sim/record/recorder.h"
#include "tests/parallelism/data_dependencies.h"
#include "topology/cluster.h"

using namespace stepcast;
using namespace stepcast::parallelism;
namespace testing = stepcast::parallelism::testing;

namespace {

const std::filesystem::path root = STEPCAST_SOURCE_DIR;

// Choices keyed by the case and a running number: the same on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t number) : key_(number, 0, Purpose::program_test) {}

  int below(int n) { return static_cast<int>(uniform(key_.with(next_++)) * n); }
  bool chance(double p) { return uniform(key_.with(next_++)) < p; }
  template <typename T>
  T of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
  }

 private:
  RngKey key_;
  std::uint64_t next_ = 0;
};

const models::Model& catalogue_model(const std::string& name) {
  static std::map<std::string, models::Model> models;
  const auto [found, added] = models.try_emplace(name);
  if (added) found->second = models::load_model(root, name).value();
  return found->second;
}

const SoftwareProfile& profile(const std::string& name) {
  static std::map<std::string, SoftwareProfile> profiles;
  const auto [found, added] = profiles.try_emplace(name);
  if (added) found->second = load_software(root, name).value();
  return found->second;
}

// The last layers of the catalogue's model, so that hybrids keep their mix and DeepSeek its experts.
void shorten(models::Model& model, int layers) {
  const auto keep = static_cast<std::ptrdiff_t>(std::min<std::size_t>(model.layers.size(), layers));
  model.layers.erase(model.layers.begin(), model.layers.end() - keep);
}

void draw_layout(Dice& dice, StepSpec& spec) {
  spec.degrees.pp = dice.of<int>({1, 2, 4});
  spec.degrees.tp = dice.of<int>({1, 1, 2});
  spec.degrees.cp = dice.of<int>({1, 1, 2});
  if (spec.model.is_moe()) {
    spec.degrees.ep = dice.of<int>({1, 2, 4});
    spec.degrees.etp = dice.of<int>({1, 1, 2});
  }
  spec.schedule = schedules()[static_cast<std::size_t>(dice.below(static_cast<int>(schedules().size())))].kind;
  spec.degrees.vpp = spec.schedule == ScheduleKind::interleaved ? 2 : 1;
  if (spec.schedule == ScheduleKind::coscheduled && dice.chance(0.3)) spec.degrees.vpp = 2;
  spec.sharding =
      dice.of<Sharding>({Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3, Sharding::hsdp});
  spec.shard_group = spec.sharding == Sharding::hsdp ? dice.of<int>({2, 4}) : 0;
  spec.reshard_after_forward = dice.chance(0.5);
  spec.sequence_parallel = dice.chance(0.5);
  spec.cp_kind = dice.of<CpKind>({CpKind::ring, CpKind::all_gather, CpKind::all_to_all, CpKind::all_to_all_ring});
}

void draw_work(Dice& dice, StepSpec& spec) {
  spec.workload.sequence_length = dice.of<int>({256, 512});
  spec.workload.micro_batch = dice.of<int>({1, 2});
  if (dice.chance(0.3)) {
    spec.workload.document_lengths = {37, 100, 230};
    spec.workload.packing = dice.chance(0.7) ? Packing::packed : Packing::padded;
  }
  const int model_ranks = spec.degrees.tp * spec.degrees.cp * spec.degrees.pp;
  const int dp = std::max(1, spec.cluster.devices / model_ranks);
  const int microbatches = dice.of<int>({1, 2, 4, 8}) * dice.of<int>({1, std::max(1, spec.degrees.pp / 2)});
  spec.workload.global_batch = dp * spec.workload.micro_batch * microbatches;
  switch (dice.below(3)) {
    case 0:
      break;
    case 1:
      spec.recompute.mode = RecomputeMode::full;
      if (dice.chance(0.4)) spec.recompute.method = "block", spec.recompute.block_layers = 1;
      break;
    default:
      spec.recompute.mode = RecomputeMode::selective;
      for (const char* module :
           {"core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "gdn_norm_out"}) {
        if (dice.chance(0.35)) spec.recompute.modules.emplace_back(module);
      }
  }
}

void draw_habits(Dice& dice, StepSpec& spec) {
  spec.software = profile(dice.of<std::string>({"generic", "megatron-core-2025", "fsdp2", "megatron-deepspeed-2022"}));
  spec.overlap.gradients = dice.chance(0.5);
  spec.overlap.parameters = dice.chance(0.5);
  spec.overlap.tp = dice.chance(0.3);
  spec.overlap.p2p = dice.chance(0.7);
  const bool pairs = spec.schedule == ScheduleKind::coscheduled || spec.schedule == ScheduleKind::dualpipe ||
                     spec.schedule == ScheduleKind::dualpipe_v;
  spec.overlap.ep = pairs && dice.chance(0.7);
  spec.runtime.dispatcher =
      dice.of<topology::Dispatcher>({topology::Dispatcher::all_gather, topology::Dispatcher::all_to_all,
                                     topology::Dispatcher::deepep, topology::Dispatcher::hybridep});
  spec.runtime.cuda_graphs = dice.of<CudaGraphs>({CudaGraphs::none, CudaGraphs::partial, CudaGraphs::full_iteration});
  if (spec.runtime.cuda_graphs == CudaGraphs::partial) spec.runtime.graph_modules = {"attn", "moe_router"};
  spec.runtime.host_launch_us = dice.of<double>({0, 5});
  spec.runtime.host_sync_us = 20;
  spec.noise.device_sigma = dice.of<double>({0, 0.02});
  spec.offload.activations = dice.chance(0.15);
  spec.offload.optimizer = dice.chance(0.15);
  if (spec.model.is_moe()) {
    spec.routing.kind = dice.of<SkewKind>({SkewKind::balanced, SkewKind::zipf, SkewKind::dirichlet});
    spec.routing.parameter = 0.5;
    if (dice.chance(0.3)) {
      spec.routing.capacity_factor = 1.25;
      spec.routing.drop = dice.chance(0.5) ? DropPolicy::drop : DropPolicy::pad;
    }
    spec.node_limit = dice.of<int>({0, 2});
  }
  const bool fp8 = dice.chance(0.3);
  if (fp8) {
    spec.recipe.gemm = topology::Precision::fp8_blockwise;
    spec.recipe.activation_bytes = topology::element_bytes(spec.recipe.gemm);
  }
}

StepSpec draw(std::uint64_t number) {
  Dice dice(number);
  StepSpec spec;
  spec.model = catalogue_model(
      dice.of<std::string>({"llama-3-8b", "qwen3-30b-a3b", "deepseek-v2-lite", "deepseek-v3", "mixtral-8x7b",
                            "qwen3-next-80b-a3b", "nemotron-3-nano-30b-a3b", "gpt-oss-20b", "llama4-scout"}));
  shorten(spec.model, dice.of<int>({4, 8}));
  static const topology::Cluster cluster = topology::load_cluster(root, "h100:16").value();
  spec.cluster = cluster;
  spec.seed = number;
  draw_layout(dice, spec);
  draw_work(dice, spec);
  draw_habits(dice, spec);
  return spec;
}

std::string shown(const StepSpec& s) {
  return s.model.name + " " + std::string(info(s.schedule).name) + " tp " + std::to_string(s.degrees.tp) + " cp " +
         std::to_string(s.degrees.cp) + " pp " + std::to_string(s.degrees.pp) + " ep " + std::to_string(s.degrees.ep) +
         " etp " + std::to_string(s.degrees.etp.value_or(1)) + " sharding " +
         std::to_string(static_cast<int>(s.sharding)) + " recompute " +
         std::to_string(static_cast<int>(s.recompute.mode));
}

// Rows that the experts of a group compute or drop are the tokens' choices, no more and no less.
void check_tokens(const StepSpec& spec, const LoweredStep& lowered) {
  if (!lowered.routing) return;
  double kept = 0;
  for (const double rows : lowered.routing->expert_rows(1, 0, 0, 0)) kept += rows;
  const double chosen = static_cast<double>(lowered.routing->tokens_per_group()) * spec.model.moe.top_k;
  if (spec.routing.drop == DropPolicy::none) {
    CHECK(kept == chosen);
  } else {
    CHECK(kept <= chosen);
    CHECK(kept <= static_cast<double>(lowered.routing->slots_per_expert()) * spec.model.moe.experts);
  }
}

// True if it ran; false if it was refused.
bool run_case(std::uint64_t number) {
  const StepSpec spec = draw(number);
  INFO("case " << number << ": " << shown(spec));
  const auto lowered = lower(spec);
  if (!lowered) {
    for (const Error& e : lowered.errors()) {
      CHECK(!e.message.empty());
      CHECK(!e.where.empty());
    }
    return false;
  }
  CHECK(sim::check(lowered->program).empty());
  const auto slow = lowered->slow_factors(spec, 0);
  sim::Conditions conditions;
  conditions.seed = spec.seed;
  conditions.slow_by_rank = slow;
  conditions.loads = lowered->routing.get();
  sim::RecordOptions options;
  options.step = 1;
  options.critical_path = false;
  const auto report = sim::record_step(lowered->program, conditions, options);
  REQUIRE(report.ok());
  sim::RunOptions run;
  run.steps = 2;
  const auto lockstep = sim::run_lockstep(lowered->program, conditions, run);
  const auto oracle = sim::run_oracle(lowered->program, conditions, run);
  REQUIRE(lockstep.ok());
  REQUIRE(oracle.ok());
  CHECK(lockstep->last_step() == oracle->last_step());
  CHECK(report->duration == oracle->last_step());
  CHECK(report->memory.returns_to_level);
  CHECK(report->memory.bytes > 0);
  for (const auto& [part, bytes] : report->memory.by_part) CHECK(bytes > 0);
  for (const auto& partition : report->by_rank) {
    Ticks sum = 0;
    for (const Ticks t : partition) sum += t;
    CHECK(sum == report->duration);
  }
  for (const auto& c : report->communication) CHECK((c.payload_bytes >= 0 && c.wire_bytes >= 0));
  check_tokens(spec, *lowered);
  const auto early = testing::dependency_faults(*lowered, conditions);
  INFO((early.empty() ? std::string() : early.front()));
  CHECK(early.empty());
  return true;
}

void walk(std::uint64_t first, std::uint64_t count, double least_run) {
  std::uint64_t ran = 0;
  for (std::uint64_t n = first; n < first + count; ++n) ran += run_case(n) ? 1 : 0;
  WARN(ran << " of " << count << " combinations run, the others are refused with a reason");
  CHECK(static_cast<double>(ran) > least_run * static_cast<double>(count));
}

}  // namespace

TEST_CASE("300 random layouts run or are refused with a reason") { walk(0, 300, 0.3); }

TEST_CASE("5000 random layouts run or are refused with a reason", "[.][slow]") { walk(10'000, 5'000, 0.3); }
