// Random combinations of schedule, sharding, context parallelism, dispatcher, recompute and the rest: each either runs
// on every engine tier that it concerns and keeps the invariants (tokens, bytes, partition, memory back to its level,
// no operation ahead of its input, no deadlock), or is refused with a reason and the key to change.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "models/catalog.h"
#include "parallelism/lower.h"
#include "sim/base/rng.h"
#include "sim/engine/contended.h"
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

int pieces_of_rank(const StepSpec& spec) {
  const bool two = spec.degrees.vpp == 2 || spec.schedule == ScheduleKind::zb_v ||
                   spec.schedule == ScheduleKind::dualpipe || spec.schedule == ScheduleKind::dualpipe_v;
  return two ? 2 : 1;
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
  spec.sequence_parallel = dice.chance(spec.degrees.tp > 1 && spec.degrees.ep > 1 ? 0.95 : 0.5);
  spec.cp_kind = dice.of<CpKind>({CpKind::ring, CpKind::all_gather, CpKind::all_to_all, CpKind::all_to_all_ring});
  if (spec.schedule == ScheduleKind::interleaved && dice.chance(0.3)) spec.schedule_group = spec.degrees.pp + 1;
  if (dice.chance(0.2)) {
    // Uneven: the first piece takes what the others leave.
    const int pieces = spec.degrees.pp * (spec.schedule == ScheduleKind::dualpipe ? 1 : pieces_of_rank(spec));
    spec.stage_layers.assign(static_cast<std::size_t>(pieces), 1);
    spec.stage_layers.front() = spec.model.layer_count() - (pieces - 1);
  }
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
      if (dice.chance(0.4)) spec.recompute.method = "block", spec.recompute.block_layers = dice.of<int>({1, 2});
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
  spec.overlap.p2p_warmup_flush = spec.overlap.p2p && dice.chance(0.5);
  spec.overlap.p2p_batched = dice.chance(spec.overlap.p2p ? 0.005 : 0.5);
  spec.overlap.shared_expert = dice.chance(0.3);
  spec.recipe.router_dtype = dice.of<RouterDtype>({RouterDtype::mixed, RouterDtype::bf16, RouterDtype::fp32});
  spec.overlap.gradient_bucket_bytes = dice.of<double>({0, 1e6, 1e9});
  spec.overlap.prefetch = dice.of<double>({0, 1, 2});
  spec.fabric.contention = dice.chance(0.2);
  const bool pairs = spec.schedule == ScheduleKind::coscheduled || spec.schedule == ScheduleKind::dualpipe ||
                     spec.schedule == ScheduleKind::dualpipe_v;
  spec.overlap.ep = pairs && dice.chance(spec.model.is_moe() ? 0.98 : 0.7);
  const bool moe_pairs = pairs && spec.model.is_moe();
  spec.overlap.delay_wgrad = dice.chance(moe_pairs ? 0.5 : 0.005);
  const bool every_pass = spec.sharding >= Sharding::zero3 && spec.reshard_after_forward;
  const bool gathers = spec.overlap.parameters && spec.sharding != Sharding::none && !every_pass;
  spec.overlap.parameters_with_optimizer = dice.chance(gathers && pieces_of_rank(spec) > 1 ? 0.5 : 0.005);
  spec.runtime.dispatcher =
      dice.of<topology::Dispatcher>({topology::Dispatcher::all_gather, topology::Dispatcher::all_to_all,
                                     topology::Dispatcher::deepep, topology::Dispatcher::hybridep});
  spec.runtime.cuda_graphs = dice.of<CudaGraphs>({CudaGraphs::none, CudaGraphs::partial, CudaGraphs::full_iteration});
  if (spec.runtime.cuda_graphs == CudaGraphs::partial) spec.runtime.graph_modules = {"attn", "moe_router"};
  spec.runtime.host_launch_us = dice.of<double>({0, 5});
  spec.runtime.host_sync_us = 20;
  spec.noise.device_sigma = dice.of<double>({0, 0.02});
  spec.offload.activations = dice.chance(0.25);
  if (spec.offload.activations) spec.offload.activation_layers = dice.of<int>({0, 1, 2, 100});
  spec.offload.optimizer = dice.chance(0.15);
  if (spec.offload.optimizer) spec.offload.optimizer_fraction = dice.of<double>({0, 0.5, 1});
  if (spec.model.is_moe()) {
    spec.routing.kind = dice.of<SkewKind>({SkewKind::balanced, SkewKind::zipf, SkewKind::dirichlet});
    spec.routing.parameter = 0.5;
    if (dice.chance(0.3)) {
      spec.routing.capacity_factor = 1.25;
      spec.routing.drop = dice.chance(0.5) ? DropPolicy::drop : DropPolicy::pad;
    }
    spec.node_limit = dice.of<int>({0, 2});
  }
  const bool narrow = dice.chance(0.3);
  if (narrow) {
    spec.recipe.gemm = dice.of<topology::Precision>({topology::Precision::fp8_blockwise, topology::Precision::fp8,
                                                     topology::Precision::mxfp8, topology::Precision::nvfp4});
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
  if (spec.model.mtp_layers > 0) spec.model.mtp_layers = dice.of<int>({0, 1, 2});
  static const topology::Cluster boxes = topology::load_cluster(root, "h100:16").value();
  static const topology::Cluster racks = topology::load_cluster(root, "gb200:16").value();
  spec.cluster = dice.chance(0.8) ? boxes : racks;
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

// Bytes of gradients that travel to the experts, and calls that any rank makes.
class ExchangeSink final : public sim::Sink {
 public:
  void on_instruction(const sim::InstructionEvent& event) override {
    if (event.work->name.rfind("combine.backward", 0) != 0) return;
    for (const float rows : event.rows) bytes += event.work->payload_per_row * static_cast<double>(rows);
  }
  void on_step_end(std::uint64_t, int, std::span<const Ticks>) override {}
  double bytes = 0;
};

// Every token's gradient goes once to each of its experts, in 16 bits, on every MoE layer.
void check_bytes(const StepSpec& spec, const LoweredStep& lowered, double sent) {
  if (lowered.layout.ep == 1) return;
  const models::Model& m = spec.model;
  double layers = 0;
  for (const models::Layer& layer : m.layers) layers += layer.ffn == models::FfnKind::moe ? 1 : 0;
  if (m.mtp_layers > 0 && models::mtp_layer(m).ffn == models::FfnKind::moe) layers += m.mtp_layers;
  const double width = m.moe.latent > 0 ? m.moe.latent : m.hidden;
  const double tokens = static_cast<double>(spec.workload.global_batch) * spec.workload.sequence_length;
  const double all = layers * tokens * m.moe.top_k * width * 2;
  if (spec.routing.drop == DropPolicy::none) {
    CHECK(sent == Approx(all).epsilon(1e-6));
  } else if (spec.routing.drop == DropPolicy::drop) {
    CHECK(sent <= all * (1 + 1e-6));
  }
}

// Transfers that share links: the contention tier, and lockstep with the delays that it found.
void check_contended(const LoweredStep& lowered, sim::Conditions conditions) {
  sim::RunOptions run;
  const auto contended = sim::run_contended(lowered.program, conditions, run);
  const auto oracle = sim::run_oracle(lowered.program, conditions, run);
  REQUIRE(contended.ok());
  REQUIRE(oracle.ok());
  CHECK(contended->result.last_step() > 0);
  const auto alone = sim::run_lockstep(lowered.program, conditions, run);
  REQUIRE(alone.ok());
  CHECK(contended->result.last_step() >= alone->last_step());
  conditions.delays = &contended->delays;
  sim::RecordOptions options;
  options.critical_path = false;
  const auto report = sim::record_step(lowered.program, conditions, options);
  REQUIRE(report.ok());
  CHECK(report->memory.returns_to_level);
}

void check_report(const sim::StepReport& report) {
  CHECK(report.memory.returns_to_level);
  CHECK(report.memory.bytes > 0);
  for (const auto& [part, bytes] : report.memory.by_part) CHECK(bytes > 0);
  for (const auto& partition : report.by_rank) {
    Ticks sum = 0;
    for (const Ticks t : partition) sum += t;
    CHECK(sum == report.duration);
  }
  for (const auto& c : report.communication) CHECK((c.payload_bytes >= 0 && c.wire_bytes >= 0));
}

// True if it ran; false if it was refused.
bool runs(const StepSpec& spec) {
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
  if (sim::shares_links(lowered->program)) {
    check_contended(*lowered, conditions);
    return true;
  }
  sim::RecordOptions options;
  options.step = 1;
  options.critical_path = false;
  const auto report = sim::record_step(lowered->program, conditions, options);
  INFO((report ? std::string() : report.errors().front().message));
  REQUIRE(report.ok());
  ExchangeSink exchanges;
  sim::RunOptions run;
  run.steps = 2;
  run.sink = &exchanges;
  const auto lockstep = sim::run_lockstep(lowered->program, conditions, run);
  run.sink = nullptr;
  const auto oracle = sim::run_oracle(lowered->program, conditions, run);
  REQUIRE(lockstep.ok());
  REQUIRE(oracle.ok());
  CHECK(lockstep->last_step() == oracle->last_step());
  CHECK(report->duration == oracle->last_step());
  check_report(*report);
  check_tokens(spec, *lowered);
  check_bytes(spec, *lowered, exchanges.bytes);
  const auto early = testing::dependency_faults(*lowered, conditions);
  INFO((early.empty() ? std::string() : early.front()));
  CHECK(early.empty());
  return true;
}

bool run_case(std::uint64_t number) {
  const StepSpec spec = draw(number);
  INFO("case " << number << ": " << shown(spec));
  return runs(spec);
}

void walk(std::uint64_t first, std::uint64_t count, double least_run) {
  std::uint64_t ran = 0;
  for (std::uint64_t n = first; n < first + count; ++n) ran += run_case(n) ? 1 : 0;
  WARN(ran << " of " << count << " combinations run, the others are refused with a reason");
  CHECK(static_cast<double>(ran) > least_run * static_cast<double>(count));
}

}  // namespace

TEST_CASE("300 random layouts run or are refused with a reason") { walk(0, 300, 0.5); }

TEST_CASE("10000 random layouts run or are refused with a reason", "[.][slow]") { walk(10'000, 10'000, 0.5); }

namespace {

// The product of schedule, sharding, context parallelism, dispatcher and recomputation on one small model.
struct Product {
  static constexpr int shardings = 5, cp_kinds = 4, dispatchers = 4, recomputes = 3;
  static int size() { return static_cast<int>(schedules().size()) * shardings * cp_kinds * dispatchers * recomputes; }

  static StepSpec at(int index) {
    const auto digit = [&index](int base) {
      const int d = index % base;
      index /= base;
      return d;
    };
    StepSpec spec;
    spec.model = catalogue_model("deepseek-v2-lite");
    shorten(spec.model, 8);
    static const topology::Cluster cluster = topology::load_cluster(root, "h100:16").value();
    spec.cluster = cluster;
    spec.software = profile("megatron-core-2025");
    spec.recompute.mode = static_cast<RecomputeMode>(digit(recomputes));
    if (spec.recompute.mode == RecomputeMode::selective)
      spec.recompute.modules = {"core_attn", "mla_up_proj", "layernorm", "moe_act", "shared_experts"};
    spec.runtime.dispatcher = static_cast<topology::Dispatcher>(digit(dispatchers));
    spec.cp_kind = static_cast<CpKind>(digit(cp_kinds));
    spec.sharding = static_cast<Sharding>(digit(shardings));
    spec.shard_group = spec.sharding == Sharding::hsdp ? 2 : 0;
    spec.schedule = schedules()[static_cast<std::size_t>(index)].kind;
    spec.overlap.ep = spec.schedule == ScheduleKind::coscheduled || spec.schedule == ScheduleKind::dualpipe ||
                      spec.schedule == ScheduleKind::dualpipe_v;
    spec.degrees.pp = 2;
    spec.degrees.cp = 2;
    spec.degrees.ep = 4;
    spec.degrees.vpp = spec.schedule == ScheduleKind::interleaved ? 2 : 1;
    spec.workload.sequence_length = 256;
    spec.workload.global_batch = 4 * 4;
    return spec;
  }
};

void check_product(int step) {
  int ran = 0;
  int refused = 0;
  for (int i = 0; i < Product::size(); i += step) {
    const StepSpec spec = Product::at(i);
    INFO("combination " << i << ": " << shown(spec) << " cp kind " << static_cast<int>(spec.cp_kind) << " dispatcher "
                        << static_cast<int>(spec.runtime.dispatcher));
    const bool possible =
        spec.schedule != ScheduleKind::dualpipe || spec.sharding == Sharding::none || spec.sharding == Sharding::zero1;
    CHECK(runs(spec) == possible);
    (possible ? ran : refused) += 1;
  }
  WARN(ran << " combinations run; " << refused << " (two copies of the parameters, sharded) are refused");
}

}  // namespace

// The step is prime to the number of each choice, so that any two choices meet.
TEST_CASE("schedule, sharding, context parallelism, dispatcher and recomputation combine, any two of them") {
  check_product(17);
}

TEST_CASE("schedule, sharding, context parallelism, dispatcher and recomputation combine, all of them", "[.][slow]") {
  check_product(1);
}
