// The blocks overlap, offload and runtime.
#include <algorithm>

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/draft.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
using parallelism::CudaGraphs;

// Host cost of the profile on this device's host.
double host_factor(const Draft& draft) {
  const auto& factors = draft.spec.software.host_factor;
  for (const std::string& key : {draft.spec.cluster.device.name, std::string("default")}) {
    if (const auto found = factors.find(key); found != factors.end()) return found->second;
  }
  return 1;
}

// "not given: value, as PROFILE has it" for a whole block, one line.
void assume_profile(Draft& draft, JsonFields& fields, const char* block,
                    const std::vector<std::pair<const char*, std::string>>& values) {
  std::string line;
  for (const auto& [key, value] : values) {
    if (!fields.has(key)) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", key, value);
  }
  if (line.empty()) return;
  draft.assume(fmt::format("{} as the software profile {} has it: {}", block, draft.spec.software.name, line));
}

// Schedules whose slots run a forward beside a backward, so that each hides the other's expert exchange.
bool holds_two_microbatches(parallelism::ScheduleKind kind) {
  using Kind = parallelism::ScheduleKind;
  return kind == Kind::coscheduled || kind == Kind::dualpipe || kind == Kind::dualpipe_v;
}

const char* on_off(bool on) { return on ? "on" : "off"; }

void read_graph_modules(JsonFields& fields, parallelism::Runtime& runtime) {
  // Scopes of --cuda-graph-modules (Megatron-Core).
  static const std::vector<std::string> modules = {"attn",           "mlp",   "moe",           "moe_router",
                                                   "moe_preprocess", "mamba", "shared_experts"};
  std::vector<std::string> read;
  const bool there = fields.list("graph_modules", [&](const Json& element, const std::string& pointer) {
    const std::string module = element.is_string() ? element.get<std::string>() : "";
    if (std::find(modules.begin(), modules.end(), module) != modules.end()) {
      read.push_back(module);
      return;
    }
    std::string allowed;
    for (const std::string& m : modules) allowed += (allowed.empty() ? "" : ", ") + m;
    fields.errors().push_back(
        make_error(ErrorCode::invalid,
                   fmt::format("found {}; modules are {}{}", shown(element), allowed, suggestion(module, modules)),
                   fields.document().where(pointer)));
  });
  if (there) runtime.graph_modules = std::move(read);
}

void settle_graphs(Draft& draft, JsonFields& fields, parallelism::Runtime& runtime) {
  if (runtime.cuda_graphs != CudaGraphs::partial) {
    if (fields.has("graph_modules")) {
      fields.fail("graph_modules",
                  fmt::format("graph_modules belong to cuda_graphs partial; it is {}", name(runtime.cuda_graphs)));
    }
    runtime.graph_modules.clear();
  } else if (runtime.graph_modules.empty() && !fields.has("graph_modules")) {
    runtime.graph_modules = {"attn", "moe_router", "moe_preprocess"};
    draft.assume("runtime.graph_modules not given: attn, moe_router, moe_preprocess");
  }
}

}  // namespace

void read_overlap(Draft& draft) {
  JsonFields fields = draft.block("overlap");
  parallelism::Overlap& overlap = draft.spec.overlap;
  const parallelism::SoftwareProfile& software = draft.spec.software;
  overlap = {.gradients = software.overlap_gradients,
             .parameters = software.overlap_parameters,
             .tp = software.overlap_tp,
             .ep = holds_two_microbatches(draft.spec.schedule) && draft.spec.model.is_moe(),
             .p2p = software.overlap_p2p,
             .gradient_bucket_bytes = software.gradient_bucket_bytes,
             .prefetch = software.prefetch};
  fields.read("gradients", overlap.gradients);
  fields.read("parameters", overlap.parameters);
  fields.read("tp", overlap.tp);
  fields.read("ep", overlap.ep);
  fields.read("p2p", overlap.p2p);
  fields.read("gradient_bucket_bytes", overlap.gradient_bucket_bytes, 0, 1e15);
  fields.read("prefetch", overlap.prefetch, 0, 1000);
  fields.refuse_unknown();
  assume_profile(draft, fields, "overlap",
                 {{"gradients", on_off(overlap.gradients)},
                  {"parameters", on_off(overlap.parameters)},
                  {"tp", on_off(overlap.tp)},
                  {"ep", on_off(overlap.ep)},
                  {"p2p", on_off(overlap.p2p)}});

  JsonFields offload = draft.block("offload");
  offload.read("optimizer", draft.spec.offload.optimizer);
  offload.read("activations", draft.spec.offload.activations);
  offload.refuse_unknown();
}

void read_runtime(Draft& draft) {
  JsonFields fields = draft.block("runtime");
  parallelism::Runtime& runtime = draft.spec.runtime;
  const parallelism::SoftwareProfile& software = draft.spec.software;
  runtime = {.cuda_graphs = software.cuda_graphs,
             .graph_modules = software.graph_modules,
             .dispatcher = software.dispatcher,
             .host_binding = software.host_binding,
             .host_launch_us = software.host_launch_us * host_factor(draft),
             .host_sync_us = software.host_sync_us * host_factor(draft),
             .dispatcher_sms = software.dispatcher_sms};
  if (const auto i = fields.choice("cuda_graphs", parallelism::cuda_graphs_names())) {
    runtime.cuda_graphs = static_cast<CudaGraphs>(*i);
  }
  read_graph_modules(fields, runtime);
  if (const auto i = fields.choice("dispatcher", parallelism::dispatcher_names())) {
    runtime.dispatcher = static_cast<topology::Dispatcher>(*i);
  }
  fields.read("host_binding", runtime.host_binding);
  fields.read("host_launch_us", runtime.host_launch_us, 0, 1e5);
  fields.read("host_sync_us", runtime.host_sync_us, 0, 1e6);
  fields.read("dispatcher_sms", runtime.dispatcher_sms, 0, 1024);
  settle_graphs(draft, fields, runtime);
  fields.refuse_unknown();
  assume_profile(
      draft, fields, "runtime",
      {{"cuda_graphs", std::string(name(runtime.cuda_graphs))},
       {"dispatcher", draft.spec.model.is_moe() ? std::string(parallelism::name(runtime.dispatcher)) : "unused"},
       {"host_binding", on_off(runtime.host_binding)},
       {"host_launch_us", fmt::format("{:.4g}", runtime.host_launch_us)},
       {"host_sync_us", fmt::format("{:.4g}", runtime.host_sync_us)}});
}

}  // namespace stepcast::scenarios
