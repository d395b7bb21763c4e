#include "scenarios/html/strips.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "scenarios/html/quantity.h"

namespace stepcast::scenarios::html {
namespace {

constexpr double left = 152, right = 12, top = 6, axis_height = 40;
constexpr double thick_line = 40, thin_line = 16, space = 6;
constexpr double inner_width = 10000;  // of the plot's own view box
constexpr int ticks = 5;

double height_of(const Strips::Line& line) { return line.thin ? thin_line : thick_line; }

// Of each line's top, and of what follows the last.
std::vector<double> tops_of(const Strips& strips) {
  std::vector<double> tops = {0};
  for (const Strips::Line& line : strips.lines) tops.push_back(tops.back() + height_of(line) + space);
  return tops;
}

}  // namespace

Attributes behaviour(const Strips& strips) {
  std::string tops;
  for (const double y : tops_of(strips)) tops += (tops.empty() ? "" : " ") + coordinate(top + y);
  std::string names;
  for (const Strips::Line& line : strips.lines) names += (names.empty() ? "" : "|") + line.label;
  return {{"data-hover", "strips"},
          {"data-duration", fmt::format("{}", strips.duration)},
          {"data-left", coordinate(left)},
          {"data-right", coordinate(chart_width - right)},
          {"data-tops", tops},
          {"data-names", names}};
}

Svg draw(const Strips& strips) {
  const std::vector<double> tops = tops_of(strips);
  const double inner_height = tops.back();
  Svg svg(chart_width, top + inner_height + axis_height);
  const double width = chart_width - left - right;
  std::map<std::string, std::string> paths;  // by style
  const Scale x{0, strips.duration, 0, inner_width};
  for (const StripMark& mark : strips.marks) {
    const double height = height_of(strips.lines[mark.line]);
    const double from = x(mark.from);
    paths[mark.style] +=
        rect_path(from, tops[mark.line] + height * (1 - mark.high), x(mark.to) - from, height * (mark.high - mark.low));
  }
  for (std::size_t l = 0; l < strips.lines.size(); ++l) {
    const double y = top + tops[l] + height_of(strips.lines[l]) / 2 + 4;
    svg.text(left - 8, y, shortened(strips.lines[l].label, 19), strips.lines[l].thin ? "tick end" : "label end");
    svg.rect(left, top + tops[l], width, height_of(strips.lines[l]), "lane");
  }
  std::string plot;
  for (const auto& [style, d] : paths) plot += element("path", {{"d", d}, {"class", style}}, {});
  svg.raw(element("svg",
                  {{"class", "plot"},
                   {"x", coordinate(left)},
                   {"y", coordinate(top)},
                   {"width", coordinate(width)},
                   {"height", coordinate(inner_height)},
                   {"viewBox", fmt::format("0 0 {} {}", coordinate(inner_width), coordinate(inner_height))},
                   {"preserveAspectRatio", "none"}},
                  plot));
  const double base = top + inner_height;
  svg.line(left, base, left + width, base, "axis");
  for (int i = 0; i <= ticks; ++i) {
    const double share = static_cast<double>(i) / ticks;
    const double at = left + share * width;
    svg.line(at, base, at, base + 4, "axis");
    svg.text(at, base + 17, shown(share * strips.duration, Unit::seconds),
             i == ticks ? "tick end time"
             : i == 0   ? "tick time"
                        : "tick middle time");
  }
  svg.text(left + width / 2, base + 34, "time since the step's begin", "tick middle");
  return svg;
}

}  // namespace stepcast::scenarios::html
