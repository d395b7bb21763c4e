// The report of each command as one HTML file: --report FILE.html.
#pragma once

#include <string>

#include "scenarios/compare.h"
#include "scenarios/forecast.h"
#include "scenarios/headroom.h"
#include "scenarios/plan/plan.h"
#include "scenarios/scale.h"
#include "scenarios/step_detail.h"

namespace stepcast::scenarios::html {

// `headroom`: a section of its own, and a member of the JSON; null: without.
[[nodiscard]] std::string simulate_page(const Forecast& forecast, const StepDetail& detail,
                                        const Headroom* headroom = nullptr);
// The same of a forecast alone: its step is evaluated again for the detail, and once more with half of it as long as
// the page would not stay below most_page_bytes. Fails where step_detail does.
[[nodiscard]] Result<std::string> simulate_page(const Forecast& forecast, const Headroom* headroom);
[[nodiscard]] std::string scale_page(const ScaleCurve& curve, std::string_view name);
[[nodiscard]] std::string compare_page(const Comparison& comparison);
[[nodiscard]] std::string headroom_page(const Headroom& headroom);
[[nodiscard]] std::string plan_page(const plan::PlanResult& result);

}  // namespace stepcast::scenarios::html
