// Batch, precision, recomputation, experts, overlap and runtime of the arguments.
#include <algorithm>

#include <fmt/format.h>

#include "parallelism/layout.h"
#include "scenarios/megatron/import_parts.h"

namespace stepcast::scenarios::megatron {
namespace {

using Json = nlohmann::ordered_json;

constexpr long long most = 1 << 28;

void import_batch(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  const auto length = arguments.integer("--seq-length", 1, most);
  if (!length && !arguments.has("--seq-length"))
    draft.errors.push_back(make_error(ErrorCode::invalid, "the argument is missing", "--seq-length"));
  draft.set("/workload/sequence_length", length.value_or(1), "--seq-length");
  const auto micro = arguments.integer("--micro-batch-size", 1, most);
  if (!micro) draft.assume("--micro-batch-size not given: 1");
  draft.set("/workload/micro_batch", micro.value_or(1), "--micro-batch-size");
  if (const auto global = arguments.integer("--global-batch-size", 1, most)) {
    draft.set("/workload/global_batch", *global, "--global-batch-size");
    return;
  }
  // Megatron-LM's default: one microbatch a data-parallel rank.
  const Json& layout = draft.made.scenario["parallelism"];
  const long long model_parallel =
      layout["tp"].get<long long>() * layout["pp"].get<long long>() * layout["cp"].get<long long>();
  if (draft.devices == 0 || draft.devices % model_parallel != 0) return;
  const long long batch = micro.value_or(1) * (draft.devices / model_parallel);
  draft.set("/workload/global_batch", batch, "--global-batch-size");
  draft.assume(fmt::format("--global-batch-size not given: {}, one microbatch a data-parallel rank", batch));
}

std::string gemm_recipe(ImportDraft& draft, bool half) {
  ArgumentSet& arguments = draft.arguments;
  auto format = arguments.text("--fp8-format");
  if (arguments.flag("--fp8-hybrid")) format = "hybrid";
  // "delayed" scales tensors as tensorwise does, from the last steps' maxima.
  const auto recipe = arguments.choice("--fp8-recipe", {"delayed", "tensorwise", "blockwise", "mxfp8"});
  if (arguments.text("--fp4-format")) {
    arguments.text("--fp4-recipe");
    return "nvfp4";
  }
  if (!format) return half ? "fp16" : "bf16";
  const char* const names[] = {"fp8-tensorwise", "fp8-tensorwise", "fp8-blockwise", "mxfp8"};
  return names[recipe.value_or(0)];
}

void import_precision(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  const bool half = arguments.flag("--fp16");
  const bool brain = arguments.flag("--bf16");
  if (half && brain) {
    arguments.fail("--fp16", fmt::format("excludes --bf16, which {} gives: one of the two is expected",
                                         arguments.where("--bf16")));
  }
  if (!half && !brain) {
    draft.warn(
        "neither --bf16 nor --fp16 is given: Megatron-LM would train in FP32, which is not modelled; BF16 is "
        "taken");
  }
  draft.set("/precision/recipe", gemm_recipe(draft, half), half ? "--fp16" : "--bf16");
  const bool kept_in_fp32 = arguments.flag("--accumulate-allreduce-grads-in-fp32");
  const bool reduced_in_half = arguments.flag("--grad-reduce-in-bf16");
  const bool narrow = reduced_in_half || (half && !kept_in_fp32);
  for (const char* key : {"gradients", "gradient_reduce"}) {
    draft.set(std::string("/precision/") + key, narrow ? "bf16" : "fp32", "--grad-reduce-in-bf16");
  }
  const bool aware = arguments.flag("--use-precision-aware-optimizer");
  std::size_t width = 0;
  for (const char* name : {"--exp-avg-dtype", "--exp-avg-sq-dtype"}) {
    const auto moment = arguments.choice(name, {"fp32", "bf16", "fp16", "fp8"});
    if (!moment || !aware) continue;
    const std::size_t own = *moment == 0 ? 0 : *moment == 3 ? 2 : 1;
    if (std::string_view(name) == "--exp-avg-sq-dtype" && own != width) {
      draft.warn("the two moments differ in width; that of --exp-avg-dtype is taken for both");
      continue;
    }
    width = own;
  }
  const char* const widths[] = {"fp32", "bf16", "fp8"};
  draft.set("/precision/optimizer_state", widths[width], "--exp-avg-dtype");
  draft.set("/precision/parameters", arguments.flag("--fp8-param-gather") ? "fp8" : "bf16", "--fp8-param-gather");
}

void import_router(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  constexpr const char* name = "--moe-router-dtype";
  const auto dtype = arguments.choice(name, {"fp32", "fp64"});
  if (dtype == 1U) draft.warn("a router in fp64 is not modelled; fp32 is taken");
  const bool carried = draft.carried.is_object() && draft.carried.contains("precision") &&
                       draft.carried["precision"].contains("router_dtype");
  if (!arguments.has(name) && !carried) draft.assume(fmt::format("{} not given: bf16, Megatron-LM's default", name));
  draft.set("/precision/router_dtype", dtype ? "fp32" : "bf16", name);
  if (arguments.has(name) && carried) draft.carried["precision"].erase("router_dtype");
}

void import_recompute(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  const auto granularity = arguments.choice("--recompute-granularity", {"full", "selective"});
  const bool old_spelling = arguments.flag("--recompute-activations");
  const bool full = granularity == 0U;
  const bool selective = granularity == 1U || (old_spelling && !full);
  draft.set("/recompute/mode", full ? "full" : selective ? "selective" : "none", "--recompute-granularity");
  if (selective) {
    auto modules = arguments.list("--recompute-modules");
    if (modules.empty()) modules = {"core_attn"};  // Megatron-Core's default
    draft.set("/recompute/modules", modules, "--recompute-modules");
  }
  if (!full) return;
  const auto method = arguments.choice("--recompute-method", {"uniform", "block"});
  if (!method && !arguments.has("--recompute-method")) draft.assume("--recompute-method not given: uniform");
  const bool block = method == 1U;
  draft.set("/recompute/method", block ? "block" : "uniform", "--recompute-method");
  const auto layers = arguments.integer("--recompute-num-layers", 1, 100'000);
  if (block && layers) draft.set("/recompute/layers", *layers, "--recompute-num-layers");
  if (!block && layers.value_or(1) > 1) {
    draft.warn(fmt::format("{}: units of {} layers are recomputed one layer at a time here",
                           arguments.where("--recompute-num-layers"), *layers));
  }
}

void import_dispatcher(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  constexpr const char* name = "--moe-token-dispatcher-type";
  const auto type = arguments.choice(name, {"allgather", "alltoall", "flex", "alltoall_seq"});
  const auto backend = arguments.choice("--moe-flex-dispatcher-backend", {"deepep", "hybridep", "ncclep"});
  const bool old_deepep = arguments.flag("--moe-enable-deepep");
  if (!type && !arguments.has(name)) draft.assume(fmt::format("{} not given: allgather, Megatron-LM's default", name));
  std::string dispatcher = type.value_or(0) == 0 ? "allgather" : "alltoall";
  if (type == 2U) {
    dispatcher = backend == 1U ? "hybridep" : "deepep";
    if (backend == 2U) draft.warn("dispatcher ncclep is not known here; deepep is taken");
    if (!backend && !old_deepep) draft.assume("--moe-flex-dispatcher-backend not given: deepep, Megatron-LM's default");
  }
  draft.set("/runtime/dispatcher", dispatcher, name);
  for (const char* sms : {"--moe-deepep-num-sms", "--moe-hybridep-num-sms"}) {
    if (const auto n = arguments.integer(sms, 0, 1024)) draft.set("/runtime/dispatcher_sms", *n, sms);
  }
}

void import_experts(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  arguments.flag("--moe-grouped-gemm");
  import_router(draft);
  import_dispatcher(draft);
  if (arguments.flag("--moe-router-force-load-balancing")) {
    draft.set("/routing/skew", "balanced", "--moe-router-force-load-balancing");
  }
  const bool fusion = arguments.flag("--moe-permute-fusion");
  if (!draft.carried.is_object() || !draft.carried.contains("software")) {
    if (!fusion) draft.assume("--moe-permute-fusion not given: off, Megatron-LM's default");
    Json& software = draft.made.scenario["software"];
    if (software.is_string()) software = Json::object({{"name", software}});
    draft.set("/software/permute_fusion", fusion, "--moe-permute-fusion");
  }
  const bool pad = arguments.flag("--moe-pad-expert-input-to-capacity");
  arguments.text("--moe-token-drop-policy");
  if (const auto factor = arguments.number("--moe-expert-capacity-factor", 0.01, 1000)) {
    draft.set("/routing/capacity_factor", *factor, "--moe-expert-capacity-factor");
    draft.set("/routing/drop", pad ? "pad" : "drop", "--moe-pad-expert-input-to-capacity");
  } else if (pad) {
    arguments.fail("--moe-pad-expert-input-to-capacity", "it needs --moe-expert-capacity-factor");
  }
}

// Megatron-LM overlaps sends of interleaved schedules alone, and batches those that it does not overlap.
void import_messages(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  const auto& layout = draft.made.scenario["parallelism"];
  const bool chunks = layout.value("vpp", 1LL) > 1;
  arguments.flag("--overlap-p2p-communication");  // the default of interleaved schedules
  const bool off = arguments.flag("--no-overlap-p2p-communication");
  const bool everywhere = arguments.flag("--overlap-p2p-communication-warmup-flush");
  const bool overlapped = chunks && !off;
  draft.set("/overlap/p2p", overlapped, "--no-overlap-p2p-communication");
  draft.set("/overlap/p2p_warmup_flush", overlapped && everywhere, "--overlap-p2p-communication-warmup-flush");
  draft.set("/overlap/p2p_batched", !overlapped, "--no-overlap-p2p-communication");
  if (!chunks && !off && layout.value("pp", 1LL) > 1)
    draft.assume(
        "point-to-point messages are not overlapped: Megatron-LM overlaps those of interleaved schedules alone");
}

void import_offload(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  const bool optimizer = arguments.flag("--optimizer-cpu-offload");
  draft.set("/offload/optimizer", optimizer, "--optimizer-cpu-offload");
  const auto fraction = arguments.number("--optimizer-offload-fraction", 0, 1);
  if (optimizer) draft.set("/offload/optimizer_fraction", fraction.value_or(1), "--optimizer-offload-fraction");
  constexpr const char* name = "--cpu-offloading-num-layers";
  const auto layers = arguments.integer(name, 0, 100'000);
  if (layers.value_or(0) > 0) {
    arguments.flag("--cpu-offloading");
    draft.set("/offload/activations", true, name);
    draft.set("/offload/activation_layers", *layers, name);
    return;
  }
  const bool modules = arguments.flag("--fine-grained-activation-offloading");
  draft.set("/offload/activations", arguments.flag("--cpu-offloading") || modules,
            "--fine-grained-activation-offloading");
}

void import_graphs(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  const auto implementation = arguments.choice("--cuda-graph-impl", {"none", "local", "transformer_engine"});
  const bool old_spelling = arguments.flag("--enable-cuda-graph") || arguments.flag("--external-cuda-graph");
  auto modules = arguments.list("--cuda-graph-modules");
  for (const std::string& scope : arguments.list("--cuda-graph-scope")) modules.push_back(scope);
  const bool on = implementation.value_or(0) != 0 || old_spelling;
  const bool whole = on && std::find(modules.begin(), modules.end(), "full_iteration") != modules.end();
  draft.set("/runtime/cuda_graphs", whole ? "full_iteration" : on ? "partial" : "none", "--cuda-graph-impl");
  if (!on || whole) return;
  if (modules.empty()) modules = {"attn", "mlp", "moe"};  // whole layers, Megatron-Core's default
  draft.set("/runtime/graph_modules", modules, "--cuda-graph-modules");
}

}  // namespace

void import_training(ImportDraft& draft) {
  import_batch(draft);
  import_precision(draft);
  import_recompute(draft);
}

void import_runtime(ImportDraft& draft) {
  ArgumentSet& arguments = draft.arguments;
  if (draft.model && draft.model->is_moe()) import_experts(draft);
  const auto overlap = [&](const char* key, const char* name) {
    draft.set(std::string("/overlap/") + key, arguments.flag(name), name);
  };
  overlap("gradients", "--overlap-grad-reduce");
  overlap("parameters", "--overlap-param-gather");
  overlap("tp", "--tp-comm-overlap");
  overlap("parameters_with_optimizer", "--overlap-param-gather-with-optimizer-step");
  overlap("delay_wgrad", "--delay-wgrad-compute");
  overlap("shared_expert", "--moe-shared-expert-overlap");
  import_messages(draft);
  if (const auto elements = arguments.integer("--ddp-bucket-size", 1, 1LL << 50)) {
    const bool half = draft.made.scenario["precision"]["gradients"] == "bf16";
    draft.set("/overlap/gradient_bucket_bytes", static_cast<double>(*elements) * (half ? 2 : 4), "--ddp-bucket-size");
  } else {
    draft.set("/overlap/gradient_bucket_bytes", 0, "--ddp-bucket-size");
  }
  import_graphs(draft);
  import_offload(draft);
  if (const auto multiple = arguments.integer("--make-vocab-size-divisible-by", 1, 1 << 20)) {
    const bool carried = draft.carried.is_object() && draft.carried.contains("software");
    if (!carried && *multiple != 128) {
      Json& software = draft.made.scenario["software"];
      if (software.is_string()) software = Json::object({{"name", software}});
      draft.set("/software/padded_vocab_multiple", *multiple, "--make-vocab-size-divisible-by");
    }
  }
}

}  // namespace stepcast::scenarios::megatron
