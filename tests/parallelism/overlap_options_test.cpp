// Options of overlap, offload and the router, on recorded steps and against times and bytes counted by hand.
#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

#include "models/activations.h"
#include "sim/engine/oracle.h"
#include "sim/record/recorder.h"
#include "tests/parallelism/cut_spec.h"
#include "tests/parallelism/data_dependencies.h"
#include "topology/kernel_cost.h"

using namespace stepcast;
using namespace stepcast::parallelism;
using stepcast::parallelism::testing::check_refused;

namespace {

// Without host, noise and skew: what remains are kernels and transfers.
StepSpec spec_of(const std::string& model, const std::string& cluster, int layers) {
  StepSpec spec = testing::cut_spec(model, cluster, layers, 1024);
  spec.software.host_step_us = 0;
  return spec;
}

LoweredStep lowered(const StepSpec& spec) {
  auto step = lower(spec);
  if (!step) {
    for (const Error& e : step.errors()) UNSCOPED_INFO(e.where << ": " << e.message);
  }
  REQUIRE(step.ok());
  return std::move(*step);
}

struct Op {
  std::string name;
  sim::Stream stream;
  int call = 0, layer = -1;
  Ticks begin = 0, end = 0;
};

struct Recorded {
  Ticks duration = 0;
  double peak = 0;  // of the rank that has most
  std::vector<Op> ops;

  [[nodiscard]] std::vector<Op> named(const std::string& name) const {
    std::vector<Op> found;
    std::copy_if(ops.begin(), ops.end(), std::back_inserter(found), [&](const Op& op) { return op.name == name; });
    return found;
  }
  [[nodiscard]] const Op& one(const std::string& name) const {
    const auto found = std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return op.name == name; });
    INFO(name);
    REQUIRE(found != ops.end());
    return *found;
  }
};

// The second step, and what one rank of `stage` does in it.
Recorded record(const StepSpec& spec, int stage = 0) {
  const LoweredStep step = lowered(spec);
  sim::Conditions conditions;
  conditions.loads = step.routing.get();
  sim::RecordOptions options;
  options.step = 1;
  const auto report = sim::record_step(step.program, conditions, options);
  REQUIRE(report.ok());
  CHECK(report->memory.returns_to_level);
  sim::RunOptions run;
  run.steps = 2;
  const auto oracle = sim::run_oracle(step.program, conditions, run);
  REQUIRE(oracle.ok());
  CHECK(oracle->last_step() == report->duration);
  const auto faults = parallelism::testing::dependency_faults(step, conditions);
  INFO((faults.empty() ? std::string() : faults.front()));
  CHECK(faults.empty());
  options.warm_steps = 1;
  const sim::Cohort& cohort = step.program.cohorts[static_cast<std::size_t>(stage)];
  const auto timeline = sim::record_timeline(step.program, conditions, options, {cohort.ranks.front()});
  REQUIRE(timeline.ok());
  Recorded recorded{report->duration, report->memory.bytes, {}};
  for (const sim::TimelineOp& op : timeline->ops) {
    const auto& body = cohort.bodies[cohort.calls[static_cast<std::size_t>(op.call)].body];
    const sim::Instruction& in = body.instructions[static_cast<std::size_t>(op.pc)];
    const sim::Work& work = cohort.works[in.work];
    recorded.ops.push_back({work.name, in.stream, op.call, work.layer, op.begin, op.end});
  }
  return recorded;
}

Ticks near(Seconds s) { return to_ticks(s); }

// Bytes a routing group keeps of its logits and probabilities.
double router_kept(const StepSpec& spec) {
  const LoweredStep step = lowered(spec);
  for (const sim::Work& work : step.program.cohorts.front().works) {
    if (work.name == "router_top_k") return work.memory.front().bytes;
  }
  FAIL("no router");
  return 0;
}

}  // namespace

