// Curves over a linear or logarithmic axis, with points, places marked by numbers, and dashed references.
#pragma once

#include <string>
#include <vector>

#include "scenarios/html/quantity.h"
#include "scenarios/html/svg.h"

namespace stepcast::scenarios::html {

struct Curve {
  std::vector<Point> points;
  std::string style;              // "s1" to "s6": stroke of the curve and fill of its points
  bool dashed = false;            // a reference: without points
  std::vector<std::string> tips;  // by point; may be shorter
  bool line = true;               // false: points alone
};

// A vertical line with a number in a circle: "1", explained below the chart.
struct PlaceMark {
  double x = 0;
  std::string number;
};

struct Axis {
  std::string title;
  Unit unit = Unit::plain;
  bool logarithmic = false;
  bool from_zero = true;      // linear only
  std::vector<double> ticks;  // empty: chosen
};

struct Lines {
  std::vector<Curve> curves;
  std::vector<PlaceMark> marks;
  Axis x, y;
  double height = 300;
};
[[nodiscard]] Svg draw(const Lines& lines);

// Stacked areas over x, the first at the bottom. Each area has as many values as there are x.
struct Areas {
  struct Area {
    std::vector<double> values;
    std::string style;
    std::string words;
  };
  std::vector<double> at;
  std::vector<Area> areas;
  double limit = 0;  // a line across, such as the memory that there is; 0: none
  std::string limit_words;
  Axis x, y;
  double height = 300;
};
[[nodiscard]] Svg draw(const Areas& areas);

// Dots on equal logarithmic axes with the diagonal and the band around it in which both values differ by `band` at
// most.
struct Scatter {
  struct Dots {
    std::vector<Point> points;
    std::string style;
  };
  std::vector<Dots> dots;
  double band = 0.2;
  Axis x, y;
  double height = 520;
};
[[nodiscard]] Svg draw(const Scatter& scatter);

}  // namespace stepcast::scenarios::html
