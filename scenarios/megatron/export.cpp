#include "scenarios/megatron/export.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "models/catalog.h"
#include "parallelism/stage_split.h"
#include "scenarios/megatron/model_arguments.h"

namespace stepcast::scenarios::megatron {
namespace {

using Json = nlohmann::ordered_json;
using parallelism::ScheduleKind;
using parallelism::Sharding;
using parallelism::StepSpec;

constexpr double usual_vocab_multiple = 128;  // --make-vocab-size-divisible-by's default
constexpr const char* usual_order = "tp-cp-ep-dp-pp";

class Exporter {
 public:
  explicit Exporter(const Scenario& scenario) : scenario_(scenario), spec_(scenario.spec) {}

  MegatronExport run(const std::filesystem::path& catalog_root) {
    write_model(catalog_root);
    write_layout();
    write_split();
    write_schedule();
    write_sharding();
    write_batch();
    write_precision();
    write_recompute();
    write_experts();
    write_overlap();
    write_runtime();
    carry_rest();
    made_.title = fmt::format("{}: {} on {} {}", scenario_.name, spec_.model.name, spec_.cluster.devices,
                              spec_.cluster.device.name);
    return std::move(made_);
  }

 private:
  void flag(const char* name) { made_.arguments.push_back({name, {}, {}}); }
  void flag(const char* name, bool on) {
    if (on) flag(name);
  }
  void text(const char* name, std::string value) { made_.arguments.push_back({name, {std::move(value)}, {}}); }
  void number(const char* name, std::int64_t value) { text(name, std::to_string(value)); }

  // The resolved value at "/block/member" goes beside the arguments.
  void carry(const std::string& pointer) {
    const Json::json_pointer at(pointer);
    if (scenario_.resolved.contains(at)) made_.carried[at] = scenario_.resolved[at];
  }
  void not_expressed(const std::string& pointer, std::string why) {
    made_.not_expressed.push_back({pointer, std::move(why)});
    carry(pointer);
  }

  void write_model(const std::filesystem::path& catalog_root) {
    ModelArguments model = model_arguments(spec_.model);
    made_.arguments = std::move(model.arguments);
    for (const std::string& what : model.missing) made_.not_expressed.push_back({"/model", what});
    number("--vocab-size", spec_.model.vocab);
    const bool pads = spec_.degrees.tp > 1 || spec_.software.pads_vocab_alone;
    const double multiple = pads ? spec_.software.padded_vocab_multiple : 1;
    if (multiple != usual_vocab_multiple) number("--make-vocab-size-divisible-by", std::llround(multiple));
    text("--attention-dropout", spec_.model.attention_dropout ? "0.1" : "0.0");
    text("--hidden-dropout", spec_.model.hidden_dropout ? "0.1" : "0.0");
    const bool positions = spec_.model.learned_positions && spec_.model.max_positions > 0;
    number("--max-position-embeddings", positions ? spec_.model.max_positions : spec_.workload.sequence_length);

    made_.carried["model"] = scenario_.resolved["model"];
    if (catalog_root.empty()) return;
    const auto known = models::load_model(catalog_root, spec_.model.name);
    if (known && models::model_to_json(*known) == scenario_.resolved["model"]) {
      made_.carried["model"] = Json::object({{"name", spec_.model.name}});
    }
  }

  void write_layout() {
    const parallelism::Degrees& d = spec_.degrees;
    number("--tensor-model-parallel-size", d.tp);
    flag("--sequence-parallel", spec_.sequence_parallel);
    number("--pipeline-model-parallel-size", d.pp);
    number("--context-parallel-size", d.cp);
    write_cp_kind();
    if (spec_.model.is_moe() || d.ep > 1) number("--expert-model-parallel-size", d.ep);
    // Without it Megatron gives the experts the tensor-parallel degree of attention.
    if (spec_.model.is_moe() || d.etp.value_or(1) != 1) number("--expert-tensor-parallel-size", d.etp.value_or(1));
    if (d.dp) carry("/parallelism/dp");
    if (d.order == "tp-cp-ep-pp-dp") {
      flag("--use-tp-pp-dp-mapping");
    } else if (d.order != usual_order) {
      not_expressed("/parallelism/order", d.order + ": Megatron-LM numbers ranks tp-cp-ep-dp-pp or tp-cp-ep-pp-dp");
    }
  }

  void write_cp_kind() {
    static const char* const names[] = {"p2p", "allgather", "a2a", "a2a+p2p"};
    if (spec_.degrees.cp == 1) {
      carry("/parallelism/cp_kind");
      return;
    }
    text("--cp-comm-type", names[static_cast<std::size_t>(spec_.cp_kind)]);
    if (spec_.cp_kind == parallelism::CpKind::all_to_all_ring) {
      made_.not_expressed.push_back(
          {"/parallelism/cp_kind", "a2a+ring: its two degrees (--hierarchical-context-parallel-sizes) are not chosen"});
    }
  }

