// Arguments of a Megatron-LM run as a scenario.
//
// Reads a line of arguments, a launch script or a YAML file with MODEL_ARGS,
// and says of every argument that it did not use why, with its line. What
// Megatron-LM defaults is written out in the scenario; hardware and software
// generation are not among its arguments and come from the caller or from the
// comment that the export writes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/megatron/arguments.h"
#include "sim/base/error.h"

namespace stepcast::scenarios::megatron {

struct ImportOptions {
  std::string cluster;                         // "h100:64", or "h100" where the launcher's arguments count the devices
  std::string model;                           // catalogue name to prefer where several have the arguments' shape
  std::map<std::string, std::string> defines;  // variables of the script
  std::filesystem::path catalog_root;
};

struct UnusedArgument {
  Argument argument;
  bool known = false;  // known not to change what stepcast computes
  std::string why;
};

struct MegatronImport {
  nlohmann::ordered_json scenario;
  std::vector<UnusedArgument> unused;
  std::vector<std::string> assumptions, warnings;
  // Which argument gave a value: "/parallelism/tp" -> "run.sh:12 --tensor-model-parallel-size".
  std::vector<std::pair<std::string, std::string>> origins;
};

// The scenario is not yet checked as a whole: load_scenario does that.
[[nodiscard]] Result<MegatronImport> import_megatron(std::string_view text, const std::string& file,
                                                     const ImportOptions& options);

// One line an unused argument, assumption and warning.
[[nodiscard]] std::vector<std::string> notes(const MegatronImport& imported);

inline constexpr const char* megatron_import_schema = "stepcast.import.megatron/1";
[[nodiscard]] nlohmann::ordered_json to_json(const MegatronImport& imported);
[[nodiscard]] std::string to_csv(const MegatronImport& imported);  // the unused arguments

}  // namespace stepcast::scenarios::megatron
