#include "scenarios/html/svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace stepcast::scenarios::html {
namespace {

constexpr std::size_t most_log_ticks = 9;

}  // namespace

void Svg::mark(std::string_view name, const Attributes& attributes, std::string_view tip) {
  body_ += element(name, attributes, tip.empty() ? std::string{} : text_element("title", {}, tip));
}

void Svg::rect(double x, double y, double width, double height, std::string_view style, std::string_view tip) {
  mark("rect",
       {{"x", coordinate(x)},
        {"y", coordinate(y)},
        {"width", coordinate(std::max(0.0, width))},
        {"height", coordinate(std::max(0.0, height))},
        {"class", std::string(style)}},
       tip);
}

void Svg::circle(double x, double y, double radius, std::string_view style, std::string_view tip) {
  mark("circle",
       {{"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", coordinate(radius)}, {"class", std::string(style)}}, tip);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
  mark("line",
       {{"x1", coordinate(x1)},
        {"y1", coordinate(y1)},
        {"x2", coordinate(x2)},
        {"y2", coordinate(y2)},
        {"class", std::string(style)}},
       {});
}

void Svg::path(const std::string& d, std::string_view style, std::string_view tip) {
  if (!d.empty()) mark("path", {{"d", d}, {"class", std::string(style)}}, tip);
}

void Svg::text(double x, double y, std::string_view words, std::string_view style) {
  body_ += text_element("text", {{"x", coordinate(x)}, {"y", coordinate(y)}, {"class", std::string(style)}}, words);
}

std::string Svg::finish(const std::string& id, std::string_view title, std::string_view description,
                        const Attributes& more) const {
  Attributes attributes = {{"viewBox", fmt::format("0 0 {} {}", coordinate(width_), coordinate(height_))},
                           {"role", "img"},
                           {"aria-labelledby", fmt::format("{0}-title {0}-desc", id)}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return element("svg", attributes,
                 text_element("title", {{"id", id + "-title"}}, title) +
                     text_element("desc", {{"id", id + "-desc"}}, description) + body_);
}

std::string rect_path(double x, double y, double width, double height) {
  return fmt::format("M{} {}H{}V{}H{}Z", coordinate(x), coordinate(y), coordinate(x + width), coordinate(y + height),
                     coordinate(x));
}

std::string line_path(const std::vector<Point>& points) {
  std::string d;
  for (const Point& p : points) d += fmt::format("{}{} {}", d.empty() ? "M" : "L", coordinate(p.x), coordinate(p.y));
  return d;
}

double Scale::operator()(double value) const {
  const auto at = [&](double v) { return logarithmic ? std::log(std::max(v, 1e-300)) : v; };
  const double span = at(high) - at(low);
  if (!(span > 0)) return from;
  const double share = std::clamp((at(value) - at(low)) / span, 0.0, 1.0);
  return from + share * (to - from);
}

std::vector<double> nice_ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double rough = (high - low) / count;
  const double decade = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * decade;
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * decade >= rough * 0.999) {
      step = digit * decade;
      break;
    }
  }
  std::vector<double> ticks;
  for (double n = std::ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n += 1) ticks.push_back(n * step + 0.0);
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks, powers;
  for (double decade = std::pow(10.0, std::floor(std::log10(low))); decade <= high; decade *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double tick = digit * decade;
      if (tick < low * 0.999 || tick > high * 1.001) continue;
      ticks.push_back(tick);
      if (digit == 1.0) powers.push_back(tick);
    }
  }
  return ticks.size() > most_log_ticks && powers.size() > 1 ? powers : ticks;
}

}  // namespace stepcast::scenarios::html
