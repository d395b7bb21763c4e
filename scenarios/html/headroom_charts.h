// The ideals of a scenario as a section of a page.
#pragma once

#include <string>

#include "scenarios/headroom.h"
#include "scenarios/html/page.h"

namespace stepcast::scenarios::html {

// `pointer`: of the headroom's JSON in the page's; empty: the page's own.
void add_headroom(Page& page, const Headroom& headroom, const std::string& pointer);

}  // namespace stepcast::scenarios::html
