// Where each value of a resolved scenario comes from, for `explain`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenarios/draft.h"

namespace stepcast::scenarios {

// Pairs of pointer and origin for the members of every block: "scenario file", "--set parallelism.ep=32",
// "calibration FILE", "software NAME" or "default". The model's description is one entry.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> origins_of(const Draft& draft,
                                                                          const nlohmann::ordered_json& resolved);

}  // namespace stepcast::scenarios