TEST_CASE("the router's precision sets the bytes of its logits and the time of its products") {
  StepSpec spec = spec_of("qwen3-30b-a3b", "h100:8", 1);
  spec.workload.global_batch = 8;
  const double t = 1024, e = 128, h = 2048;
  CHECK(router_kept(spec) == t * e * 9);  // fp32 logits and probabilities, the map
  const Recorded mixed = record(spec);
  spec.recipe.router_dtype = RouterDtype::bf16;
  CHECK(router_kept(spec) == t * e * 7);
  const Recorded half = record(spec);
  CHECK(half.duration == mixed.duration);
  spec.recipe.router_dtype = RouterDtype::fp32;
  CHECK(router_kept(spec) == t * e * 9);
  const Recorded full = record(spec);

  const auto length = [](const Op& op) { return op.end - op.begin; };
  const auto gemm = [&](double m, double n, double k) {
    return near(topology::gemm_time(spec.cluster.device, topology::Precision::bf16, {m, n, k, 0}));
  };
  CHECK(length(full.one("router")) == length(mixed.one("router")));
  CHECK(length(mixed.one("router.dgrad")) == gemm(t, h, e));
  // TF32: half the rate on twice the bytes, as a product twice as deep.
  CHECK(length(full.one("router.dgrad")) == gemm(t, h, 2 * e));
  // Input and weight, 2 bytes read and 4 written each, by two kernels.
  const double f = spec.software.unfused_factor;
  const Seconds cast = topology::membound_time(spec.cluster.device, Bytes((t * h + e * h) * 6 * f), 2 * f);
  CHECK(length(full.one("router.wgrad_cast")) == near(cast));
  CHECK(length(full.one("router.dgrad_cast")) == near(cast));
  CHECK(mixed.named("router.wgrad_cast").empty());
}

TEST_CASE("offload of the first layers moves their bytes alone, over the link's time") {
  StepSpec spec = spec_of("llama-3-8b", "h100:8", 4);
  spec.workload.global_batch = 8;
  const Recorded stay = record(spec);
  models::ActivationShare share;
  share.tokens = share.keys = 1024;
  const double kept = models::kept_bytes(models::layer_activations(spec.model, spec.model.layers[0], {}), share).value;
  spec.offload.activations = true;
  spec.offload.activation_layers = 2;
  spec.cluster.device.host_link_bandwidth = BytesPerSecond(1e15);
  const Recorded fast = record(spec);
  // The peak stands at the loss, when both layers are on the host.
  CHECK(stay.peak - fast.peak == Approx(2 * kept).epsilon(1e-6));
  CHECK(fast.duration - stay.duration < near(microseconds(1)));

  // A link that needs 10 ms a layer: out after the layer's forward, both ways on one stream.
  spec.cluster.device.host_link_bandwidth = BytesPerSecond(kept / 0.010);
  const Recorded slow = record(spec);
  const auto out = slow.named("offload_activations");
  const auto back = slow.named("reload_activations");
  REQUIRE((out.size() == 2 && back.size() == 2));
  CHECK((out[0].layer == 0 && out[1].layer == 1 && back[0].layer == 1 && back[1].layer == 0));
  for (const auto& copies : {out, back}) {
    for (const Op& op : copies) CHECK(static_cast<double>(op.end - op.begin) == Approx(1e10).epsilon(1e-6));
  }
  CHECK(back[1].end - out[0].begin == Approx(4e10).epsilon(1e-6));
  CHECK(slow.duration > stay.duration);

  spec.offload.activation_layers = 0;
  CHECK(record(spec).named("offload_activations").size() == 4);
}

TEST_CASE("offload of a fraction of the optimizer moves that fraction") {
  StepSpec spec = spec_of("llama-3-8b", "h100:8", 4);
  spec.workload.global_batch = 8;
  const models::LayerParameters layer = models::layer_parameters(spec.model, 0);
  const double owned = (2 * 128256.0 * 4096 + 4096 + 4 * (layer.attention_tp + layer.mlp_tp + layer.replicated)) / 8;
  const Recorded whole = record(spec);
  spec.offload.optimizer = true;
  spec.offload.optimizer_fraction = 0.25;
  // A link that needs a second for all of it: gradients of 4 bytes out, parameters of 2 bytes back.
  spec.cluster.device.host_link_bandwidth = BytesPerSecond(owned * 6);
  const Recorded part = record(spec);
  const Op& update = part.one("optimizer_step");
  CHECK(static_cast<double>(update.end - update.begin) == Approx(0.25e12).epsilon(1e-9));
  CHECK(whole.peak - part.peak == Approx(0.25 * owned * 12).epsilon(1e-9));
}

