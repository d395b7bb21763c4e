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
  return parallelism::factor_of(draft.spec.software.host_factor, draft.spec.cluster.device.name);
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

bool gathers_in_parts(const parallelism::StepSpec& spec) {
  const bool pieces = spec.degrees.vpp > 1 || spec.schedule == parallelism::ScheduleKind::zb_v ||
                      spec.schedule == parallelism::ScheduleKind::dualpipe ||
                      spec.schedule == parallelism::ScheduleKind::dualpipe_v;
  return pieces && spec.overlap.parameters && spec.sharding != parallelism::Sharding::none;
}

// Defaults that no profile speaks of, where they change the answer.
void assume_overlap(Draft& draft, JsonFields& fields) {
  const parallelism::StepSpec& spec = draft.spec;
  const auto missing = [&](const char* key, bool matters, const char* value) {
    if (matters && !fields.has(key)) draft.assume(fmt::format("overlap.{} not given: {}", key, value));
  };
  const bool pipeline = spec.degrees.pp > 1;
  missing("p2p_warmup_flush", pipeline && spec.overlap.p2p, "on, sends run beside compute in every phase");
  missing("p2p_batched", pipeline && !spec.overlap.p2p, "off, a send holds up its sender alone");
  missing("parameters_with_optimizer", gathers_in_parts(spec), "off, gathers follow the whole update");
  missing("delay_wgrad", spec.overlap.ep, "off, weight gradients run before their layer's exchange");
}

void read_offload(Draft& draft) {
  JsonFields fields = draft.block("offload");
  parallelism::Offload& offload = draft.spec.offload;
  fields.read("optimizer", offload.optimizer);
  fields.read("optimizer_fraction", offload.optimizer_fraction, 0, 1);
  if (fields.has("optimizer_fraction")) {
    if (!fields.has("optimizer")) {
      offload.optimizer = true;
    } else if (!offload.optimizer) {
      fields.fail("optimizer_fraction", "optimizer_fraction belongs to optimizer on; it is off");
    }
  } else if (offload.optimizer) {
    draft.assume("offload.optimizer_fraction not given: all of the optimizer's state");
  }
  fields.read("activations", offload.activations);
  constexpr int most_layers = 100'000;
  fields.read("activation_layers", offload.activation_layers, 1, most_layers);
  const int layers = draft.model_ok ? draft.spec.model.layer_count() : most_layers;
  if (offload.activation_layers > layers) {
    fields.fail("activation_layers", fmt::format("activation_layers {} of each chunk; {} has {} layers in all",
                                                 offload.activation_layers, draft.spec.model.name, layers));
  }
  if (fields.has("activation_layers")) {
    if (!fields.has("activations")) {
      offload.activations = true;
    } else if (!offload.activations) {
      fields.fail("activation_layers", "activation_layers belongs to activations on; it is off");
    }
  } else if (offload.activations) {
    draft.assume("offload.activation_layers not given: all layers of each chunk");
  }
  fields.refuse_unknown();
}

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
             .shared_expert = software.overlap_shared_expert,
             .gradient_bucket_bytes = software.gradient_bucket_bytes,
             .prefetch = software.prefetch};
  fields.read("gradients", overlap.gradients);
  fields.read("parameters", overlap.parameters);
  fields.read("tp", overlap.tp);
  fields.read("ep", overlap.ep);
  fields.read("p2p", overlap.p2p);
  overlap.p2p_warmup_flush = overlap.p2p;
  fields.read("p2p_warmup_flush", overlap.p2p_warmup_flush);
  fields.read("p2p_batched", overlap.p2p_batched);
  fields.read("parameters_with_optimizer", overlap.parameters_with_optimizer);
  fields.read("delay_wgrad", overlap.delay_wgrad);
  fields.read("shared_expert", overlap.shared_expert);
  fields.read("gradient_bucket_bytes", overlap.gradient_bucket_bytes, 0, 1e15);
  fields.read("prefetch", overlap.prefetch, 0, 1000);
  fields.refuse_unknown();
  assume_profile(draft, fields, "overlap",
                 {{"gradients", on_off(overlap.gradients)},
                  {"parameters", on_off(overlap.parameters)},
                  {"tp", on_off(overlap.tp)},
                  {"ep", on_off(overlap.ep)},
                  {"p2p", on_off(overlap.p2p)},
                  {"shared_expert", draft.spec.model.moe.shared_ffn > 0 ? on_off(overlap.shared_expert) : "unused"}});
  assume_overlap(draft, fields);
  read_offload(draft);
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
             .dispatcher_sms = 0};
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
