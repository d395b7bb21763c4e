#include "tests/html/check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "tests/html/tree.h"

namespace stepcast::html_tests {
namespace {

constexpr std::size_t most_bytes = 1000000;
constexpr double slack = 0.51;           // of a view box's unit: rounding, half a stroke
constexpr double character_width = 6.2;  // of 11.5 px text, about

using Faults = std::vector<std::string>;

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  [[nodiscard]] bool holds(double px, double py) const {
    return px >= x - slack && px <= x + width + slack && py >= y - slack && py <= y + height + slack;
  }
};

Box view_box(const Node& svg) {
  std::istringstream in(svg.attribute("viewBox"));
  Box box;
  if (!(in >> box.x >> box.y >> box.width >> box.height)) throw std::runtime_error("no view box");
  return box;
}

std::string place(const Node& mark) {
  std::string words = "<" + mark.name;
  for (const auto& [key, value] : mark.attributes) words += " " + key + "=" + value.substr(0, 60);
  return words + "> " + mark.text;
}

// Corners that absolute M, L, H, V and Z reach.
std::vector<std::pair<double, double>> corners(const std::string& d) {
  std::vector<std::pair<double, double>> points;
  double x = 0, y = 0;
  const char* at = d.c_str();
  while (*at != '\0') {
    const char command = *at++;
    if (command == 'Z' || command == ' ') continue;
    char* end = nullptr;
    const double first = std::strtod(at, &end);
    if (end == at) throw std::runtime_error(std::string("no number after ") + command + " in a path");
    at = end;
    if (command == 'H') {
      x = first;
    } else if (command == 'V') {
      y = first;
    } else if (command == 'M' || command == 'L') {
      x = first;
      y = std::strtod(at, &end);
      if (end == at) throw std::runtime_error("half a point in a path");
      at = end;
    } else {
      throw std::runtime_error(std::string("command ") + command + " in a path");
    }
    points.emplace_back(x, y);
  }
  return points;
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<std::pair<double, double>> extent_of_text(const Node& mark) {
  if (mark.has("transform")) return {};
  const double x = mark.number("x"), y = mark.number("y");
  const double width = character_width * static_cast<double>(characters(mark.text));
  const std::string style = " " + mark.attribute("class") + " ";
  if (style.find(" end ") != std::string::npos) return {{x - width, y}, {x, y - 9}};
  if (style.find(" middle ") != std::string::npos) return {{x - width / 2, y}, {x + width / 2, y - 9}};
  return {{x, y}, {x + width, y - 9}};
}

std::vector<std::pair<double, double>> extent_of(const Node& mark) {
  if (mark.name == "rect" || mark.name == "svg") {
    const double x = mark.number("x"), y = mark.number("y");
    return {{x, y}, {x + mark.number("width"), y + mark.number("height")}};
  }
  if (mark.name == "circle") {
    const double x = mark.number("cx"), y = mark.number("cy"), r = mark.number("r");
    return {{x - r, y - r}, {x + r, y + r}};
  }
  if (mark.name == "line") {
    return {{mark.number("x1"), mark.number("y1")}, {mark.number("x2"), mark.number("y2")}};
  }
  if (mark.name == "path") return corners(mark.attribute("d"));
  if (mark.name == "text") return extent_of_text(mark);
  return {};
}

void check_marks(const Node& svg, Faults& faults) {
  const Box box = view_box(svg);
  std::size_t marks = 0;
  for (const auto& child : svg.children) {
    for (const auto& [x, y] : extent_of(*child)) {
      ++marks;
      if (!std::isfinite(x) || !std::isfinite(y) || !box.holds(x, y)) {
        faults.push_back("outside of the view box: " + place(*child));
        break;
      }
    }
    if (child->name == "svg") check_marks(*child, faults);
  }
  if (marks == 0) faults.push_back("an empty drawing: " + place(svg));
}

void check_drawings(const Node& page, Faults& faults) {
  for (const Node* figure : page.all("figure")) {
    const auto drawings = figure->all("svg");
    if (drawings.empty()) faults.push_back("a figure without drawing: " + place(*figure));
    const Node& svg = *drawings.front();
    check_marks(svg, faults);
    if (svg.attribute("role") != "img") faults.push_back("no role: " + place(svg));
    for (const char* part : {"title", "desc"}) {
      const auto found = svg.all(part);
      if (found.empty() || found.front()->text.empty()) faults.push_back(std::string("no ") + part + ": " + place(svg));
    }
    if (figure->all("table").size() != 1) faults.push_back("no table: " + place(*figure));
    const auto buttons = figure->all("button");
    if (std::none_of(buttons.begin(), buttons.end(), [](const Node* b) { return b->has("data-csv"); })) {
      faults.push_back("no CSV: " + place(*figure));
    }
  }
}

void check_references(const Node& page, Faults& faults) {
  std::set<std::string> ids;
  for (const Node* node : page.all()) {
    if (node->has("id") && !ids.insert(node->attribute("id")).second) faults.push_back("an id twice: " + place(*node));
  }
  for (const Node* node : page.all()) {
    std::istringstream named(node->attribute("aria-labelledby"));
    for (std::string id; named >> id;) {
      if (!ids.contains(id)) faults.push_back("names what is not there: " + place(*node));
    }
    for (const auto& [key, value] : node->attributes) {
      if (key.starts_with("on")) faults.push_back("a script in an attribute: " + place(*node));
      if (key != "href" && key != "src" && key != "data" && key != "action" && key != "style") continue;
      if (value.starts_with("#") ? ids.contains(value.substr(1)) : value == "data:,") continue;
      faults.push_back("leads out of the file: " + place(*node));
    }
  }
  for (const Node* style : page.all("style")) {
    for (const char* loads : {"url(", "@import", "http"}) {
      if (style->text.find(loads) != std::string::npos) faults.push_back(std::string("the style has ") + loads);
    }
  }
}

void check_numbers(const Node& page, Faults& faults) {
  const nlohmann::ordered_json data = nlohmann::ordered_json::parse(page.all("script").front()->text);
  for (const Node* number : page.all("data")) {
    const nlohmann::ordered_json::json_pointer at(number->attribute("data-at"));
    if (!data.contains(at)) {
      faults.push_back("no such place in the data: " + place(*number));
    } else if (data[at].dump() != number->attribute("value")) {
      faults.push_back("not the number of the data, " + data[at].dump() + ": " + place(*number));
    }
    if (number->text.empty()) faults.push_back("a number without words: " + place(*number));
  }
}

}  // namespace

Faults faults_of(const std::string& html) {
  Faults faults;
  if (html.size() >= most_bytes) faults.push_back(std::to_string(html.size()) + " bytes");
  try {
    const auto page = parse_page(html);
    const auto scripts = page->all("script");
    if (scripts.size() != 2) faults.push_back("other scripts than the data and the page's own");
    check_references(*page, faults);
    check_drawings(*page, faults);
    check_numbers(*page, faults);
  } catch (const std::exception& broken) {
    faults.emplace_back(broken.what());
  }
  return faults;
}

std::string data_of(const std::string& html) { return parse_page(html)->all("script").front()->text; }

std::size_t numbers_in(const std::string& html) { return parse_page(html)->all("data").size(); }

}  // namespace stepcast::html_tests
