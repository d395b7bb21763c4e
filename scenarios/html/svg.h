// One drawing: marks with classes, inside a view box. Colours live in the style sheet, never here.
//
// Paths use absolute M, H, V, L and Z only, so that a check can read where they go.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/html/markup.h"

namespace stepcast::scenarios::html {

// Width of every drawing, in the units of its view box.
inline constexpr double chart_width = 760;

class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  // `tip` becomes a <title>: what a pointer resting on the mark is told.
  void rect(double x, double y, double width, double height, std::string_view style, std::string_view tip = {});
  void circle(double x, double y, double radius, std::string_view style, std::string_view tip = {});
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  void path(const std::string& d, std::string_view style, std::string_view tip = {});
  void text(double x, double y, std::string_view words, std::string_view style);
  void raw(std::string_view markup) { body_ += markup; }

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }
  // The whole element. `id` is unique in the page; `description` says in words what the drawing shows.
  [[nodiscard]] std::string finish(const std::string& id, std::string_view title, std::string_view description,
                                   const Attributes& more = {}) const;

 private:
  void mark(std::string_view name, const Attributes& attributes, std::string_view tip);

  double width_, height_;
  std::string body_;
};

// d of a path, piece by piece.
[[nodiscard]] std::string rect_path(double x, double y, double width, double height);
struct Point {
  double x = 0, y = 0;
};
[[nodiscard]] std::string line_path(const std::vector<Point>& points);

// Maps values to coordinates, linear or logarithmic.
struct Scale {
  double low = 0, high = 1;  // values
  double from = 0, to = 1;   // coordinates
  bool logarithmic = false;

  [[nodiscard]] double operator()(double value) const;
};

// Round values within [low, high], about `count` of them.
[[nodiscard]] std::vector<double> nice_ticks(double low, double high, int count);
// 1, 2 and 5 times powers of ten within [low, high]; powers alone when those are many.
[[nodiscard]] std::vector<double> log_ticks(double low, double high);

}  // namespace stepcast::scenarios::html
