// stepcast validate --report: forecasts beside measurements as one HTML file.
#pragma once

#include <string>
#include <string_view>

#include "validation/validate.h"

namespace stepcast::validation {

// `file`: the name of the measured runs.
[[nodiscard]] std::string validate_page(const Validation& validation, std::string_view file);

}  // namespace stepcast::validation