TEST_CASE("the first chunk's parameters are gathered beside the update of the others") {
  StepSpec spec = spec_of("llama-3-8b", "h100:16", 8);
  spec.degrees.pp = 2;
  spec.degrees.vpp = 2;
  spec.schedule = ScheduleKind::interleaved;
  spec.workload.global_batch = 8 * 4;
  const Recorded after = record(spec);
  spec.overlap.parameters_with_optimizer = true;
  const Recorded beside = record(spec);

  const Op& first = beside.one("optimizer_step.first");
  const Op& rest = beside.one("optimizer_step");
  const auto gathers = beside.named("parameter_gather");
  const auto within = std::find_if(gathers.begin(), gathers.end(), [&](const Op& op) { return op.call == rest.call; });
  REQUIRE(within != gathers.end());
  CHECK(within->begin == first.end);
  CHECK(rest.begin == first.end);
  // Embedding and two layers, then two layers; shards of 8 ranks.
  const auto update = [&](double parameters) {
    return near(topology::membound_time(spec.cluster.device,
                                        Bytes(parameters / 8 * spec.software.optimizer_bytes_per_parameter), 1));
  };
  const models::LayerParameters layer = models::layer_parameters(spec.model, 0);
  const double two = 2 * (layer.attention_tp + layer.mlp_tp + layer.replicated);
  CHECK(first.end - first.begin == update(128256.0 * 4096 + two));
  CHECK(rest.end - rest.begin == update(two));
  // The next step's first kernel waits for the embedding alone: the update of the others is what it no longer waits
  // for.
  CHECK(after.duration > beside.duration);
  CHECK(after.duration - beside.duration <= rest.end - rest.begin);

  spec.overlap.parameters = false;
  check_refused(spec, "/overlap/parameters_with_optimizer", "overlap.parameters is off");
  spec.overlap.parameters = true;
  spec.sharding = Sharding::none;
  check_refused(spec, "/overlap/parameters_with_optimizer", "gathers no parameters once a step");
  spec.sharding = Sharding::zero1;
  spec.degrees.vpp = 1;
  spec.schedule = ScheduleKind::one_f_one_b;
  check_refused(spec, "/overlap/parameters_with_optimizer", "one chunk");
}

TEST_CASE("delayed weight gradients of experts run beside the exchange that leaves their layer") {
  StepSpec spec = spec_of("qwen3-30b-a3b", "h100:16", 4);
  spec.degrees.pp = 1;
  spec.degrees.ep = 16;
  spec.schedule = ScheduleKind::coscheduled;
  spec.overlap.ep = true;
  spec.workload.global_batch = 16 * 4;
  const Recorded usual = record(spec);
  spec.overlap.delay_wgrad = true;
  const Recorded delayed = record(spec);

  const auto begins = [](const Recorded& r, const char* name) { return r.named(name); };
  const auto leaves = begins(delayed, "dispatch.backward");
  const auto gradients = begins(delayed, "expert_fc1.wgrad");
  const auto rows = begins(delayed, "sort_rows.backward");
  REQUIRE((leaves.size() == 16 && gradients.size() == 16 && rows.size() == 16));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    CHECK(rows[i].end <= leaves[i].begin);
    CHECK(gradients[i].begin >= rows[i].end);
    CHECK(gradients[i].begin < leaves[i].end);
  }
  const auto before = begins(usual, "expert_fc1.wgrad");
  const auto left = begins(usual, "dispatch.backward");
  for (std::size_t i = 0; i < left.size(); ++i) CHECK(before[i].end <= left[i].begin);
  CHECK(delayed.duration < usual.duration);
  const auto work = [](const Recorded& r) {
    return std::accumulate(r.ops.begin(), r.ops.end(), Ticks{0}, [](Ticks sum, const Op& op) {
      return sum + (op.stream == sim::Stream::compute ? op.end - op.begin : 0);
    });
  };
  // The same kernels; those beside an exchange go on at the rate of the SMs that it leaves.
  CHECK(delayed.ops.size() == usual.ops.size());
  CHECK(work(delayed) > work(usual));

  spec.overlap.ep = false;
  spec.schedule = ScheduleKind::one_f_one_b;
  check_refused(spec, "/overlap/delay_wgrad", "co-scheduled pair");
}

