#include "validation/validate_page.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "scenarios/html/lines.h"
#include "scenarios/html/page.h"
#include "sim/base/json_reader.h"

namespace stepcast::validation {
namespace {

using scenarios::html::Bars;
using scenarios::html::Chart;
using scenarios::html::Column;
using scenarios::html::Json;
using scenarios::html::Page;
using scenarios::html::rounded;
using scenarios::html::Scatter;
using scenarios::html::shown;
using scenarios::html::Table;
using scenarios::html::text_cell;
using scenarios::html::Tile;
using scenarios::html::Unit;

constexpr std::size_t most_dots = 4000;
constexpr std::size_t most_groups = 40;  // bars of one chart
constexpr double band = 0.2;

std::string or_none(const std::string& name) { return name.empty() ? "(not given)" : name; }

// Rows with the largest errors first; all of them unless there are more than can be drawn.
std::vector<const RowResult*> drawn_rows(const Validation& v) {
  std::vector<const RowResult*> rows;
  for (const RowResult& r : v.rows) {
    if (r.measured_s > 0 && r.predicted_s > 0) rows.push_back(&r);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return std::abs(a->error) > std::abs(b->error); });
  if (rows.size() > most_dots) rows.resize(most_dots);
  return rows;
}

Chart scatter_chart(const Validation& v) {
  Chart chart;
  chart.id = "scatter";
  chart.title = "Measured against forecast";
  chart.columns = {{"row"},
                   {"measured", Unit::seconds},
                   {"forecast", Unit::seconds},
                   {"error", Unit::change},
                   {"kind"},
                   {"family"},
                   {"device"},
                   {"software"}};
  const std::vector<const RowResult*> rows = drawn_rows(v);
  Scatter scatter;
  scatter.band = band;
  scatter.x = {"measured step time", Unit::seconds, true, false, {}};
  scatter.y = {"forecast step time", Unit::seconds, true, false, {}};
  std::map<std::string, Scatter::Dots> by_kind;
  int inside = 0;
  for (const RowResult* r : rows) {
    by_kind[or_none(r->kind)].points.push_back({r->measured_s, r->predicted_s});
    inside += std::abs(r->error) <= band ? 1 : 0;
    chart.rows.push_back({r->id, rounded(r->measured_s), rounded(r->predicted_s), rounded(r->error), or_none(r->kind),
                          r->family, r->device, or_none(r->software)});
  }
  for (auto& [kind, dots] : by_kind) {
    dots.style = fmt::format("s{}", 1 + scatter.dots.size() % 8);
    chart.legend.push_back({dots.style, kind});
    scatter.dots.push_back(dots);
  }
  chart.description = fmt::format(
      "{} runs of {}; {} of them lie within the band of {:.0f} % around the diagonal, above it the forecast is too "
      "slow. "
      "Both axes are logarithmic.",
      rows.size(), v.rows.size(), inside, 100 * band);
  chart.drawing = draw(scatter);
  chart.shown_rows = 60;
  return chart;
}

// Median and bias of the groups with most rows.
Chart errors_chart(const std::map<std::string, ErrorStats>& groups, const std::string& what) {
  std::vector<std::pair<std::string, ErrorStats>> order(groups.begin(), groups.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.n > b.second.n; });
  Chart chart;
  chart.id = "errors-" + what;
  chart.title = "Error by " + what;
  chart.columns = {{what},
                   {"rows", Unit::count},
                   {"median", Unit::percent},
                   {"p90", Unit::percent},
                   {"bias", Unit::change},
                   {"largest", Unit::percent}};
  chart.legend = {{"k-kernels", "median absolute error"}, {"k-kernels2", "up to the 90th percentile"}};
  Bars bars;
  bars.unit = Unit::percent;
  bars.label_width = 200;
  bars.axis = "absolute error of the step time; at the end median, bias and rows";
  for (const auto& [name, s] : order) {
    const std::string words = or_none(name);
    chart.rows.push_back({words, s.n, rounded(s.median_abs), rounded(s.p90_abs), rounded(s.bias), rounded(s.max_abs)});
    if (bars.lines.size() == most_groups) continue;
    bars.lines.push_back({words,
                          {{0, s.median_abs, "k-kernels", words + ": median " + shown(s.median_abs, Unit::percent)},
                           {s.median_abs, s.p90_abs, "k-kernels2", words + ": p90 " + shown(s.p90_abs, Unit::percent)}},
                          fmt::format("{:.1f}, {:+.1f}; {}", 100 * s.median_abs, 100 * s.bias, s.n),
                          false});
  }
  chart.description = fmt::format("{} groups, those with most rows first{}.", order.size(),
                                  order.size() > most_groups ? fmt::format("; {} are drawn", most_groups) : "");
  chart.shown_rows = 60;
  chart.drawing = draw(bars);
  return chart;
}