  // Where Megatron's own rule would place the layers elsewhere, the layout is written out.
  void write_split() {
    const int pieces = spec_.degrees.pp * spec_.degrees.vpp;
    if (!spec_.pipeline_layout.empty()) {
      text("--pipeline-model-parallel-layout", spec_.pipeline_layout);
      return;
    }
    const int layers = spec_.model.layer_count();
    const bool even = spec_.stage_layers.empty() && layers % pieces == 0;
    const bool ends = spec_.stage_layers.empty() && !even && (layers + 2) % pieces == 0;
    if (even || ends) {
      if (spec_.degrees.vpp > 1) number("--num-virtual-stages-per-pipeline-rank", spec_.degrees.vpp);
      flag("--account-for-embedding-in-pipeline-split", ends);
      flag("--account-for-loss-in-pipeline-split", ends);
      return;
    }
    made_.carried["parallelism"]["pipeline_layout"] = nullptr;  // the scenario says it without the string
    if (!spec_.stage_layers.empty()) carry("/parallelism/stage_layers");
    const auto split = parallelism::split_stages({.layers = layers,
                                                  .mtp_layers = spec_.model.mtp_layers,
                                                  .virtual_stages = pieces,
                                                  .stage_layers = spec_.stage_layers});
    if (!split) {
      made_.not_expressed.push_back({"/parallelism/stage_layers", split.errors().front().message});
      return;
    }
    text("--pipeline-model-parallel-layout", layout_string(split->pieces));
  }

  static std::string layout_string(const std::vector<parallelism::StageContent>& pieces) {
    std::string layout;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) layout += '|';
      if (pieces[i].embedding) layout += 'E';
      if (pieces[i].layers > 0)
        layout += pieces[i].layers > 2 ? fmt::format("t*{}", pieces[i].layers)
                                       : std::string(static_cast<std::size_t>(pieces[i].layers), 't');
      layout += std::string(static_cast<std::size_t>(pieces[i].mtp_layers), 'm');
      if (pieces[i].loss) layout += 'L';
    }
    return layout;
  }

  void write_schedule() {
    const ScheduleKind usual = spec_.degrees.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
    const bool coscheduled = spec_.schedule == ScheduleKind::coscheduled && spec_.overlap.ep;
    flag("--overlap-moe-expert-parallel-comm", coscheduled);
    if (!coscheduled && spec_.schedule != usual) {
      not_expressed("/parallelism/schedule",
                    fmt::format("{}: Megatron-LM runs {} here", info(spec_.schedule).name, info(usual).name));
    }
    if (!coscheduled && spec_.overlap.ep) {
      not_expressed("/overlap/ep", "on: Megatron-LM hides the expert exchange only in its co-scheduled 1F1B");
    }
    if (spec_.schedule_group > 0) number("--microbatch-group-size-per-virtual-pipeline-stage", spec_.schedule_group);
  }

  void write_sharding() {
    flag("--use-distributed-optimizer", spec_.sharding != Sharding::none);
    if (spec_.sharding == Sharding::none || spec_.sharding == Sharding::zero1) return;
    flag("--use-megatron-fsdp");
    text("--data-parallel-sharding-strategy", spec_.sharding == Sharding::zero2 ? "optim_grads" : "optim_grads_params");
    if (spec_.sharding != Sharding::hsdp) return;
    const int replicas = spec_.cluster.devices / (spec_.degrees.tp * spec_.degrees.pp);  // dp x cp
    if (spec_.shard_group > 0 && replicas % spec_.shard_group == 0) {
      number("--num-distributed-optimizer-instances", replicas / spec_.shard_group);
    } else {
      not_expressed("/parallelism/shard_group",
                    fmt::format("{} does not divide the {} ranks that share parameters", spec_.shard_group, replicas));
    }
    if (spec_.shard_group == replicas) {
      not_expressed("/parallelism/sharding", "hsdp with one group is zero3");
      carry("/parallelism/shard_group");
    }
  }

  void write_batch() {
    number("--seq-length", spec_.workload.sequence_length);
    number("--micro-batch-size", spec_.workload.micro_batch);
    number("--global-batch-size", spec_.workload.global_batch);
  }

  void write_gemm_recipe() {
    const std::string& name = spec_.recipe.name;
    flag(name == "fp16" ? "--fp16" : "--bf16");
    if (name == "bf16" || name == "fp16") return;
    if (name == "nvfp4") {
      text("--fp4-format", "e2m1");
      return;
    }
    text("--fp8-format", name == "mxfp8" ? "e4m3" : "hybrid");
    text("--fp8-recipe", name == "mxfp8" ? "mxfp8" : name == "fp8-blockwise" ? "blockwise" : "tensorwise");
  }

