// Arguments of Megatron-LM, exported and imported again, give the same resolved scenario.
#include <set>

#include <catch2/catch.hpp>

#include "scenarios/megatron/export.h"
#include "scenarios/megatron/import.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
using megatron::MegatronExport;
using megatron::MegatronImport;

Scenario from_library(const std::string& name, const std::vector<std::string>& sets = {}) {
  ScenarioRequest request;
  request.file = name;
  request.sets = sets;
  request.catalog_root = source_dir;
  auto scenario = load_scenario(request);
  INFO((scenario ? std::string() : shown(scenario.errors())));
  REQUIRE(scenario.ok());
  return std::move(*scenario);
}

MegatronImport imported(const std::string& text, const std::string& cluster = {}, const std::string& model = {}) {
  megatron::ImportOptions options;
  options.catalog_root = source_dir;
  options.cluster = cluster;
  options.model = model;
  auto result = megatron::import_megatron(text, "args.sh", options);
  INFO((result ? std::string() : shown(result.errors())));
  INFO(text);
  REQUIRE(result.ok());
  return std::move(*result);
}

Json resolved_again(const std::string& text, const std::string& cluster = {}) {
  const MegatronImport result = imported(text, cluster);
  CHECK(result.unused.empty());
  INFO(result.scenario.dump(1));
  return loaded(result.scenario.dump()).resolved;
}

void check_round_trip(const Scenario& scenario) {
  const MegatronExport exported = megatron::export_megatron(scenario, source_dir);
  CHECK(resolved_again(to_text(exported)).dump(1) == scenario.resolved.dump(1));
}

// Pointers of the members in which two resolved scenarios differ.
std::set<std::string> differences(const Json& a, const Json& b) {
  std::set<std::string> found;
  for (const Json& change : Json::diff(a, b)) found.insert(change["path"].get<std::string>());
  return found;
}

std::vector<std::string> library() {
  std::vector<std::string> names;
  const auto entries = list_library(source_dir);
  REQUIRE(entries.ok());
  for (const LibraryEntry& entry : *entries) names.push_back(entry.name);
  return names;
}

}  // namespace

TEST_CASE("every scenario of the library survives export to Megatron and import") {
  for (const std::string& name : library()) {
    INFO(name);
    check_round_trip(from_library(name));
  }
}

TEST_CASE("Megatron arguments alone carry all but what the export lists") {
  // Without the comment: hardware, software and what is no launch argument are given anew, the rest must come from the
  // arguments, except for what the export says it cannot express.
  for (const std::string& name : library()) {
    INFO(name);
    const Scenario scenario = from_library(name);
    const MegatronExport exported = megatron::export_megatron(scenario, source_dir);
    std::string text = to_text(exported);
    const auto mark = text.find(megatron::carried_mark);
    text.erase(mark, text.find('\n', mark) - mark);

    MegatronImport result = imported(text, "h100:8", scenario.spec.model.name);
    const std::set<std::string> expressed = {"schema",    "model",   "parallelism", "workload", "precision",
                                             "recompute", "routing", "overlap",     "runtime",  "offload"};
    for (const auto& [key, value] : scenario.resolved.items()) {
      if (!expressed.contains(key)) result.scenario[key] = value;
    }
    for (const char* key : {"packing", "document_lengths", "steps"}) {
      if (scenario.resolved["workload"].contains(key))
        result.scenario["workload"][key] = scenario.resolved["workload"][key];
    }
    const Json again = loaded(result.scenario.dump()).resolved;

    std::set<std::string> listed = {"/routing/skew",           "/routing/persistence",  "/runtime/host_binding",
                                    "/runtime/host_launch_us", "/runtime/host_sync_us", "/overlap/prefetch"};
    for (const auto& what : exported.not_expressed) listed.insert(what.pointer);
    for (const auto& [block, members] : exported.carried.items()) {
      if (!members.is_object() || block == "model") continue;
      for (const auto& [key, value] : members.items()) listed.insert("/" + block + "/" + key);
    }
    for (const std::string& pointer : differences(scenario.resolved, again)) {
      INFO(pointer);
      bool allowed = listed.contains(pointer);
      for (const std::string& known : listed) allowed = allowed || pointer.starts_with(known + "/");
      CHECK(allowed);
    }
  }
}

