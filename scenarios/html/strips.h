// Lines of marks along one time axis: a pipeline's timeline, the way of the critical path.
//
// The plot is an inner view box of its own, which page.js narrows and moves to
// zoom; it tells what lies under the pointer from the chart's rows, whose first
// three columns must be the line's label, begin and end.
#pragma once

#include <string>
#include <vector>

#include "scenarios/html/svg.h"

namespace stepcast::scenarios::html {

struct StripMark {
  std::size_t line = 0;
  double from = 0, to = 0;   // seconds
  double low = 0, high = 1;  // share of the line's height, from its bottom
  std::string style;
};

struct Strips {
  struct Line {
    std::string label;  // without "|"
    bool thin = false;
  };
  std::vector<Line> lines;
  std::vector<StripMark> marks;
  double duration = 0;  // of the axis, from 0
};

[[nodiscard]] Attributes behaviour(const Strips& strips);
[[nodiscard]] Svg draw(const Strips& strips);

}  // namespace stepcast::scenarios::html