  void write_precision() {
    const Json& precision = scenario_.resolved["precision"];
    write_gemm_recipe();
    const auto width = [&](const char* key) { return precision[key].get<std::string>(); };
    if (width("gradients") != width("gradient_reduce")) {
      made_.not_expressed.push_back({"/precision/gradients", width("gradients") + " kept and " +
                                                                 width("gradient_reduce") +
                                                                 " reduced: Megatron-LM has one switch for both"});
      carry("/precision/gradients");
      carry("/precision/gradient_reduce");
    } else {
      // FP16 runs keep gradients in 2 bytes unless told, BF16 runs in 4.
      const bool half = width("gradients") == "bf16";
      if (spec_.recipe.name == "fp16") {
        flag("--accumulate-allreduce-grads-in-fp32", !half);
      } else {
        flag("--grad-reduce-in-bf16", half);
      }
    }
    if (width("optimizer_state") != "fp32") {
      flag("--use-precision-aware-optimizer");
      text("--exp-avg-dtype", width("optimizer_state"));
      text("--exp-avg-sq-dtype", width("optimizer_state"));
    } else {
      flag("--use-precision-aware-optimizer", spec_.offload.optimizer);
    }
    flag("--fp8-param-gather", width("parameters") == "fp8");
    write_router(precision["router_dtype"].get<std::string>());
    if (precision["activations"] != "recipe") {
      not_expressed("/precision/activations", "precision of stored activations follows the recipe in Megatron-LM");
    }
  }

  // Without the argument Megatron-LM routes in the parameters' 16 bits.
  void write_router(const std::string& dtype) {
    if (!spec_.model.is_moe()) {
      carry("/precision/router_dtype");
    } else if (dtype == "fp32") {
      text("--moe-router-dtype", dtype);
    } else if (dtype == "mixed") {
      not_expressed("/precision/router_dtype", "mixed: Megatron-LM's fp32 router also multiplies in fp32 in backward");
    }
  }

  void write_recompute() {
    const parallelism::Recompute& r = spec_.recompute;
    if (r.mode == parallelism::RecomputeMode::none) return;
    text("--recompute-granularity", r.mode == parallelism::RecomputeMode::full ? "full" : "selective");
    if (r.mode == parallelism::RecomputeMode::selective) {
      if (r.modules.empty()) {
        not_expressed("/recompute/modules", "selective without a module: Megatron-LM then takes core_attn");
      } else {
        made_.arguments.push_back({"--recompute-modules", r.modules, {}});
      }
      return;
    }
    text("--recompute-method", r.method);
    if (r.method == "block" && r.block_layers == 0) {
      const int pieces = spec_.degrees.pp * spec_.degrees.vpp;
      number("--recompute-num-layers", (spec_.model.layer_count() + pieces - 1) / pieces);
      carry("/recompute/layers");  // 0: all, however many there are
    } else {
      number("--recompute-num-layers", std::max(1, r.block_layers));
      if (r.method == "uniform" && r.block_layers != 0) carry("/recompute/layers");
    }
  }

  void write_experts() {
    const models::Moe& moe = spec_.model.moe;
    carry("/routing");
    if (!spec_.model.is_moe()) {
      carry("/runtime/dispatcher");
      carry("/runtime/dispatcher_sms");
      return;
    }
    made_.carried["routing"].erase("capacity_factor");
    made_.carried["routing"].erase("drop");
    flag("--moe-grouped-gemm");
    flag("--moe-permute-fusion", spec_.software.permute_fusion);
    write_dispatcher();
    const parallelism::RoutingSpec& r = spec_.routing;
    if (r.capacity_factor > 0) {
      text("--moe-expert-capacity-factor", fmt::format("{}", r.capacity_factor));
      flag("--moe-pad-expert-input-to-capacity", r.drop == parallelism::DropPolicy::pad);
    }
    if (spec_.node_limit == (moe.groups > 0 ? moe.top_groups : 0)) {
      made_.carried["routing"].erase("node_limit");
    } else {
      not_expressed("/routing/node_limit",
                    fmt::format("{}: Megatron-LM limits groups of experts, not nodes", spec_.node_limit));
    }
  }

  void write_dispatcher() {
    const std::string dispatcher(parallelism::name(spec_.runtime.dispatcher));
    const bool flexible = dispatcher == "deepep" || dispatcher == "hybridep";
    text("--moe-token-dispatcher-type", flexible ? "flex" : dispatcher);
    if (flexible) text("--moe-flex-dispatcher-backend", dispatcher);
    if (spec_.runtime.dispatcher_sms == 0) return;
    if (flexible) {
      number(dispatcher == "deepep" ? "--moe-deepep-num-sms" : "--moe-hybridep-num-sms", spec_.runtime.dispatcher_sms);
    } else {
      carry("/runtime/dispatcher_sms");
    }
  }