std::vector<Tile> tiles_of(const Page& page, const Validation& v) {
  const auto number = [&](const char* key, Unit unit) { return page.number(std::string("/summary/") + key, unit); };
  std::vector<Tile> tiles = {{"runs", number("all/n", Unit::count), fmt::format("{} refused", v.refused.size())},
                             {"median error", number("all/median_abs", Unit::percent), "of the step time, absolute"},
                             {"90th percentile", number("all/p90_abs", Unit::percent), "of absolute errors"},
                             {"bias", number("all/bias", Unit::change), "below zero: forecasts are too fast"},
                             {"largest", number("all/max_abs", Unit::percent), "absolute error"}};
  if (v.memory.n > 0) {
    tiles.push_back({"peak memory", number("peak_memory/median_abs", Unit::percent),
                     "median error of " + number("peak_memory/n", Unit::count) + " rows"});
  }
  return tiles;
}

void add_orders(Page& page, const Validation& v) {
  if (v.layout_rank_correlation.empty()) return;
  page.section("Order of layouts within a sweep");
  Table table{"Kendall's tau of forecast against measured order: 1 is the same order, -1 the reverse.",
              {{"sweep"}, {"tau", Unit::plain}},
              {}};
  for (const auto& [name, tau] : v.layout_rank_correlation) {
    table.rows.push_back({text_cell(name), page.cell("/layout_rank_correlation" + pointer_step(name), Unit::count)});
  }
  page.table(table);
}

void add_refused(Page& page, const Validation& v) {
  if (v.refused.empty()) return;
  constexpr std::size_t most = 300;
  page.section("Refused");
  Table table{fmt::format("Rows that were not forecast{}.", v.refused.size() > most ? ", the first 300" : ""),
              {{"row"}, {"line", Unit::plain}, {"why"}},
              {}};
  for (std::size_t i = 0; i < std::min(most, v.refused.size()); ++i) {
    const Refusal& r = v.refused[i];
    table.rows.push_back(
        {text_cell(r.id), page.cell(fmt::format("/refused/{}/line", i), Unit::plain), text_cell(r.why)});
  }
  page.table(table);
}

}  // namespace

std::string validate_page(const Validation& v, std::string_view file) {
  Page page("Forecasts and measurements", fmt::format("{} runs of {}.", v.rows.size(), file), to_json(v));
  page.may_leave_out({"/rows/*/assumed", "/rows/*/range_s", "/rows"});
  page.tiles(tiles_of(page, v));
  if (v.interrupted) page.list("Interrupted", {"Some rows are missing."}, true);
  page.list("How to read this",
            {"Errors are (forecast - measured) / measured of the step time.",
             "Every row goes through the same loader and the same engine as simulate; no constant belongs to a row.",
             "What a row leaves open is assumed as the defaults say; the JSON result names it by row."});
  page.section("Measured against forecast");
  page.chart(scatter_chart(v));
  page.section("Errors");
  page.chart(errors_chart(v.by_kind, "kind"));
  page.chart(errors_chart(v.by_family, "family"));
  page.chart(errors_chart(v.by_device, "device"));
  page.chart(errors_chart(v.by_software, "software"));
  add_orders(page, v);
  add_refused(page, v);
  return page.text();
}

}  // namespace stepcast::validation
