// The blocks noise and fabric: what makes steps differ, and how links are shared.
#include <fmt/format.h>

#include "parallelism/tails.h"
#include "scenarios/draft.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
using parallelism::Noise;
using parallelism::Stall;
using parallelism::Strike;

void read_strike(JsonFields& noise, const char* key, Strike& strike) {
  auto fields = noise.object(key);
  if (!fields) return;
  fields->require("share");
  fields->require("factor");
  fields->read("share", strike.share, 0, 1);
  fields->read("factor", strike.factor, 1, 100);
  fields->refuse_unknown();
}

void read_stall(JsonFields& noise, const char* key, Stall& stall) {
  auto fields = noise.object(key);
  if (!fields) return;
  fields->require("probability");
  fields->require("mean_s");
  fields->read("probability", stall.probability, 0, 1);
  fields->read("mean_s", stall.mean_s, 0, 1e5);
  fields->refuse_unknown();
}

Json strike_json(const Strike& s) { return {{"share", s.share}, {"factor", s.factor}}; }
Json stall_json(const Stall& s) { return {{"probability", s.probability}, {"mean_s", s.mean_s}}; }

}  // namespace

void read_noise(Draft& draft) {
  JsonFields fields = draft.block("noise");
  Noise& noise = draft.spec.noise;
  fields.read("device_sigma", noise.device_sigma, 0, 1);
  fields.read("kernel_sigma", noise.kernel_sigma, 0, 0.57);
  if (const auto i = fields.choice("draws", {"step", "run"})) noise.redraw = *i == 0;
  read_strike(fields, "slow_devices", noise.slow_devices);
  read_strike(fields, "node_epochs", noise.node_epochs);
  read_strike(fields, "degraded_links", noise.degraded_links);
  read_stall(fields, "data_stalls", noise.data_stalls);
  read_stall(fields, "gc_stalls", noise.gc_stalls);
  read_stall(fields, "checkpoint_stalls", noise.checkpoint_stalls);
  fields.refuse_unknown();
  const auto tails = parallelism::describe_tails(noise);
  const bool varies =
      !tails.empty() || noise.kernel_sigma > 0 || draft.spec.routing.kind != parallelism::SkewKind::balanced;
  if (varies && !draft.given("/workload/steps")) {
    draft.assume("workload.steps not given: one sampled step, although noise or skew make steps differ");
  }
  if (!draft.given("/noise")) draft.assume("noise not given: all devices and kernels run at their nominal speed");
  for (const std::string& line : tails) draft.assume("noise, as the scenario has it: " + line);
}

void read_fabric(Draft& draft) {
  JsonFields fields = draft.block("fabric");
  parallelism::FabricUse& fabric = draft.spec.fabric;
  if (const auto i = fields.choice("contention", {"off", "on"})) fabric.contention = *i == 1;
  fields.read("background", fabric.background, 0, 0.95);
  if (const auto i = fields.choice("flow_level", {"auto", "macro", "box", "nic"}); i && *i > 0) {
    fabric.level = static_cast<sim::FlowLevel>(*i - 1);
  }
  fields.refuse_unknown();
  if (fabric.background > 0 && !fabric.contention) {
    fields.fail("background", "another job's load on the links needs fabric.contention on");
  }
  if (fabric.level && !fabric.contention) {
    fields.fail("flow_level", "the level of flows on shared links needs fabric.contention on");
  }
}

nlohmann::ordered_json noise_json(const Noise& noise) {
  Json json = {{"device_sigma", noise.device_sigma},
               {"kernel_sigma", noise.kernel_sigma},
               {"draws", noise.redraw ? "step" : "run"}};
  const auto strike = [&](const char* key, const Strike& s) {
    if (s.share > 0) json[key] = strike_json(s);
  };
  const auto stall = [&](const char* key, const Stall& s) {
    if (s.probability > 0) json[key] = stall_json(s);
  };
  strike("slow_devices", noise.slow_devices);
  strike("node_epochs", noise.node_epochs);
  strike("degraded_links", noise.degraded_links);
  stall("data_stalls", noise.data_stalls);
  stall("gc_stalls", noise.gc_stalls);
  stall("checkpoint_stalls", noise.checkpoint_stalls);
  return json;
}

}  // namespace stepcast::scenarios
