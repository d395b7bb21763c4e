// Horizontal bars, one a line: stacked parts, floating parts (a waterfall), or parts left and right of zero.
#pragma once

#include <string>
#include <vector>

#include "scenarios/html/quantity.h"
#include "scenarios/html/svg.h"

namespace stepcast::scenarios::html {

struct BarPart {
  double from = 0, to = 0;  // on the value axis; to may lie left of from
  std::string style;
  std::string tip;
};

struct BarLine {
  std::string label;
  std::vector<BarPart> parts;
  std::string note;     // at the bar's end: "3.54 s"
  bool strong = false;  // a total
};

struct Bars {
  std::vector<BarLine> lines;
  Unit unit = Unit::seconds;
  std::string axis;        // what the axis measures
  bool connected = false;  // a thin line from the end of each bar to the next: a waterfall
  double label_width = 150;
};

[[nodiscard]] Svg draw(const Bars& bars);

}  // namespace stepcast::scenarios::html