TEST_CASE("layouts and recipes survive export to Megatron and import") {
  const std::vector<std::vector<std::string>> variants = {
      {"parallelism.tp=4", "parallelism.etp=2", "parallelism.ep=4", "parallelism.sequence_parallel=true"},
      {"parallelism.tp=4", "parallelism.etp=4", "parallelism.sequence_parallel=false", "overlap.tp=true"},
      {"parallelism.pp=4", "parallelism.vpp=2", "parallelism.schedule_group=8", "overlap.p2p=false"},
      {"parallelism.pp=4", "parallelism.stage_layers=[7,8,8,9]", "parallelism.sharding=none"},
      {"parallelism.pp=2", "parallelism.pipeline_layout=Et*15|t*17L", "parallelism.order=tp-cp-ep-pp-dp"},
      {"parallelism.pp=8", "parallelism.vpp=3", "parallelism.dp=8"},
      {"parallelism.cp=2", "parallelism.cp_kind=a2a", "parallelism.sharding=zero2"},
      {"parallelism.sharding=hsdp", "parallelism.shard_group=8", "parallelism.ep=8"},
      {"parallelism.sharding=zero3", "overlap.prefetch=2", "overlap.gradient_bucket_bytes=160000000"},
      {"parallelism.schedule=coscheduled", "parallelism.ep=8", "overlap.ep=true"},
      {"parallelism.pp=4", "parallelism.schedule=zb-h1", "parallelism.ep=8"},
      {"parallelism.schedule=coscheduled", "parallelism.ep=8", "overlap.ep=true", "overlap.delay_wgrad=true"},
      {"parallelism.pp=4", "parallelism.vpp=2", "overlap.p2p_warmup_flush=false",
       "overlap.parameters_with_optimizer=true"},
      {"parallelism.pp=4", "parallelism.vpp=2", "overlap.p2p=false", "overlap.p2p_batched=true"},
      {"precision.router_dtype=fp32", "offload.activation_layers=3", "offload.optimizer_fraction=0.25"},
      {"precision.router_dtype=bf16", "model=deepseek-v2-lite", "overlap.shared_expert=true"},
      {"precision=fp16", "precision.gradients=bf16"},
      {"precision=fp16", "precision.gradients=fp32", "precision.gradient_reduce=fp32"},
      {"precision=fp8-blockwise", "precision.parameters=fp8", "precision.optimizer_state=bf16"},
      {"precision=fp8-tensorwise", "precision.activations=fp8", "precision.gradient_reduce=bf16"},
      {"recompute=full"},
      {"recompute=full", "recompute.method=block", "recompute.layers=3"},
      {"recompute=full", "recompute.method=block"},
      {"recompute=selective:moe_act,layernorm", "offload.activations=true", "offload.optimizer=true"},
      {"routing.capacity_factor=1.25", "routing.drop=pad", "runtime.dispatcher=allgather", "routing.node_limit=2"},
      {"routing.skew=zipf:0.5", "routing.persistence=0.3", "runtime.dispatcher=deepep", "runtime.dispatcher_sms=20"},
      {"runtime.cuda_graphs=partial:attn,moe_router", "runtime.host_binding=true", "overlap.parameters=false"},
      {"runtime.cuda_graphs=full_iteration", "software=megatron-core-2024", "noise.kernel_sigma=0.02", "seed=7"},
      {"model.mtp_layers=1", "model.vocab=40000", "model.layers=24"},
      {"model.attention_dropout=true", "software.padded_vocab_multiple=64", "workload.document_lengths=[100,200]"}};
  const std::string base = R"({"model": "mixtral-8x7b", "cluster": "h100:64", "workload": {"global_batch": 512},
                               "software": "megatron-core-2025"})";
  for (const auto& sets : variants) {
    INFO(sets.front());
    check_round_trip(loaded(base, sets));
  }
}

TEST_CASE("every catalogue model survives export to Megatron and import") {
  for (const std::string model : {"deepseek-v3", "deepseek-v2-lite", "gpt-oss-20b", "llama-3-8b", "qwen1.5-moe-a2.7b",
                                  "qwen3-next-80b-a3b", "bloom-176b", "gpt-22b", "olmoe-1b-7b", "llama4-scout",
                                  "nemotron-3-nano-30b-a3b", "glm-4.5-air", "minimax-m2.5"}) {
    INFO(model);
    check_round_trip(loaded(R"({"model": ")" + model + R"(", "cluster": "h100:8"})"));
  }
}

TEST_CASE("changed arguments win over the comment of a Megatron export") {
  const Scenario scenario = from_library("mixtral-8x22b-h100-128");
  std::string text = megatron::to_text(megatron::export_megatron(scenario, source_dir));
  const auto replace = [&](const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  replace("--num-layers 56", "--num-layers 28");
  replace("--tensor-model-parallel-size 2", "--tensor-model-parallel-size 4");
  replace("--num-virtual-stages-per-pipeline-rank 7", "--num-layers-per-virtual-pipeline-stage 1");
  replace("--pipeline-model-parallel-size 8", "--pipeline-model-parallel-size 4");
  const MegatronImport result = imported(text);
  CHECK(result.warnings.size() == 1);
  const Scenario again = loaded(result.scenario.dump());
  CHECK(again.spec.model.layer_count() == 28);
  CHECK(again.spec.degrees.tp == 4);
  CHECK(again.spec.degrees.vpp == 7);
  CHECK(again.spec.software.name == scenario.spec.software.name);
}

}  // namespace stepcast::scenarios
