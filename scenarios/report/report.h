// A forecast as text: JSON with the fields of design section 2, a table of 100 columns, CSV.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "scenarios/forecast.h"

namespace stepcast::scenarios {

inline constexpr const char* forecast_schema = "stepcast.forecast/1";

[[nodiscard]] nlohmann::ordered_json to_json(const Forecast& forecast);
[[nodiscard]] std::string to_table(const Forecast& forecast, bool colour);
[[nodiscard]] std::string to_csv(const Forecast& forecast);

}  // namespace stepcast::scenarios
