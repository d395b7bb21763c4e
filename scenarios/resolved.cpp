// The resolved scenario as JSON, and where its values come from.
#include <fmt/format.h>

#include "models/catalog.h"
#include "scenarios/draft.h"
#include "scenarios/origins.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
using parallelism::StepSpec;

const char* const sharding_names[] = {"none", "zero1", "zero2", "zero3", "hsdp"};
const char* const cp_names[] = {"ring", "allgather", "a2a", "a2a+ring"};
const char* const recompute_names[] = {"none", "full", "selective"};
const char* const drop_names[] = {"none", "drop", "pad"};

template <class Enum>
std::size_t index(Enum value) {
  return static_cast<std::size_t>(value);
}

Json parallelism_json(const StepSpec& spec) {
  const parallelism::Degrees& d = spec.degrees;
  Json json;
  json["tp"] = d.tp;
  json["cp"] = d.cp;
  json["pp"] = d.pp;
  json["vpp"] = d.vpp;
  json["ep"] = d.ep;
  json["etp"] = d.etp.value_or(1);
  if (d.dp) json["dp"] = *d.dp;
  json["order"] = d.order;
  json["schedule"] = parallelism::info(spec.schedule).name;
  if (spec.schedule_group > 0) json["schedule_group"] = spec.schedule_group;
  json["sharding"] = sharding_names[index(spec.sharding)];
  if (spec.shard_group > 0) json["shard_group"] = spec.shard_group;
  if (spec.sharding == parallelism::Sharding::zero3 || spec.sharding == parallelism::Sharding::hsdp) {
    json["reshard_after_forward"] = spec.reshard_after_forward;
  }
  json["sequence_parallel"] = spec.sequence_parallel;
  json["cp_kind"] = cp_names[index(spec.cp_kind)];
  if (!spec.stage_layers.empty()) json["stage_layers"] = spec.stage_layers;
  if (!spec.pipeline_layout.empty()) json["pipeline_layout"] = spec.pipeline_layout;
  return json;
}

Json workload_json(const Draft& draft) {
  const parallelism::Workload& w = draft.spec.workload;
  Json json;
  json["sequence_length"] = w.sequence_length;
  json["global_batch"] = w.global_batch;
  json["micro_batch"] = w.micro_batch;
  json["packing"] = w.packing == parallelism::Packing::packed ? "packed" : "padded";
  if (!draft.documents.empty()) {
    json["document_lengths"] = draft.documents;
  } else if (!w.document_lengths.empty()) {
    json["document_lengths"] = w.document_lengths;
  }
  json["steps"] = w.steps;
  return json;
}

const char* width_name(double bytes) { return bytes == 4 ? "fp32" : bytes == 2 ? "bf16" : "fp8"; }

Json precision_json(const Draft& draft) {
  const parallelism::Recipe& r = draft.spec.recipe;
  Json json;
  json["recipe"] = r.name;
  json["gradients"] = width_name(r.gradient_bytes);
  json["gradient_reduce"] = width_name(r.reduce_bytes);
  json["optimizer_state"] = width_name((r.optimizer_bytes - 4) / 2);  // master weights are fp32
  json["parameters"] = width_name(r.parameter_bytes);
  json["activations"] = draft.given("/precision/activations") ? draft.tree["precision"]["activations"] : Json("recipe");
  constexpr const char* router_names[] = {"mixed", "bf16", "fp32"};
  json["router_dtype"] = router_names[index(r.router_dtype)];
  return json;
}

Json recompute_json(const StepSpec& spec) {
  const parallelism::Recompute& r = spec.recompute;
  Json json;
  json["mode"] = recompute_names[index(r.mode)];
  if (r.mode == parallelism::RecomputeMode::selective) json["modules"] = r.modules;
  if (r.mode == parallelism::RecomputeMode::full) {
    json["method"] = r.method;
    json["layers"] = r.block_layers;
  }
  return json;
}

Json routing_json(const Draft& draft) {
  const parallelism::RoutingSpec& r = draft.spec.routing;
  Json json;
  json["skew"] = draft.histogram_given ? Json(r.histogram) : Json(draft.skew);
  json["persistence"] = r.persistence;
  json["capacity_factor"] = r.capacity_factor > 0 ? Json(r.capacity_factor) : Json(nullptr);
  json["drop"] = drop_names[index(r.drop)];
  json["node_limit"] = draft.spec.node_limit;
  return json;
}

