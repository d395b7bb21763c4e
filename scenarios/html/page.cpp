#include "scenarios/html/page.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "scenarios/html/assets.h"

namespace stepcast::scenarios::html {
namespace {

constexpr std::string_view dash = "\xE2\x80\x93";

// JSON inside a script element: no '<', so that nothing in it can end the element.
std::string script_json(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string id_of(std::string_view title) {
  std::string id;
  for (const char c : title) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) {
      id += c;
    } else if (!id.empty() && id.back() != '-') {
      id += '-';
    }
  }
  return "s-" + id;
}

std::string header_cell(std::string_view words, bool number) {
  return element("th", {{"scope", "col"}, {"class", number ? "number" : ""}, {"aria-sort", "none"}},
                 text_element("button", {{"type", "button"}, {"class", "sort"}}, words));
}

std::string legend_markup(const std::vector<LegendEntry>& legend) {
  std::string items;
  for (const LegendEntry& entry : legend) {
    items += element("li", {}, element("span", {{"class", "swatch " + entry.style}}, {}) + escaped(entry.words));
  }
  return legend.empty() ? "" : element("ul", {{"class", "legend"}}, items);
}

// Whether an attribute can hold a name as it is: UTF-8 without control characters.
bool is_clean(const std::string& name) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20U || c == 0x7F; };
  return std::none_of(name.begin(), name.end(), control) && escaped(name).find("\xEF\xBF\xBD") == std::string::npos;
}

std::string button(std::string_view action, std::string_view words, std::string_view label) {
  return text_element(
      "button", {{"type", "button"}, {"data-zoom", std::string(action)}, {"aria-label", std::string(label)}}, words);
}

std::string zoom_buttons() {
  return element("div", {{"class", "zoom"}, {"role", "group"}, {"aria-label", "Zoom"}},
                 button("left", "\xE2\x97\x80", "earlier") + button("in", "+", "closer") +
                     button("out", "\xE2\x88\x92", "further away") + button("right", "\xE2\x96\xB6", "later") +
                     button("all", "whole step", "whole step"));
}

std::string csv_button(const Chart& chart) {
  return text_element("button", {{"type", "button"}, {"data-csv", chart.id}, {"aria-label", "CSV of " + chart.title}},
                      "CSV");
}

// Removes a member by its pointer, in which "*" stands for every element of a list. Whether there was one.
bool leave_out(Json& json, std::string_view pointer) {
  const auto step_end = pointer.find('/', 1);
  const std::string step(pointer.substr(1, step_end == std::string_view::npos ? step_end : step_end - 1));
  const std::string_view rest = step_end == std::string_view::npos ? std::string_view{} : pointer.substr(step_end);
  if (step == "*") {
    bool any = false;
    for (Json& element_of : json) any = leave_out(element_of, rest) || any;
    return any;
  }
  if (!json.is_object() || !json.contains(step)) return false;
  if (!rest.empty()) return leave_out(json[step], rest);
  json.erase(step);
  return true;
}

}  // namespace

Cell text_cell(std::string_view words) { return {escaped(words), std::string(words), false}; }

Page::Page(std::string_view title, std::string_view subtitle, Json result)
    : title_(title), subtitle_(subtitle), result_(std::move(result)) {}

std::string Page::data_element(const std::string& pointer, const Json& value, Unit unit) const {
  if (!value.is_number()) return value.is_string() ? escaped(value.get<std::string>()) : std::string(dash);
  // A place whose name an attribute cannot hold is not named.
  if (!is_clean(pointer)) return escaped(shown(value.get<double>(), unit));
  return text_element("data", {{"value", value.dump()}, {"data-at", pointer}}, shown(value.get<double>(), unit));
}

std::string Page::number(const std::string& pointer, Unit unit) const {
  const Json::json_pointer at(pointer);
  return result_.contains(at) ? data_element("/result" + pointer, result_[at], unit) : std::string(dash);
}

Cell Page::cell(const std::string& pointer, Unit unit) const {
  return {number(pointer, unit), fmt::format("{}", value(pointer)), true};
}

double Page::value(const std::string& pointer) const {
  const Json::json_pointer at(pointer);
  return result_.contains(at) && result_[at].is_number() ? result_[at].get<double>() : 0;
}

void Page::tiles(const std::vector<Tile>& tiles) {
  std::string items;
  for (const Tile& tile : tiles) {
    items += element("div", {{"class", "tile"}},
                     text_element("dt", {}, tile.label) + element("dd", {{"class", "main"}}, tile.value) +
                         (tile.note.empty() ? "" : element("dd", {{"class", "note"}}, tile.note)));
  }
  body_ += element("dl", {{"class", "tiles"}}, items);
}

void Page::list(std::string_view title, const std::vector<std::string>& sentences, bool loud) {
  if (sentences.empty()) return;
  std::string items;
  for (const std::string& sentence : sentences) items += text_element("li", {}, sentence);
  body_ += element("div", {{"class", loud ? "list loud" : "list"}},
                   text_element("h3", {}, title) + element("ul", {}, items));
}

void Page::close_section() {
  if (in_section_) body_ += "</section>";
  in_section_ = false;
}

void Page::section(std::string_view title, std::string_view words) {
  close_section();
  sections_.emplace_back(id_of(title), std::string(title));
  body_ += fmt::format("<section id=\"{}\">", sections_.back().first) + text_element("h2", {}, title);
  if (!words.empty()) paragraph(words);
  in_section_ = true;
}

void Page::paragraph(std::string_view words) { body_ += text_element("p", {}, words); }

