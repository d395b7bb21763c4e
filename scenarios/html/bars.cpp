#include "scenarios/html/bars.h"

#include <algorithm>

namespace stepcast::scenarios::html {
namespace {

constexpr double line_height = 22, bar_height = 15, axis_height = 44, top = 6;
constexpr double least_note = 60;  // room beyond the longest bar, at either end
constexpr double character = 7.3;  // mean width of a character of a label in a wide font

double note_width(const Bars& bars) {
  std::size_t longest = 0;
  for (const BarLine& line : bars.lines) longest = std::max(longest, line.note.size());
  return std::max(least_note, 12 + character * static_cast<double>(longest));
}

struct Range {
  double low = 0, high = 0;
};

Range range_of(const Bars& bars) {
  Range r;
  for (const BarLine& line : bars.lines) {
    for (const BarPart& p : line.parts) {
      r.low = std::min({r.low, p.from, p.to});
      r.high = std::max({r.high, p.from, p.to});
    }
  }
  if (!(r.high > r.low)) r.high = r.low + 1;
  return r;
}

void draw_axis(Svg& svg, const Scale& x, const Bars& bars, double bottom) {
  for (const double tick : nice_ticks(x.low, x.high, 5)) {
    svg.line(x(tick), top, x(tick), bottom, tick == 0 ? "axis" : "grid");
    svg.text(x(tick), bottom + 15, shown(tick, bars.unit), "tick middle");
  }
  svg.line(x.from, bottom, x.to, bottom, "axis");
  svg.text((x.from + x.to) / 2, bottom + 34, bars.axis, "tick middle");
}

}  // namespace

Svg draw(const Bars& bars) {
  const double bottom = top + line_height * static_cast<double>(bars.lines.size());
  Svg svg(chart_width, bottom + axis_height);
  const Range range = range_of(bars);
  const double notes = note_width(bars);
  const double left = bars.label_width + (range.low < 0 ? notes : 8);
  const Scale x{range.low, range.high, left, chart_width - (range.high > 0 ? notes : 8)};
  draw_axis(svg, x, bars, bottom);
  const auto longest = static_cast<std::size_t>(bars.label_width / character);
  double y = top;
  double before = 0;
  for (const BarLine& line : bars.lines) {
    svg.text(bars.label_width - 4, y + 15, shortened(line.label, longest),
             line.strong ? "label end strong" : "label end");
    double end = 0, low = 0;
    for (const BarPart& p : line.parts) {
      const double a = x(std::min(p.from, p.to)), b = x(std::max(p.from, p.to));
      svg.rect(a, y + 3, std::max(b - a, p.from == p.to ? 0.0 : 0.6), bar_height, p.style, p.tip);
      end = std::max({end, p.from, p.to});
      low = std::min({low, p.from, p.to});
    }
    if (bars.connected && y > top) svg.line(x(before), y - 4, x(before), y + 3, "connector");
    if (!line.parts.empty()) before = line.parts.back().to;
    const bool leftwards = low < 0 && end <= 0;
    svg.text(leftwards ? x(low) - 5 : x(end) + 5, y + 15, line.note,
             std::string("value") + (leftwards ? " end" : "") + (line.strong ? " strong" : ""));
    y += line_height;
  }
  return svg;
}

}  // namespace stepcast::scenarios::html
