#include "scenarios/html/lines.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/html/frame.h"

namespace stepcast::scenarios::html {
namespace {

constexpr double head_room = 1.06;  // above the highest value of a linear axis
constexpr double dot = 3.6;

}  // namespace

Svg draw(const Lines& lines) {
  Svg svg(chart_width, lines.height);
  Extent x, y;
  for (const Curve& c : lines.curves) {
    for (const Point& p : c.points) {
      x.take(p.x);
      y.take(p.y);
    }
  }
  if (!lines.y.logarithmic) y.high *= head_room;
  const Frame frame = draw_frame(svg, lines.x, lines.y, x, y);
  for (const PlaceMark& mark : lines.marks) {
    const double at = frame.x(mark.x);
    svg.line(at, frame.y.to, at, frame.y.from, "break");
  }
  for (const Curve& c : lines.curves) {
    std::vector<Point> places;
    for (const Point& p : c.points) places.push_back({frame.x(p.x), frame.y(p.y)});
    if (c.line) svg.path(line_path(places), "curve " + c.style + (c.dashed ? " dashed" : ""));
    if (c.dashed) continue;
    for (std::size_t i = 0; i < places.size(); ++i) {
      svg.circle(places[i].x, places[i].y, dot, "dot " + c.style, i < c.tips.size() ? c.tips[i] : std::string{});
    }
  }
  double last = -1e9, level = 0;
  for (const PlaceMark& mark : lines.marks) {
    const double at = std::clamp(frame.x(mark.x), frame.x.from + 8, frame.x.to - 8);
    level = at - last < 20 ? level + 1 : 0;
    last = at;
    const double y_at = frame.y.to + 8 + 19 * level;
    svg.circle(at, y_at, 8, "break-dot");
    svg.text(at, y_at + 4, mark.number, "break-number middle");
  }
  return svg;
}

Svg draw(const Areas& areas) {
  Svg svg(chart_width, areas.height);
  Extent x, y;
  std::vector<double> below(areas.at.size(), 0);
  for (const double at : areas.at) x.take(at);
  y.take(0);
  if (areas.limit > 0) y.take(areas.limit);
  for (const Areas::Area& area : areas.areas) {
    for (std::size_t i = 0; i < below.size(); ++i) y.take(below[i] += area.values[i]);
  }
  y.high *= head_room;
  const Frame frame = draw_frame(svg, areas.x, areas.y, x, y);
  std::fill(below.begin(), below.end(), 0);
  for (const Areas::Area& area : areas.areas) {
    std::vector<Point> outline, base;
    for (std::size_t i = 0; i < below.size(); ++i) {
      base.push_back({frame.x(areas.at[i]), frame.y(below[i])});
      outline.push_back({base.back().x, frame.y(below[i] += area.values[i])});
    }
    outline.insert(outline.end(), base.rbegin(), base.rend());
    if (!outline.empty()) svg.path(line_path(outline) + "Z", "area " + area.style, area.words);
  }
  if (areas.limit > 0) {
    svg.line(frame.x.from, frame.y(areas.limit), frame.x.to, frame.y(areas.limit), "limit");
    svg.text(frame.x.to - 4, frame.y(areas.limit) - 5, areas.limit_words, "value end");
  }
  return svg;
}

Svg draw(const Scatter& scatter) {
  Svg svg(chart_width, scatter.height);
  Extent both;
  for (const Scatter::Dots& dots : scatter.dots) {
    for (const Point& p : dots.points) {
      both.take(p.x);
      both.take(p.y);
    }
  }
  const Frame frame = draw_frame(svg, scatter.x, scatter.y, both, both);
  const double low = frame.x.low, high = frame.x.high, wide = 1 + scatter.band, narrow = 1 - scatter.band;
  svg.path(line_path({{frame.x(low), frame.y(low)},
                      {frame.x(low), frame.y(low * wide)},
                      {frame.x(high / wide), frame.y(high)},
                      {frame.x(high), frame.y(high)},
                      {frame.x(high), frame.y(high * narrow)},
                      {frame.x(low / narrow), frame.y(low)}}) +
               "Z",
           "band");
  svg.line(frame.x(low), frame.y(low), frame.x(high), frame.y(high), "axis");
  for (const Scatter::Dots& dots : scatter.dots) {
    // A stroke of no length with round ends is a dot: a tenth of the text that a circle takes.
    std::string d;
    for (const Point& p : dots.points) d += fmt::format("M{} {}Z", coordinate(frame.x(p.x)), coordinate(frame.y(p.y)));
    svg.path(d, "dots " + dots.style);
  }
  return svg;
}

}  // namespace stepcast::scenarios::html
