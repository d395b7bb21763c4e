// A scenario as arguments of Megatron-LM's pretraining script.
//
// What no argument says (hardware, software profile, noise, host costs, parts
// of a model that Megatron does not have) travels beside the list as JSON, so
// that importing the text gives back the same resolved scenario. Paths, data,
// learning rate and all else that does not change a step's time is left out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/megatron/arguments.h"
#include "scenarios/scenario.h"
#include "sim/base/error.h"

namespace stepcast::scenarios::megatron {

// A value of the scenario that changes the run on Megatron's side and has no argument.
struct NotExpressed {
  std::string pointer;  // "/parallelism/schedule"
  std::string why;      // "dualpipe: Megatron-LM does not have this schedule"
};

struct MegatronExport {
  ArgumentList arguments;
  std::vector<NotExpressed> not_expressed;
  nlohmann::ordered_json carried;  // scenario keys beside the arguments
  std::string title;               // "mixtral-8x22b-h100-128: mixtral-8x22b on 128 h100"
};

// `catalog_root` shortens a catalogue model to its name; empty: the whole description is carried.
[[nodiscard]] MegatronExport export_megatron(const Scenario& scenario, const std::filesystem::path& catalog_root);

// A shell array to be sourced, MEGATRON_ARGS=( ... ), one argument a line, behind comments with what it leaves out.
[[nodiscard]] std::string to_text(const MegatronExport& exported);

inline constexpr const char* megatron_export_schema = "stepcast.export.megatron/1";
[[nodiscard]] nlohmann::ordered_json to_json(const MegatronExport& exported);
[[nodiscard]] std::string to_csv(const MegatronExport& exported);

// A comment that starts so holds the carried values on the same line.
inline constexpr const char* carried_mark = "# stepcast: ";

}  // namespace stepcast::scenarios::megatron
