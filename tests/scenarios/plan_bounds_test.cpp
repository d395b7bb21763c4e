// Bounds of the layout search: never above the simulated step, over layouts drawn at random.
#include <catch2/catch.hpp>

#include <random>

#include "scenarios/plan/exact.h"
#include "scenarios/plan/family.h"
#include "tests/scenarios/load.h"

using namespace stepcast;
using namespace stepcast::scenarios;
using namespace stepcast::scenarios::plan;

namespace {

struct Drawn {
  int judged = 0, simulated = 0, refused = 0;
  double loosest_close = 1, sum_close = 0, sum_quick = 0;
};

template <class T>
T one_of(const std::vector<T>& values, std::mt19937_64& random) {
  return values[random() % values.size()];
}

// Draws families and points until `count` layouts are simulated.
Drawn draw(const std::string& model, const std::string& cluster, const std::vector<std::string>& sets,
           const SpaceRequest& request, int count, std::uint64_t seed) {
  ScenarioRequest from;
  from.model = model;
  from.cluster = cluster;
  from.sets = sets;
  from.catalog_root = source_dir;
  from.check_layout = false;
  const auto scenario = load_scenario(from);
  INFO((scenario ? std::string() : shown(scenario.errors())));
  REQUIRE(scenario.ok());
  const auto space = make_space(*scenario, request);
  INFO((space ? std::string() : shown(space.errors())));
  REQUIRE(space.ok());
  const topology::Fabric fabric(scenario->spec.cluster);
  const SearchBase base{scenario->spec, *space, fabric, 1e18, smallest_speed(scenario->spec)};
  std::mt19937_64 random(seed);
  Drawn drawn;
  for (int tries = 0; drawn.simulated < count && tries < 200 * count + 1000; ++tries) {
    plan::Degrees degrees;
    degrees.global_batch = one_of(space->global_batch, random);
    const auto pick = [&](const std::vector<int>& axis) { return static_cast<std::int16_t>(one_of(axis, random)); };
    degrees.tp = pick(space->tp);
    degrees.cp = pick(space->cp);
    degrees.pp = pick(space->pp);
    degrees.ep = pick(space->ep);
    degrees.etp = pick(space->etp);
    OutlinerCache outliners;
    Family family(base, degrees, outliners);
    for (int i = 0; i < 4; ++i) {
      Point p;
      p.devices = scenario->spec.cluster.devices;
      p.global_batch = degrees.global_batch;
      p.tp = degrees.tp;
      p.cp = degrees.cp;
      p.pp = degrees.pp;
      p.ep = degrees.ep;
      p.etp = degrees.etp;
      p.micro_batch = pick(space->micro_batch);
      p.vpp = pick(space->vpp);
      p.schedule = one_of(space->schedule, random);
      p.sharding = one_of(space->sharding, random);
      p.recompute = static_cast<std::uint8_t>(random() % space->recompute.size());
      p.dispatcher = one_of(space->dispatcher, random);
      p.overlap = static_cast<std::uint8_t>(random() % space->overlap.size());
      Judged judged;
      if (family.quick(p, judged)) {
        ++drawn.refused;
        continue;
      }
      ++drawn.judged;
      parallelism::StepSpec spec = scenario->spec;
      apply(*space, p, spec);
      INFO(model << " on " << cluster << ": " << words(*space, p));
      const auto exact = simulate_layout(spec, 1e18);
      INFO((exact ? std::string() : shown(exact.errors())));
      REQUIRE(exact.ok());
      const double close = family.close(p);
      CHECK(judged.seconds <= exact->seconds);
      CHECK(close <= exact->seconds);
      CHECK(judged.peak_bytes <= exact->memory.peak_bytes);
      drawn.loosest_close = std::min(drawn.loosest_close, close / exact->seconds);
      drawn.sum_close += close / exact->seconds;
      drawn.sum_quick += judged.seconds / exact->seconds;
      ++drawn.simulated;
    }
  }
  return drawn;
}

void draw_all(int count, std::uint64_t seed) {
  SpaceRequest request;
  request.schedule = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipe-v", "coscheduled"};
  request.sharding = {"none", "zero1", "zero2", "zero3", "hsdp"};
  request.overlap = overlap_names();
  SpaceRequest dense = request;
  dense.schedule = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipe-v"};
  struct Case {
    const char *name, *model, *cluster;
    std::vector<std::string> sets;
    bool moe;
  };
  const std::vector<Case> cases = {
      {"plain", "mixtral-8x7b", "h100:32", {"workload.global_batch=64", "workload.sequence_length=2048"}, true},
      {"skew and noise",
       "olmoe-1b-7b",
       "h100:16",
       {"workload.global_batch=64", "workload.sequence_length=2048", "routing.skew=zipf:0.5", "noise.device_sigma=0.01",
        "noise.kernel_sigma=0.02"},
       true},
      {"dense", "llama-3-8b", "h100:16", {"workload.global_batch=32", "workload.sequence_length=4096"}, false},
      {"fp8 and a fast host",
       "deepseek-v3",
       "h800:64",
       {"workload.global_batch=128", "precision=fp8", "runtime.host_launch_us=20"},
       true},
      {"capacity and graphs",
       "gpt-oss-120b",
       "h100:32",
       {"workload.global_batch=64", "runtime.cuda_graphs=partial", "routing.capacity_factor=1.2", "routing.drop=drop",
        "routing.skew=zipf:0.3"},
       true},
      {"delayed weight gradients",
       "mixtral-8x7b",
       "h100:32",
       {"workload.global_batch=64", "workload.sequence_length=2048", "overlap.delay_wgrad=true",
        "overlap.parameters_with_optimizer=true", "overlap.p2p_warmup_flush=false"},
       true},
      {"offload",
       "llama-3-8b",
       "h100:16",
       {"workload.global_batch=32", "overlap.p2p=false", "overlap.p2p_batched=true",
        "overlap.parameters_with_optimizer=true", "offload.activation_layers=1", "offload.optimizer_fraction=0.5"},
       false},
      {"delayed weight gradients and shared expert",
       "deepseek-v3",
       "h800:64",
       {"workload.global_batch=128", "overlap.delay_wgrad=true", "overlap.shared_expert=true",
        "precision.router_dtype=fp32"},
       true},
      {"a host that waits for messages",
       "llama-3-8b",
       "a100:32",
       {"workload.global_batch=64", "workload.sequence_length=2048", "software=megatron-lm-2021"},
       false},
      {"chunks and scales of their own",
       "olmoe-1b-7b",
       "b200:16",
       {"workload.global_batch=64", "workload.sequence_length=2048", "software=megatron-core-2025", "precision=mxfp8",
        "software.permute_fusion=false"},
       true},
      {"graphs of the router",
       "deepseek-v3",
       "h100:64",
       {"workload.global_batch=128", "software=megatron-core-2026", "runtime.cuda_graphs=partial",
        "runtime.graph_modules=[\"moe_router\"]"},
       true},
  };
  for (const Case& c : cases) {
    DYNAMIC_SECTION(c.name) {
      const Drawn drawn = draw(c.model, c.cluster, c.sets, c.moe ? request : dense, count, seed);
      CHECK(drawn.simulated >= count);
      WARN(c.model << ": " << drawn.simulated << " layouts, " << drawn.refused << " refused; quick "
                   << drawn.sum_quick / drawn.simulated << ", close " << drawn.sum_close / drawn.simulated
                   << " of the simulated time in the mean, " << drawn.loosest_close << " at the loosest");
    }
  }
}

}  // namespace

TEST_CASE("no bound is above the simulated step or its memory") { draw_all(8, 1); }

// 22,000 layouts over the eleven systems.
TEST_CASE("no bound is above the simulated step on many layouts", "[slow]") { draw_all(2000, 2); }