std::string Page::rows_markup(const Chart& chart) const {
  std::string head, rows;
  for (const Column& column : chart.columns) head += header_cell(column.name, column.unit != Unit::text);
  const std::size_t n = std::min(chart.rows.size(), chart.shown_rows);
  for (std::size_t r = 0; r < n; ++r) {
    std::string cells;
    for (std::size_t c = 0; c < chart.columns.size(); ++c) {
      const Json& value = chart.rows[r][c];
      Attributes attributes;
      if (chart.columns[c].unit != Unit::text) attributes.push_back({"class", "number"});
      cells +=
          element("td", attributes,
                  data_element(fmt::format("/charts/{}/rows/{}/{}", chart.id, r, c), value, chart.columns[c].unit));
    }
    rows += element("tr", {}, cells);
  }
  std::string table = element("table", {{"class", "sortable"}},
                              text_element("caption", {}, chart.title) + element("thead", {}, element("tr", {}, head)) +
                                  element("tbody", {}, rows));
  table = element("div", {{"class", "scroll"}, {"tabindex", "0"}}, table);
  if (n < chart.rows.size()) {
    table += text_element("p", {{"class", "note"}},
                          fmt::format("{} of {} rows; the CSV file holds all.", n, chart.rows.size()));
  }
  return table;
}

void Page::chart(Chart chart) {
  Attributes attributes = {{"data-chart", chart.id}};
  attributes.insert(attributes.end(), chart.behaviour.begin(), chart.behaviour.end());
  if (chart.controls) attributes.push_back({"tabindex", "0"});
  const std::string drawing = chart.drawing.finish(chart.id, chart.title, chart.description, attributes);
  const std::string data =
      element("details", {{"class", "data"}}, text_element("summary", {}, "Data of this chart") + rows_markup(chart));
  body_ += element(
      "figure", {{"id", "f-" + chart.id}},
      element("figcaption", {}, text_element("h3", {}, chart.title) + text_element("p", {}, chart.description)) +
          legend_markup(chart.legend) + (chart.controls ? zoom_buttons() : "") +
          element("div", {{"class", "scroll"}, {"tabindex", "0"}}, drawing) +
          element("div", {{"class", "below"}}, csv_button(chart) + data));
  keep_rows(std::move(chart));
}

void Page::data_table(Chart chart) {
  body_ += element("div", {{"class", "table"}}, rows_markup(chart) + csv_button(chart));
  keep_rows(std::move(chart));
}

void Page::keep_rows(Chart chart) {
  Json columns = Json::array();
  for (const Column& column : chart.columns) {
    columns.push_back({{"name", column.name}, {"unit", std::string(suffix(column.unit))}});
  }
  charts_[chart.id] = {{"title", chart.title}, {"columns", std::move(columns)}, {"rows", std::move(chart.rows)}};
}

void Page::table(const Table& table) {
  std::string head, rows;
  for (const Column& column : table.columns) head += header_cell(column.name, column.unit != Unit::text);
  for (const auto& row : table.rows) {
    std::string cells;
    for (const Cell& cell : row) {
      Attributes attributes = {{"data-order", cell.order}};
      if (cell.number) attributes.push_back({"class", "number"});
      cells += element("td", attributes, cell.content);
    }
    rows += element("tr", {}, cells);
  }
  body_ += element("div", {{"class", "scroll"}, {"tabindex", "0"}},
                   element("table", {{"class", "sortable"}},
                           text_element("caption", {}, table.caption) + element("thead", {}, element("tr", {}, head)) +
                               element("tbody", {}, rows)));
}

std::string Page::text() const {
  Json data = {{"result", result_}, {"charts", charts_}};
  std::vector<std::string> left_out;
  std::string text = file(data, left_out);
  for (const std::string& member : may_leave_out_) {
    if (text.size() < most_page_bytes) break;
    if (!leave_out(data["result"], member)) continue;
    left_out.push_back(member);
    text = file(data, left_out);
  }
  return text;
}

std::string Page::file(const Json& data, const std::vector<std::string>& left_out) const {
  std::string links;
  for (const auto& [id, title] : sections_) links += text_element("a", {{"href", "#" + id}}, title);
  const std::string toggle = text_element(
      "button", {{"type", "button"}, {"id", "theme"}, {"aria-label", "light or dark colours"}}, "light / dark");
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
  out +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">";
  out += "<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">";
  out += text_element("title", {}, title_) + fmt::format("<style>\n{}</style></head>\n<body>", page_css);
  out += element("header", {},
                 element("div", {}, text_element("h1", {}, title_) + text_element("p", {}, subtitle_)) + toggle);
  out += element("nav", {{"aria-label", "Sections"}}, links);
  out += "\n" + element("main", {}, body_ + (in_section_ ? "</section>" : ""));
  std::string words = "Made by stepcast. The JSON result is in this file";
  for (const std::string& member : left_out) words += fmt::format(", without {} to keep it small", member);
  out += element("footer", {},
                 element("p", {}, escaped(words) + ". <button type=\"button\" data-json=\"\">JSON</button>"));
  out += "<div id=\"tip\" role=\"status\" hidden=\"\"></div>\n";
  out += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", script_json(data));
  out += fmt::format("<script>\n{}</script></body></html>\n", page_js);
  return out;
}

std::vector<std::string> sentences(const Json& result, const std::string& key) {
  std::vector<std::string> list;
  if (!result.contains(key)) return list;
  for (const Json& sentence : result[key]) {
    if (sentence.is_string()) list.push_back(sentence.get<std::string>());
  }
  return list;
}

}  // namespace stepcast::scenarios::html
