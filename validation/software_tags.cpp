#include "validation/software_tags.h"

#include "parallelism/software.h"

namespace stepcast::validation {
namespace {

// SMs of DeepEP where a source says that it was tuned and not how; Megatron-Core's own default is 20.
constexpr int tuned_sms = 32;

}  // namespace

TaggedSoftware tagged_software(const MeasuredRun& run, const std::filesystem::path& catalog_root) {
  TaggedSoftware tagged;
  const std::string tags = run.text("software_tags");
  const auto has = [&](const char* tag) { return tags.find(tag) != std::string::npos; };
  tagged.host_binding = has("host_binding");
  if (has("graph_shared_expert")) tagged.software["graphs_shared_expert"] = true;
  if (has("fused_quantise_swizzle")) tagged.software["fused_swizzle"] = true;
  if (has("tuned_dispatcher")) tagged.software["deepep_sms"] = tuned_sms;
  if (has("router_fusion")) {
    const auto fused =
        parallelism::load_software(catalog_root, "megatron-core-2026");  // first with --moe-router-fusion
    if (fused.ok()) {
      tagged.software["router_passes"] = fused->router_passes;
    } else {
      tagged.fault = "router_fusion: profile megatron-core-2026, which has it, is not in the catalogue";
    }
  }
  if (const std::string kind = run.text("kind"); kind != "moe" && kind != "MoE") return tagged;
  // Recipes of NeMo and Megatron-Bridge turn it on.
  const bool told = run.has("permute_fusion") || has("permute_fusion");
  tagged.permute_fusion_open = !told && run.text("software").starts_with("megatron-core-202");
  if (told || tagged.permute_fusion_open) {
    const bool off = run.has("permute_fusion") && run.text("permute_fusion") != "on";
    tagged.software["permute_fusion"] = told && !off;
  }
  return tagged;
}

}  // namespace stepcast::validation