TEST_CASE("a shared expert runs beside its layer's exchanges only where it is overlapped") {
  StepSpec spec = spec_of("deepseek-v2-lite", "h100:16", 1);
  spec.degrees.ep = 16;
  spec.workload.global_batch = 16;
  // Gradients are reduced at the end: nothing else runs beside the layer.
  spec.sharding = Sharding::none;
  spec.overlap.gradients = false;
  const Recorded apart = record(spec);
  const Op& leaves = apart.one("dispatch.backward");
  CHECK(apart.one("shared_expert_fc2.dgrad").begin >= leaves.end);
  CHECK(apart.one("shared_expert_fc2").end <= apart.one("dispatch").begin);
  spec.overlap.shared_expert = true;
  const Recorded beside = record(spec);
  CHECK(beside.one("shared_expert_fc1").begin < beside.one("dispatch").end);
  CHECK(beside.one("shared_expert_fc2.dgrad").begin < beside.one("combine.backward").end);
  // Its kernels no longer stand before and behind the exchanges: what they hide is the shorter of both, forward and
  // backward.
  const auto busy = [&](const Recorded& r, bool forward) {
    Ticks sum = 0;
    for (const Op& op : r.ops) {
      const bool gradient = op.name.find("grad") != std::string::npos || op.name.find("backward") != std::string::npos;
      if (op.name.starts_with("shared_expert") && gradient != forward) sum += op.end - op.begin;
    }
    return sum;
  };
  const auto length = [](const Op& op) { return op.end - op.begin; };
  const Ticks hidden = std::min(busy(apart, true), length(apart.one("dispatch"))) +
                       std::min(busy(apart, false), length(apart.one("combine.backward")));
  CHECK(apart.duration - beside.duration == hidden);
}

namespace {

StepSpec messages_spec() {
  StepSpec spec = spec_of("llama-3-8b", "h100:16", 4);
  spec.degrees.tp = 8;
  spec.sequence_parallel = true;
  spec.degrees.pp = 2;
  spec.degrees.vpp = 2;
  spec.schedule = ScheduleKind::interleaved;
  spec.workload.global_batch = 4;
  return spec;
}

}  // namespace

TEST_CASE("sends hold compute up in the phases where they are not overlapped") {
  StepSpec spec = messages_spec();
  const Recorded everywhere = record(spec);
  CHECK(everywhere.named("wait_send").empty());
  spec.overlap.p2p_warmup_flush = false;
  const Recorded steady = record(spec);
  // Rank 0 runs 4 forwards, 4 pairs and 4 backwards. Alone are the 4 forwards, which all send, and the 4 backwards: the
  // second chunk's two send a gradient, the first chunk's two have no piece before them.
  CHECK(steady.named("wait_send").size() == 6);
  spec.overlap.p2p = false;
  const Recorded never = record(spec);
  CHECK(never.named("wait_send").size() == 12);  // all 8 forwards, 4 backwards of the second chunk
  spec.overlap.p2p_batched = true;
  const Recorded batched = record(spec);
  CHECK(batched.named("wait_send").size() == 12);
  CHECK(everywhere.duration < steady.duration);
  CHECK(steady.duration < never.duration);
  CHECK(never.duration <= batched.duration);

  // Of a pair, the forward begins when its activation and the backward's gradient are both there.
  std::vector<Ticks> there;
  for (std::size_t i = 0; i < batched.ops.size(); ++i) {
    const Op& op = batched.ops[i];
    if (op.name != "receive_gradient") continue;
    const auto next = std::find_if(batched.ops.begin() + static_cast<std::ptrdiff_t>(i), batched.ops.end(),
                                   [](const Op& o) { return o.stream == sim::Stream::compute && o.end > o.begin; });
    REQUIRE(next != batched.ops.end());
    CHECK(next->begin >= op.end);
    there.push_back(op.end);
  }
  CHECK(there.size() == 8);

  spec.overlap.p2p = true;
  check_refused(spec, "/overlap/p2p_batched", "needs overlap.p2p off");
  spec.overlap.p2p = spec.overlap.p2p_batched = false;
  spec.overlap.p2p_warmup_flush = true;
  check_refused(spec, "/overlap/p2p_warmup_flush", "overlap.p2p is off");
}

