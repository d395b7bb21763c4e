// Scenarios written to a temporary folder and loaded, for the tests of this folder.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace stepcast::scenarios {

inline const std::filesystem::path source_dir = STEPCAST_SOURCE_DIR;

// Loads `text` as a file called scenario.json.
Result<Scenario> load_text(const std::string& text, const std::vector<std::string>& sets = {});
Result<Scenario> load_pair(const std::string& model, const std::string& cluster,
                           const std::vector<std::string>& sets = {});

// All messages and positions, one a line, for a failed expectation.
std::string shown(const Errors& errors);
// Loads and requires success.
Scenario loaded(const std::string& text, const std::vector<std::string>& sets = {});

// Writes a file beside the scenarios of load_text.
std::filesystem::path write_file(const std::string& name, const std::string& content);

}  // namespace stepcast::scenarios
