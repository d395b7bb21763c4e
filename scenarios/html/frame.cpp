#include "scenarios/html/frame.h"

#include <algorithm>
#include <cmath>

namespace stepcast::scenarios::html {
namespace {

constexpr double top = 14, bottom = 46;
constexpr double log_room = 1.08;  // beyond the outermost values

Scale scale_of(const Axis& axis, Extent e, double from, double to) {
  Scale s;
  s.logarithmic = axis.logarithmic && e.low > 0;
  if (e.empty) e = {0, 1, false};
  s.low = s.logarithmic ? e.low / log_room : (axis.from_zero ? std::min(0.0, e.low) : e.low);
  s.high = s.logarithmic ? e.high * log_room : e.high;
  if (!(s.high > s.low)) s.high = s.low + (s.low == 0 ? 1 : std::abs(s.low));
  s.from = from;
  s.to = to;
  return s;
}

std::vector<double> ticks_of(const Axis& axis, const Scale& s, int count) {
  if (!axis.ticks.empty()) return axis.ticks;
  return s.logarithmic ? log_ticks(s.low, s.high) : nice_ticks(s.low, s.high, count);
}

}  // namespace

void Extent::take(double value) {
  if (!std::isfinite(value)) return;
  low = empty ? value : std::min(low, value);
  high = empty ? value : std::max(high, value);
  empty = false;
}

Frame draw_frame(Svg& svg, const Axis& x_axis, const Axis& y_axis, Extent x, Extent y, double left, double right) {
  Frame frame;
  frame.x = scale_of(x_axis, x, left, svg.width() - right);
  frame.y = scale_of(y_axis, y, svg.height() - bottom, top);
  const double base = frame.y.from;
  for (const double tick : ticks_of(y_axis, frame.y, 5)) {
    svg.line(frame.x.from, frame.y(tick), frame.x.to, frame.y(tick), "grid");
    svg.text(left - 8, frame.y(tick) + 4, shown(tick, y_axis.unit), "tick end");
  }
  double last = -1e9;
  for (const double tick : ticks_of(x_axis, frame.x, 8)) {
    const double at = frame.x(tick);
    svg.line(at, base, at, base + 4, "axis");
    if (at - last < 44) continue;  // no room for its label
    svg.text(at, base + 17, shown(tick, x_axis.unit), "tick middle");
    last = at;
  }
  svg.line(frame.x.from, base, frame.x.to, base, "axis");
  svg.line(frame.x.from, top, frame.x.from, base, "axis");
  svg.text((frame.x.from + frame.x.to) / 2, base + 36, x_axis.title, "tick middle");
  svg.raw(text_element(
      "text",
      {{"transform", "translate(14 " + coordinate((top + base) / 2) + ") rotate(-90)"}, {"class", "tick middle"}},
      y_axis.title));
  return frame;
}

}  // namespace stepcast::scenarios::html
