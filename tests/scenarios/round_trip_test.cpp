// A resolved scenario, read again, gives the same specification.
#include <catch2/catch.hpp>

#include "models/catalog.h"
#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

// Every number of a specification that the resolved scenario does not show as it is.
std::string fingerprint(const parallelism::StepSpec& spec) {
  Json json;
  json["model"] = models::model_to_json(spec.model);
  for (const auto& fact : topology::describe(spec.cluster)) json["cluster"][fact.key] = fact.value;
  for (const auto& fact : parallelism::describe(spec.software)) json["software"][fact.key] = fact.value;
  json["documents"] = spec.workload.document_lengths;
  json["histogram"] = spec.routing.histogram;
  json["widths"] = {spec.recipe.gradient_bytes, spec.recipe.reduce_bytes, spec.recipe.parameter_bytes,
                    spec.recipe.optimizer_bytes, spec.recipe.activation_bytes};
  json["etp"] = spec.degrees.etp.value_or(-1);
  json["shard_group"] = spec.shard_group;
  json["node_limit"] = spec.node_limit;
  json["placement"] = topology::name(spec.cluster.placement);
  return json.dump(1);
}

void check_round_trip(const Scenario& first) {
  const Scenario second = loaded(first.resolved.dump());
  CHECK(first.resolved.dump(1) == second.resolved.dump(1));
  CHECK(fingerprint(first.spec) == fingerprint(second.spec));
}

}  // namespace

TEST_CASE("resolved scenarios round-trip") {
  write_file("lengths.txt", "100 200 300");
  const std::string base = R"({"model": "deepseek-v3", "cluster": "gb200:256"})";
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"parallelism.pp=4", "parallelism.ep=64", "parallelism.vpp=4", "workload.global_batch=2048"},
      {"precision=mxfp8", "precision.optimizer_state=bf16", "precision.parameters=fp8", "parallelism.ep=64"},
      {"precision.activations=fp8", "parallelism.ep=32", "parallelism.sharding=hsdp", "parallelism.shard_group=64"},
      {"precision=nvfp4", "recompute=full", "recompute.method=block", "recompute.layers=2"},
      {"software=deepseek-hai-llm-2024", "model.mtp_layers=0", "model.layers=16", "cluster.placement=scattered"},
      {"software.name=megatron-bridge-26.04", "software.norm_passes_forward=4", "runtime.cuda_graphs=partial"},
      {"workload.document_lengths=lengths.txt", "routing.skew=dirichlet:0.5", "routing.capacity_factor=1.25"},
      {"workload.document_lengths=lognormal:900,0.7", "noise.kernel_sigma=0.02", "seed=12345678901234"},
      {"cluster.devices=128", "cluster.nic_gb_per_s=100", "cluster.sustained_gemm=0.9", "reliability.restart_s=300"}};
  for (const auto& sets : variants) {
    INFO((sets.empty() ? std::string("no flags") : sets.front()));
    check_round_trip(loaded(base, sets));
  }
}

TEST_CASE("a histogram is carried in the resolved scenario") {
  Json shares = Json::array();
  for (int i = 0; i < 8; ++i) shares.push_back(1 + i);
  const Scenario s = loaded(R"({"model": "mixtral-8x7b", "cluster": "h100:8"})", {"routing.skew=" + shares.dump()});
  CHECK(s.spec.routing.kind == parallelism::SkewKind::histogram);
  CHECK(s.spec.routing.histogram.size() == 8);
  check_round_trip(s);
}

}  // namespace stepcast::scenarios