TEST_CASE("a send that is not overlapped costs its own time, once for each that is alone") {
  // One microbatch through two stages: forward, send, forward, backward, send, backward. Nothing else is in the way, so
  // a stage's wait changes nothing; of two microbatches the first stage's second forward waits for the first's send.
  StepSpec spec = messages_spec();
  spec.degrees.vpp = 1;
  spec.schedule = ScheduleKind::gpipe;
  spec.workload.global_batch = 2;
  const Recorded free = record(spec);
  spec.overlap.p2p = spec.overlap.p2p_warmup_flush = false;
  const Recorded held = record(spec);
  const auto sends = held.named("send_activation");
  REQUIRE(sends.size() == 2);
  const auto starts = [](const Recorded& r) {
    std::vector<Ticks> begins;
    for (const Op& op : r.named("embedding")) begins.push_back(op.begin);
    return begins;
  };
  REQUIRE((starts(free).size() == 2 && starts(held).size() == 2));
  const Ticks between = (starts(held)[1] - starts(held)[0]) - (starts(free)[1] - starts(free)[0]);
  CHECK(between == sends[0].end - sends[0].begin);
}

TEST_CASE("a host that waits for messages issues the next kernel after they are there") {
  StepSpec spec = messages_spec();
  spec.degrees.vpp = 1;
  spec.schedule = ScheduleKind::one_f_one_b;
  spec.overlap.p2p = spec.overlap.p2p_warmup_flush = false;
  spec.runtime.host_launch_us = 50;
  spec.runtime.host_sync_us = 7;
  const Recorded ahead = record(spec, 1);
  CHECK(ahead.named("message").empty());
  spec.software.p2p_host_sync = true;
  const Recorded waits = record(spec, 1);
  // Of stage 1: an activation received, three received in one batch with the gradient before them, the last gradient.
  CHECK(waits.named("message").size() == 5);
  const Ticks first_kernel = near(microseconds(7 + 50));
  int received = 0;
  for (std::size_t i = 0; i < waits.ops.size(); ++i) {
    if (waits.ops[i].name != "receive_activation") continue;
    const auto next = std::find_if(
        waits.ops.begin() + static_cast<std::ptrdiff_t>(i), waits.ops.end(),
        [](const Op& o) { return o.stream == sim::Stream::compute && o.name != "message" && o.end > o.begin; });
    REQUIRE(next != waits.ops.end());
    CHECK(next->begin >= waits.ops[i].end + first_kernel);
    ++received;
  }
  CHECK(received == 4);
  CHECK(ahead.duration < waits.duration);
  spec.runtime.cuda_graphs = CudaGraphs::full_iteration;
  CHECK(record(spec, 1).named("message").empty());
}

TEST_CASE("a router's graph holds the shared expert where the profile says so and it is not overlapped") {
  StepSpec spec = spec_of("deepseek-v3", "h100:16", 1);
  spec.degrees.ep = 16;
  spec.workload.global_batch = 16;
  spec.runtime.cuda_graphs = CudaGraphs::partial;
  spec.runtime.graph_modules = {"moe_router"};
  const auto launched = [&](const std::string& name) {
    int all = 0, alone = 0;
    const LoweredStep step = lowered(spec);
    const sim::Cohort& cohort = step.program.cohorts.front();
    for (const sim::Body& body : cohort.bodies) {
      for (const sim::Instruction& in : body.instructions) {
        if (cohort.works[in.work].name != name) continue;
        ++all;
        if ((in.flags & sim::flag_no_launch) == 0) ++alone;
      }
    }
    REQUIRE(all > 0);
    REQUIRE((alone == 0 || alone == all));
    return alone > 0;
  };
  CHECK_FALSE(launched("router"));
  CHECK(launched("shared_expert_fc1"));
  spec.software.graphs_shared_expert = true;
  CHECK_FALSE(launched("shared_expert_fc1"));
  CHECK(launched("expert_fc1"));
  spec.overlap.shared_expert = true;
  CHECK(launched("shared_expert_fc1"));
}
