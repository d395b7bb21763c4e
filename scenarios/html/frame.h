// The axes of a drawing: ticks, grid and titles around a plot area.
#pragma once

#include "scenarios/html/lines.h"
#include "scenarios/html/svg.h"

namespace stepcast::scenarios::html {

struct Frame {
  Scale x, y;  // y.from is the bottom
};

struct Extent {
  double low = 0, high = 0;
  bool empty = true;
  void take(double value);
};

// Draws grid, ticks and titles; `x` and `y` hold all values that will be drawn.
[[nodiscard]] Frame draw_frame(Svg& svg, const Axis& x_axis, const Axis& y_axis, Extent x, Extent y, double left = 84,
                               double right = 20);

}  // namespace stepcast::scenarios::html
