// A chart as a page takes it: a drawing, the same in words, and the numbers behind it.
//
// Makers (bars.h, lines.h, ...) return the drawing; whoever calls them adds the
// words and the rows. Rows become the chart's table and its CSV file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/html/quantity.h"
#include "scenarios/html/svg.h"

namespace stepcast::scenarios::html {

using Json = nlohmann::ordered_json;

struct Column {
  std::string name;
  Unit unit = Unit::text;
};

// Style class of a mark ("k-bubble", defined in assets/page.css) and what it stands for.
struct LegendEntry {
  std::string style, words;
};

struct Chart {
  std::string id;           // of the page: letters, digits and dashes
  std::string title;        // a heading
  std::string description;  // what the drawing shows, for those who cannot see it
  Svg drawing{0, 0};
  Attributes behaviour;  // data-* attributes of the drawing that page.js reads
  std::vector<LegendEntry> legend;
  std::vector<Column> columns;
  Json rows = Json::array();    // arrays, one value a column; null where there is none
  std::size_t shown_rows = 40;  // rows of the table in the page; the CSV file holds all
  bool controls = false;        // buttons that zoom and move
};

// The style of a category of a step's partition: kernels, exposed communication, waiting, bubble, host.
[[nodiscard]] std::string category_style(const std::string& category);
// Of several categories at once: "kernels", "exposed", "waiting", "bubble", "host", "other".
[[nodiscard]] std::string category_group(const std::string& category);
// In words: "exposed_ep" as "exposed, experts".
[[nodiscard]] std::string category_words(const std::string& category);
[[nodiscard]] const std::vector<LegendEntry>& group_legend();

}  // namespace stepcast::scenarios::html
