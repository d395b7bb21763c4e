// The timeline allocates in a layer's forward what the ledger says that a layer keeps, for every model of the
// catalogue.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

#include "models/activations.h"
#include "models/catalog.h"
#include "parallelism/lower.h"
#include "topology/cluster.h"

using namespace stepcast;
using namespace stepcast::parallelism;

namespace {

const std::filesystem::path root = STEPCAST_SOURCE_DIR;
constexpr double sequence = 1024;

// Bytes held after the forward body, with `rows` routed rows on the rank.
double held_after_forward(const StepSpec& spec, double rows) {
  const auto lowered = lower(spec);
  if (!lowered) {
    for (const Error& e : lowered.errors()) UNSCOPED_INFO(e.where << ": " << e.message);
  }
  REQUIRE(lowered.ok());
  const sim::Cohort& cohort = lowered->program.cohorts.front();
  double bytes = 0;
  for (const sim::Body& body : cohort.bodies) {
    if (!body.name.starts_with("forward chunk 0")) continue;
    for (const sim::Instruction& in : body.instructions) {
      for (const sim::MemoryEffect& m : cohort.works[in.work].memory) bytes += m.bytes + m.bytes_per_row * rows;
    }
    return bytes;
  }
  FAIL("no forward body");
  return 0;
}

void check_layer(StepSpec spec, models::Layer layer, models::ActivationOptions options) {
  const double tp = spec.degrees.tp;
  models::ActivationShare share;
  share.tokens = sequence;
  share.keys = sequence;
  share.tp = tp;
  share.sequence_parallel = spec.sequence_parallel;
  share.routed_rows = sequence / tp * spec.model.moe.top_k;
  share.full_recompute = spec.recompute.mode == RecomputeMode::full;
  share.recompute = spec.recompute.modules;
  spec.model.mtp_layers = 0;
  spec.model.layers.assign(1, layer);
  const double one = held_after_forward(spec, share.routed_rows);
  spec.model.layers.assign(2, layer);
  const double two = held_after_forward(spec, share.routed_rows);
  INFO(spec.model.name << " " << models::name(layer.attention) << " " << models::name(layer.ffn) << " tp " << tp);
  CHECK(two - one == Approx(models::kept_bytes(models::layer_activations(spec.model, layer, options), share).value));
}

StepSpec spec_of(const std::string& model, const std::string& software) {
  StepSpec spec;
  spec.model = models::load_model(root, model).value();
  spec.cluster = topology::load_cluster(root, "h100:2").value();
  spec.software = load_software(root, software).value();
  spec.workload.sequence_length = static_cast<int>(sequence);
  spec.workload.global_batch = 2;
  return spec;
}

std::vector<models::Layer> kinds_of(const models::Model& model) {
  std::vector<models::Layer> kinds;
  for (const models::Layer& layer : model.layers) {
    if (std::find(kinds.begin(), kinds.end(), layer) == kinds.end()) kinds.push_back(layer);
  }
  return kinds;
}

}  // namespace

TEST_CASE("a layer of every catalogue model keeps in the timeline what the ledger says") {
  const auto catalogue = models::list_models(root);
  REQUIRE(catalogue.ok());
  for (const auto& entry : *catalogue) {
    StepSpec spec = spec_of(entry.name, "generic");
    for (const models::Layer& layer : kinds_of(spec.model)) check_layer(spec, layer, {});
  }
}

TEST_CASE("tensor and sequence parallelism, 8-bit recipes and recomputation follow the ledger too") {
  for (const char* name : {"gpt-22b", "llama-3-8b", "deepseek-v3", "qwen3-30b-a3b", "qwen3-next-80b-a3b"}) {
    StepSpec spec = spec_of(name, "megatron-core-2025");
    models::ActivationOptions options;
    options.mla_values_stay = true;
    const auto kinds = kinds_of(spec.model);
    for (const bool sp : {false, true}) {
      if (spec.model.is_moe() && !sp) continue;  // experts with tensor parallelism run with sequence parallelism
      spec.degrees.tp = 2;
      spec.sequence_parallel = sp;
      for (const models::Layer& layer : kinds) check_layer(spec, layer, options);
    }
    for (const char* module : {"core_attn", "mla_up_proj", "layernorm", "moe_act", "mlp", "moe", "shared_experts"}) {
      spec.recompute = {RecomputeMode::selective, {module}, "uniform", 0};
      INFO(module);
      for (const models::Layer& layer : kinds) check_layer(spec, layer, options);
    }
    spec.recompute = {RecomputeMode::full, {}, "uniform", 0};
    for (const models::Layer& layer : kinds) check_layer(spec, layer, options);
    spec.recompute = {};
    spec.recipe.gemm = topology::Precision::fp8_blockwise;
    spec.recipe.activation_bytes = options.gemm_input_width = topology::element_bytes(spec.recipe.gemm);
    for (const models::Layer& layer : kinds) check_layer(spec, layer, options);
  }
}

TEST_CASE("unfused attention keeps the square, arXiv 2205.05198 equation 1, in the timeline") {
  StepSpec spec = spec_of("gpt-22b", "megatron-lm-2021");
  models::ActivationOptions options;
  options.fused_attention = false;
  check_layer(spec, spec.model.layers.front(), options);
}
