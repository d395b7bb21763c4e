// Values on a grid as shades: one map, or several of the same grid below each other.
//
// A path a shade keeps thousands of cells small. page.js tells a cell's numbers
// from the chart's rows, which must be the cells in order, line by line.
#pragma once

#include <string>
#include <vector>

#include "scenarios/html/quantity.h"
#include "scenarios/html/svg.h"

namespace stepcast::scenarios::html {

struct HeatMap {
  struct Layer {
    std::string title;
    std::vector<double> values;  // line by line; NaN: no cell
    Unit unit = Unit::seconds;
  };
  std::vector<std::string> lines;  // labels
  std::size_t columns = 0;
  std::vector<Layer> layers;
  std::string axis;  // what the columns are
};

// Its grids, for page.js: set as Chart::behaviour.
[[nodiscard]] Attributes behaviour(const HeatMap& map);
[[nodiscard]] Svg draw(const HeatMap& map);

}  // namespace stepcast::scenarios::html
