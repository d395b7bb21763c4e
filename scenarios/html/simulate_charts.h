// The charts and tables of a forecast's page, one function a section.
#pragma once

#include "scenarios/forecast.h"
#include "scenarios/html/page.h"
#include "scenarios/step_detail.h"

namespace stepcast::scenarios::html {

void add_breakdown(Page& page, const Forecast& forecast);                                // waterfall, table
void add_timeline(Page& page, const StepDetail& detail);                                 // ranks over time
void add_critical_path(Page& page, const Forecast& forecast, const StepDetail& detail);  // through the stages
void add_ranks(Page& page, const Forecast& forecast, const StepDetail& detail);          // heat map
void add_communication(Page& page, const Forecast& forecast);
void add_memory(Page& page, const Forecast& forecast, const StepDetail& detail);
void add_experts(Page& page, const Forecast& forecast, const StepDetail& detail);

}  // namespace stepcast::scenarios::html
