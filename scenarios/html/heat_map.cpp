#include "scenarios/html/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/html/frame.h"

namespace stepcast::scenarios::html {
namespace {

constexpr std::size_t shades = 8;
constexpr double left = 84, right = 8, title_height = 24, gap = 12, axis_height = 22;
constexpr double legend_step = 16;

double cell_height(const HeatMap& map) {
  return std::clamp(220.0 / static_cast<double>(std::max<std::size_t>(1, map.lines.size())), 3.0, 22.0);
}

double grid_height(const HeatMap& map) { return cell_height(map) * static_cast<double>(map.lines.size()); }

double layer_top(const HeatMap& map, std::size_t layer) {
  return title_height + static_cast<double>(layer) * (title_height + grid_height(map) + gap);
}

double cell_width(const HeatMap& map) {
  return (chart_width - left - right) / static_cast<double>(std::max<std::size_t>(1, map.columns));
}

std::size_t shade_of(double value, const Extent& e) {
  if (!(e.high > e.low)) return 0;
  return std::min(shades - 1, static_cast<std::size_t>((value - e.low) / (e.high - e.low) * shades));
}

void draw_legend(Svg& svg, double y, const Extent& e, Unit unit) {
  const double from = chart_width - right - 78 - legend_step * shades;
  svg.text(from - 6, y, shown(e.low, unit), "tick end");
  if (!(e.high > e.low)) {
    svg.rect(from, y - 10, legend_step, 11, "h0");
    return;
  }
  for (std::size_t s = 0; s < shades; ++s) {
    svg.rect(from + legend_step * static_cast<double>(s), y - 10, legend_step, 11, fmt::format("h{}", s));
  }
  svg.text(from + legend_step * shades + 6, y, shown(e.high, unit), "tick");
}

void draw_layer(Svg& svg, const HeatMap& map, const HeatMap::Layer& layer, double y) {
  Extent e;
  for (const double value : layer.values) e.take(value);
  svg.text(left, y - 8, layer.title, "label strong");
  draw_legend(svg, y - 8, e, layer.unit);
  const double width = cell_width(map), height = cell_height(map);
  const double space = std::min(width, height) > 6 ? 1 : 0;
  std::array<std::string, shades> cells;
  for (std::size_t i = 0; i < layer.values.size(); ++i) {
    if (!std::isfinite(layer.values[i])) continue;
    const auto column = static_cast<double>(i % map.columns), line = static_cast<double>(i / map.columns);
    cells[shade_of(layer.values[i], e)] +=
        rect_path(left + column * width, y + line * height, width - space, height - space);
  }
  for (std::size_t s = 0; s < shades; ++s) svg.path(cells[s], fmt::format("h{}", s));
  const auto every = static_cast<std::size_t>(std::ceil(12.0 / height));
  for (std::size_t l = 0; l < map.lines.size(); l += every) {
    svg.text(left - 6, y + height * (static_cast<double>(l) + 0.5) + 4, shortened(map.lines[l], 12), "tick end");
  }
}

}  // namespace

Attributes behaviour(const HeatMap& map) {
  std::string tops;
  for (std::size_t l = 0; l < map.layers.size(); ++l) {
    tops += (tops.empty() ? "" : " ") + coordinate(layer_top(map, l));
  }
  return {{"data-hover", "cells"},
          {"data-columns", std::to_string(map.columns)},
          {"data-lines", std::to_string(map.lines.size())},
          {"data-left", coordinate(left)},
          {"data-cell", coordinate(cell_width(map)) + " " + coordinate(cell_height(map))},
          {"data-tops", tops}};
}

Svg draw(const HeatMap& map) {
  Svg svg(chart_width, layer_top(map, map.layers.size()) - title_height + axis_height);
  for (std::size_t l = 0; l < map.layers.size(); ++l) draw_layer(svg, map, map.layers[l], layer_top(map, l));
  svg.text((left + chart_width - right) / 2, svg.height() - 6, map.axis, "tick middle");
  return svg;
}

}  // namespace stepcast::scenarios::html
