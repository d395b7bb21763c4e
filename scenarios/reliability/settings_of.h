// The reliability block of a resolved scenario, as settings.
#pragma once

#include <nlohmann/json.hpp>

#include "scenarios/reliability/settings.h"

namespace stepcast::scenarios {

// `resolved`: of a loaded scenario, so that every value was checked.
[[nodiscard]] Reliability reliability_of(const nlohmann::ordered_json& resolved);

}  // namespace stepcast::scenarios