Json overlap_json(const parallelism::Overlap& o) {
  Json json;
  json["ep"] = o.ep;
  json["gradients"] = o.gradients;
  json["parameters"] = o.parameters;
  json["tp"] = o.tp;
  json["p2p"] = o.p2p;
  json["p2p_warmup_flush"] = o.p2p_warmup_flush;
  json["p2p_batched"] = o.p2p_batched;
  json["parameters_with_optimizer"] = o.parameters_with_optimizer;
  json["delay_wgrad"] = o.delay_wgrad;
  json["shared_expert"] = o.shared_expert;
  json["gradient_bucket_bytes"] = o.gradient_bucket_bytes;
  json["prefetch"] = o.prefetch;
  return json;
}

Json offload_json(const parallelism::Offload& o) {
  Json json;
  json["optimizer"] = o.optimizer;
  json["optimizer_fraction"] = o.optimizer ? Json(o.optimizer_fraction) : Json(nullptr);
  json["activations"] = o.activations;
  json["activation_layers"] = o.activation_layers > 0 ? Json(o.activation_layers) : Json(nullptr);
  return json;
}

Json runtime_json(const parallelism::Runtime& r) {
  Json json;
  json["cuda_graphs"] = name(r.cuda_graphs);
  if (r.cuda_graphs == parallelism::CudaGraphs::partial) json["graph_modules"] = r.graph_modules;
  json["dispatcher"] = parallelism::name(r.dispatcher);
  json["host_binding"] = r.host_binding;
  json["host_launch_us"] = r.host_launch_us;
  json["host_sync_us"] = r.host_sync_us;
  json["dispatcher_sms"] = r.dispatcher_sms;
  return json;
}

// Keys of overlap, runtime, parallelism and precision whose default is the profile's.
bool from_profile(const std::string& pointer) {
  return pointer.starts_with("/overlap/") || pointer.starts_with("/runtime/") || pointer == "/parallelism/sharding" ||
         pointer == "/parallelism/sequence_parallel" || pointer == "/precision/gradients" ||
         pointer == "/precision/gradient_reduce" || pointer == "/precision/optimizer_state";
}

std::string origin_of(const Draft& draft, const std::string& pointer) {
  const Override* flag = nullptr;
  for (const Override& o : draft.overrides) {
    if ((pointer + "/").starts_with(o.pointer + "/")) flag = &o;
  }
  if (flag != nullptr) return flag->label;
  if (draft.given(pointer)) return draft.document->where(pointer);
  if (from_profile(pointer)) return "software " + draft.spec.software.name;
  return "default";
}

}  // namespace

Json resolved_json(const Draft& draft) {
  const StepSpec& spec = draft.spec;
  Json json;
  json["schema"] = "stepcast.scenario/1";
  json["name"] = draft.name;
  if (!draft.description.empty()) json["description"] = draft.description;
  json["model"] = models::model_to_json(spec.model);
  json["cluster"] = draft.cluster;
  json["parallelism"] = parallelism_json(spec);
  json["workload"] = workload_json(draft);
  json["precision"] = precision_json(draft);
  json["recompute"] = recompute_json(spec);
  json["routing"] = routing_json(draft);
  json["software"] = Json::object({{"name", spec.software.name}});
  json["software"].update(draft.software_values);
  json["overlap"] = overlap_json(spec.overlap);
  json["runtime"] = runtime_json(spec.runtime);
  json["noise"] = noise_json(spec.noise);
  json["fabric"] = Json::object({{"contention", spec.fabric.contention ? "on" : "off"},
                                 {"background", spec.fabric.background},
                                 {"flow_level", spec.fabric.level ? sim::name(*spec.fabric.level) : "auto"}});
  json["offload"] = offload_json(spec.offload);
  if (!draft.reliability.empty()) json["reliability"] = draft.reliability;
  json["seed"] = spec.seed;
  return json;
}

std::vector<std::pair<std::string, std::string>> origins_of(const Draft& draft, const Json& resolved) {
  std::vector<std::pair<std::string, std::string>> origins;
  for (const auto& [key, block] : resolved.items()) {
    const std::string pointer = pointer_step(key);
    if (key == "schema") continue;
    if (!block.is_object() || key == "model") {
      origins.emplace_back(pointer, origin_of(draft, pointer));
      continue;
    }
    for (const auto& [member, value] : block.items()) {
      const std::string inner = pointer + pointer_step(member);
      origins.emplace_back(inner, origin_of(draft, inner));
    }
  }
  return origins;
}

}  // namespace stepcast::scenarios
