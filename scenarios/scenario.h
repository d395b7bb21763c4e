// A scenario: the JSON that a user writes, read, checked and resolved.
//
// Reading reports every fault of the file at once, with line and column.
// Resolving turns names into things (catalogue model, cluster preset, software
// profile) and lists every default that changes an answer in `assumptions`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "parallelism/step_spec.h"
#include "sim/base/error.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios {

// What the loader is asked for: a file, or a model and a cluster, and overrides in order.
struct ScenarioRequest {
  std::filesystem::path file;          // a file, or the name of a library scenario; empty: none
  std::string text, text_name;         // instead of a file: its JSON, and the name for errors
  std::string model, cluster;          // without a file
  std::vector<std::string> sets;       // "parallelism.ep=32"
  std::filesystem::path catalog_root;  // folder that holds models/, topology/, parallelism/, scenarios/
  bool check_layout = true;            // off for a layout search, which replaces the layout
};

struct Scenario {
  std::string name;
  parallelism::StepSpec spec;
  nlohmann::ordered_json resolved;  // complete: running it again gives the same result
  std::vector<std::string> assumptions;
  std::vector<std::string> warnings;
  // Origin of each resolved key, for `explain`: "/parallelism/pp" -> "scenario file", "software megatron-core-2025",
  // "default".
  std::vector<std::pair<std::string, std::string>> origins;
};

// Fails with every fault at once, each at file:line:column or at the flag that brought it.
[[nodiscard]] Result<Scenario> load_scenario(const ScenarioRequest& request);

// Scenarios of the library: scenarios/library/*.json.
struct LibraryEntry {
  std::string name;
  std::string summary;
};
[[nodiscard]] Result<std::vector<LibraryEntry>> list_library(const std::filesystem::path& catalog_root);

}  // namespace stepcast::scenarios
