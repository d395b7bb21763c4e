// One self-contained HTML file: a result with its numbers, charts and tables.
//
// Nothing is loaded from anywhere: style and script are in the file, and so are
// the JSON result that the page was made from and the rows of its charts, as
//   {"result": ..., "charts": {ID: {"title", "columns", "rows"}}}
// in <script type="application/json" id="data">. A number of the page is a <data>
// element that names its place in there, so that both can be compared:
//   <data value="17.23" data-at="/result/step_time_s/mean">17.2 s</data>
//
// A new page: construct it from the command's JSON, then tiles(), lists(),
// section(), chart() and table() from top to bottom, and text() at the end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/html/chart.h"

namespace stepcast::scenarios::html {

// A page stays below this; what would not fit is left out of the embedded result and named in the page.
inline constexpr std::size_t most_page_bytes = 1000000;

struct Tile {
  std::string label;
  std::string value;  // markup, as number() makes it
  std::string note;   // markup
};

struct Cell {
  std::string content;  // markup
  std::string order;    // what sorting goes by; empty: the content
  bool number = false;
};
[[nodiscard]] Cell text_cell(std::string_view words);

struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

class Page {
 public:
  Page(std::string_view title, std::string_view subtitle, Json result);

  // Numbers of the result, by JSON pointer. Nothing there, or no number: a dash.
  [[nodiscard]] std::string number(const std::string& pointer, Unit unit) const;
  [[nodiscard]] Cell cell(const std::string& pointer, Unit unit) const;
  [[nodiscard]] double value(const std::string& pointer) const;  // 0 when absent
  [[nodiscard]] const Json& result() const { return result_; }

  void tiles(const std::vector<Tile>& tiles);
  // Lists of sentences: warnings, assumptions. Empty ones are left out. A `loud` list stands out.
  void list(std::string_view title, const std::vector<std::string>& sentences, bool loud = false);
  void section(std::string_view title, std::string_view words = {});
  void paragraph(std::string_view words);
  void chart(Chart chart);
  void data_table(Chart chart);  // the rows alone, without a drawing
  void table(const Table& table);
  void markup(std::string_view markup) { body_ += markup; }

  // Members of the result ("/samples_s", "/rows/*/assumed") to be left out, in this order, where the page would not
  // fit.
  void may_leave_out(std::vector<std::string> members) { may_leave_out_ = std::move(members); }

  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::string data_element(const std::string& pointer, const Json& value, Unit unit) const;
  [[nodiscard]] std::string rows_markup(const Chart& chart) const;
  [[nodiscard]] std::string file(const Json& data, const std::vector<std::string>& left_out) const;
  void keep_rows(Chart chart);
  void close_section();

  std::string title_, subtitle_;
  Json result_, charts_ = Json::object();
  std::string body_;
  std::vector<std::pair<std::string, std::string>> sections_;  // id, title
  bool in_section_ = false;
  std::vector<std::string> may_leave_out_;
};

// Texts of a result's member that is a list of them; nothing when it is absent.
[[nodiscard]] std::vector<std::string> sentences(const Json& result, const std::string& key);

}  // namespace stepcast::scenarios::html
