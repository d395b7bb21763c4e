// stepcast calibrate --report: the fitted constants with their intervals, what the data cannot tell, and the forecasts.
#pragma once

#include <string>
#include <string_view>

#include "validation/calibrate/calibrate.h"

namespace stepcast::validation {

// `data`: what was fitted, in words.
[[nodiscard]] std::string calibrate_page(const Calibration& calibration, std::string_view data);

}  // namespace stepcast::validation
