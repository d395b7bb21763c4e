// The options by which commands name a scenario, and what they mean.
#pragma once

#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "cli/command.h"
#include "scenarios/scenario.h"
#include "sim/base/error.h"

namespace stepcast::cli {

inline constexpr const char* scenario_positional = "scenario";

// --model and --cluster.
void add_scenario_options(boost::program_options::options_description& options);

// A file, the name of a library scenario, or --model with --cluster; --set and --seed applied in order.
[[nodiscard]] Result<scenarios::ScenarioRequest> scenario_request(const Invocation& invocation);

// The same, loaded.
[[nodiscard]] Result<scenarios::Scenario> read_scenario(const Invocation& invocation);

// For commands whose positional words are not all scenarios: `named` holds the scenario, or nothing.
[[nodiscard]] Result<scenarios::ScenarioRequest> scenario_request(const Invocation& invocation,
                                                                  const std::vector<std::string>& named);
[[nodiscard]] Result<scenarios::Scenario> read_scenario(const Invocation& invocation,
                                                        const std::vector<std::string>& named);

}  // namespace stepcast::cli
