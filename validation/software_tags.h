// What a row's software_tags and permute_fusion change of its software profile.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "validation/runs.h"

namespace stepcast::validation {

struct TaggedSoftware {
  nlohmann::ordered_json software = nlohmann::ordered_json::object();  // keys of the profile that a tag sets
  bool host_binding = false;
  bool permute_fusion_open = false;  // the row does not say, and its framework leaves it to a flag
  std::vector<std::string> assumed;  // what a tag leaves open
  std::string fault;                 // why a tag cannot be followed; empty: none
};

// Tags: permute_fusion (which has a column too), router_fusion, tuned_dispatcher, host_binding, fused_quantise_swizzle
// and graph_shared_expert; others (quantise_in_norm) change nothing here.
[[nodiscard]] TaggedSoftware tagged_software(const MeasuredRun& run, const std::filesystem::path& catalog_root);

}  // namespace stepcast::validation
