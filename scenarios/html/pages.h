// The report of each command as one HTML file: --report FILE.html.
#pragma once

#include <string>

#include "scenarios/compare.h"
#include "scenarios/forecast.h"
#include "scenarios/scale.h"
#include "scenarios/step_detail.h"

namespace stepcast::scenarios::html {

[[nodiscard]] std::string simulate_page(const Forecast& forecast, const StepDetail& detail);
[[nodiscard]] std::string scale_page(const ScaleCurve& curve, std::string_view name);
[[nodiscard]] std::string compare_page(const Comparison& comparison);

}  // namespace stepcast::scenarios::html
