// Style and script of every page, from assets/ through cmake/StepcastEmbed.cmake.
#pragma once

#include <string_view>

namespace stepcast::scenarios::html {

extern const std::string_view page_css;
extern const std::string_view page_js;

}  // namespace stepcast::scenarios::html