  void write_overlap() {
    const parallelism::Overlap& o = spec_.overlap;
    flag("--overlap-grad-reduce", o.gradients);
    // Megatron gathers parameters only for its distributed optimizer, and splits tensor-parallel products only with
    // sequence parallelism: elsewhere the value means nothing and is kept beside the list.
    if (spec_.sharding != Sharding::none) {
      flag("--overlap-param-gather", o.parameters);
    } else {
      carry("/overlap/parameters");
    }
    if (spec_.degrees.tp > 1 && spec_.sequence_parallel) {
      flag("--tp-comm-overlap", o.tp);
    } else {
      carry("/overlap/tp");
    }
    flag("--overlap-param-gather-with-optimizer-step", o.parameters_with_optimizer);
    flag("--delay-wgrad-compute", o.delay_wgrad);
    if (spec_.model.moe.shared_ffn > 0) {
      flag("--moe-shared-expert-overlap", o.shared_expert);
    } else {
      carry("/overlap/shared_expert");
    }
    write_messages();
    write_buckets();
    carry("/overlap/prefetch");
    write_offload();
  }

  // Megatron-LM overlaps sends of interleaved schedules alone, and batches those that it does not overlap.
  void write_messages() {
    const parallelism::Overlap& o = spec_.overlap;
    if (spec_.degrees.vpp == 1) {
      for (const char* key : {"p2p", "p2p_warmup_flush", "p2p_batched"}) carry(std::string("/overlap/") + key);
      return;
    }
    flag(o.p2p ? "--overlap-p2p-communication" : "--no-overlap-p2p-communication");
    flag("--overlap-p2p-communication-warmup-flush", o.p2p_warmup_flush);
    if (!o.p2p && !o.p2p_batched) {
      not_expressed("/overlap/p2p_batched", "off: Megatron-LM batches the messages that it does not overlap");
    }
  }

  void write_offload() {
    flag("--optimizer-cpu-offload", spec_.offload.optimizer);
    if (spec_.offload.optimizer && spec_.offload.optimizer_fraction < 1)
      text("--optimizer-offload-fraction", fmt::format("{}", spec_.offload.optimizer_fraction));
    if (spec_.offload.activation_layers > 0) {
      number("--cpu-offloading-num-layers", spec_.offload.activation_layers);
    } else {
      flag("--fine-grained-activation-offloading", spec_.offload.activations);
    }
  }

  void write_buckets() {
    const double bytes = spec_.overlap.gradient_bucket_bytes;
    if (bytes == 0) return;
    const double elements = bytes / spec_.recipe.gradient_bytes;
    if (elements >= 1 && elements == std::floor(elements) && elements < 1e15) {
      number("--ddp-bucket-size", std::llround(elements));
    } else {
      not_expressed("/overlap/gradient_bucket_bytes", "Megatron-LM counts whole elements");
    }
  }

  void write_runtime() {
    const parallelism::Runtime& r = spec_.runtime;
    if (r.cuda_graphs == parallelism::CudaGraphs::partial) {
      text("--cuda-graph-impl", "transformer_engine");
      if (!r.graph_modules.empty()) made_.arguments.push_back({"--cuda-graph-modules", r.graph_modules, {}});
    } else if (r.cuda_graphs == parallelism::CudaGraphs::full_iteration) {
      text("--cuda-graph-impl", "local");
      text("--cuda-graph-scope", "full_iteration");
    }
    for (const char* key : {"host_binding", "host_launch_us", "host_sync_us"}) carry(std::string("/runtime/") + key);
  }

  void carry_rest() {
    // Blocks that arguments speak of; all others are carried whole.
    static const std::vector<std::string> expressed = {"schema",    "model",   "parallelism", "workload", "precision",
                                                       "recompute", "routing", "overlap",     "runtime",  "offload"};
    for (const auto& [block, value] : scenario_.resolved.items()) {
      if (std::find(expressed.begin(), expressed.end(), block) == expressed.end()) made_.carried[block] = value;
    }
    for (const char* key : {"packing", "document_lengths", "steps"}) carry(std::string("/workload/") + key);
  }

  const Scenario& scenario_;
  const StepSpec& spec_;
  MegatronExport made_;
};

}  // namespace

MegatronExport export_megatron(const Scenario& scenario, const std::filesystem::path& catalog_root) {
  return Exporter(scenario).run(catalog_root);
}

}  // namespace stepcast::scenarios::megatron
