#include "validation/software_tags.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parallelism/software.h"
#include "sim/base/text.h"

namespace stepcast::validation {
namespace {

// SMs of DeepEP where a source says that it was tuned and not how; Megatron-Core's own default is 20.
constexpr int tuned_sms = 32;

constexpr std::array<std::string_view, 7> known_tags = {
    "permute_fusion",         "router_fusion",       "tuned_dispatcher", "host_binding",
    "fused_quantise_swizzle", "graph_shared_expert", "quantise_in_norm"};

}  // namespace

TaggedSoftware tagged_software(const MeasuredRun& run, const std::filesystem::path& catalog_root) {
  TaggedSoftware tagged;
  const std::string text = run.text("software_tags");
  std::set<std::string> tags;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::string tag = text.substr(at, end - at);
    at = end + 1;
    if (tag.empty()) continue;
    if (std::find(known_tags.begin(), known_tags.end(), tag) == known_tags.end() && tagged.fault.empty()) {
      tagged.fault = fmt::format("software_tags has '{}', allowed: {}", tag.substr(0, 40), fmt::join(known_tags, ", "));
    }
    tags.insert(tag);
  }
  const auto has = [&](const char* tag) { return tags.contains(tag); };
  tagged.host_binding = has("host_binding");
  if (has("graph_shared_expert")) tagged.software["graphs_shared_expert"] = true;
  if (has("fused_quantise_swizzle")) tagged.software["fused_swizzle"] = true;
  if (has("tuned_dispatcher")) {
    tagged.software["deepep_sms"] = tuned_sms;
    tagged.assumed.push_back(fmt::format("tuned_dispatcher: how is not told, DeepEP is taken with {} SMs", tuned_sms));
  }
  if (has("router_fusion")) {
    const auto fused =
        parallelism::load_software(catalog_root, "megatron-core-2026");  // first with --moe-router-fusion
    if (fused.ok()) {
      tagged.software["router_passes"] = fused->router_passes;
    } else {
      tagged.fault = "router_fusion: profile megatron-core-2026, which has it, is not in the catalogue";
    }
  }
  if (lower_case(run.text("kind")) != "moe") return tagged;
  // Recipes of NeMo and Megatron-Bridge turn it on.
  const bool told = run.has("permute_fusion") || has("permute_fusion");
  const auto profile = parallelism::load_software(catalog_root, run.text("software"));
  const bool by_flag = profile.ok() && (profile->name == "megatron-core-2025" || profile->name == "megatron-core-2026");
  tagged.permute_fusion_open = !told && by_flag;
  if (told || tagged.permute_fusion_open) {
    const bool off = run.has("permute_fusion") && run.text("permute_fusion") != "on";
    tagged.software["permute_fusion"] = told && !off;
  }
  return tagged;
}

}  // namespace stepcast::validation
