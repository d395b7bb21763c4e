#include "validation/calibrate/calibrate_page.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "scenarios/html/lines.h"
#include "scenarios/html/page.h"

namespace stepcast::validation {
namespace {

using scenarios::html::BarLine;
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

constexpr double band = 0.2;
constexpr double mark = 0.006;  // of the axis: half the width of a value's mark on its interval
constexpr std::size_t most_lines = 60;

bool is_factor(const FittedValue& v) { return v.constant.form == CalibrationConstant::Form::factor; }

// A bar over an interval with a mark at the value.
std::vector<scenarios::html::BarPart> interval_parts(double low, double value, double high, double range,
                                                     const std::string& tip) {
  return {{low, high, "k-kernels2", tip}, {value - mark * range, value + mark * range, "k-total", tip}};
}

// Factors are drawn over their prior, so that 1 is the catalogue's constant; shares are drawn as they are.
Chart constants_chart(const Calibration& c, bool factors) {
  Chart chart;
  chart.id = factors ? "factors" : "shares";
  chart.title = factors ? "Fitted factors" : "Fitted shares";
  chart.columns = {{"constant"},         {"prior", Unit::plain}, {"fitted", Unit::plain},
                   {"low", Unit::plain}, {"high", Unit::plain},  {"told by the data", Unit::percent},
                   {"rows", Unit::count}};
  chart.legend = {{"k-kernels2", "90 % interval"}, {"k-total", "fitted"}};
  Bars bars;
  bars.unit = Unit::plain;
  bars.label_width = 220;
  bars.axis = factors ? "times the catalogue's constant" : "share";
  double range = 0;
  for (const FittedValue& v : c.values) {
    if (is_factor(v) == factors && v.rows > 0) range = std::max(range, std::abs(v.high));
  }
  for (const FittedValue& v : c.values) {
    if (is_factor(v) != factors || v.rows == 0) continue;
    chart.rows.push_back({v.constant.name, rounded(v.constant.prior), rounded(v.value), rounded(v.low), rounded(v.high),
                          rounded(v.told), v.rows});
    const std::string tip = fmt::format("{}: {:.3g}, {:.3g} to {:.3g}", v.constant.meaning, v.value, v.low, v.high);
    bars.lines.push_back({v.constant.name, interval_parts(v.low, v.value, v.high, range, tip),
                          fmt::format("{:.3g}, {:.0f} %{}", v.value, 100 * v.told, v.at_bound ? ", bound" : ""),
                          false});
  }
  chart.description = fmt::format(
      "{} constants that the data feel; at the end the value and how much of the prior's variance the data "
      "took away.{}",
      bars.lines.size(), factors ? " 1 is the catalogue's own value." : "");
  chart.shown_rows = most_lines;
  chart.drawing = draw(bars);
  return chart;
}

Table constants_table(const Page& page, const Calibration& c) {
  Table table{"Every constant of the fit.",
              {{"constant"},
               {"meaning"},
               {"prior", Unit::plain},
               {"fitted", Unit::plain},
               {"low", Unit::plain},
               {"high", Unit::plain},
               {"told by the data", Unit::percent},
               {"rows", Unit::count},
               {""}},
              {}};
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    const FittedValue& v = c.values[i];
    const std::string at = fmt::format("/constants/{}/", i);
    const char* state = v.rows == 0 ? "not seen: kept at the prior" : v.at_bound ? "at its bound" : "";
    table.rows.push_back({text_cell(v.constant.name), text_cell(v.constant.meaning),
                          page.cell(at + "prior", Unit::count), page.cell(at + "value", Unit::count),
                          page.cell(at + "interval_90/0", Unit::count), page.cell(at + "interval_90/1", Unit::count),
                          page.cell(at + "told_by_data", Unit::percent), page.cell(at + "rows", Unit::count),
                          text_cell(state)});
  }
  return table;
}

Chart residuals_chart(const Calibration& c) {
  Chart chart;
  chart.id = "residuals";
  chart.title = "Measured against fitted";
  chart.columns = {{"row"},
                   {"family"},
                   {"device"},
                   {"measured", Unit::seconds},
                   {"catalogue", Unit::seconds},
                   {"fitted", Unit::seconds},
                   {"as if left out", Unit::seconds},
                   {"error", Unit::change}};
  chart.legend = {{"s8", "catalogue's constants"}, {"s1", "fitted"}};
  Scatter scatter;
  scatter.band = band;
  scatter.x = {"measured", Unit::seconds, true, false, {}};
  scatter.y = {"forecast", Unit::seconds, true, false, {}};
  scatter.dots = {{{}, "s8"}, {{}, "s1"}};
  int inside = 0, drawn = 0;
  for (const CalibratedRow& r : c.rows) {
    if (!(r.measured_s > 0) || !(r.fitted_s > 0)) continue;
    const double error = r.fitted_s / r.measured_s - 1;
    ++drawn;
    inside += std::abs(error) <= band ? 1 : 0;
    if (r.plain_s > 0) scatter.dots[0].points.push_back({r.measured_s, r.plain_s});
    scatter.dots[1].points.push_back({r.measured_s, r.fitted_s});
    chart.rows.push_back({r.id, r.family, r.device, rounded(r.measured_s), rounded(r.plain_s), rounded(r.fitted_s),
                          rounded(r.left_out_s), rounded(error)});
  }
  chart.description = fmt::format(
      "{} rows; {} of them lie within {:.0f} % of the measured time after the fit. Above the diagonal the forecast is "
      "too slow; both axes are logarithmic.",
      drawn, inside, 100 * band);
  chart.drawing = draw(scatter);
  chart.shown_rows = most_lines;
  return chart;
}

std::string names_of(const Ridge& ridge) {
  std::string names;
  for (const auto& [name, moved] : ridge.parts) names += (names.empty() ? "" : ", ") + name;
  return names;
}

// Directions in which constants move together and no fitted time notices.
Chart ridges_chart(const Diagnosis& d) {
  Chart chart;
  chart.id = "ridges";
  chart.title = "What the data cannot tell apart";
  chart.columns = {
      {"direction", Unit::plain}, {"told by the data", Unit::percent}, {"constant"}, {"moves by", Unit::plain}};
  Bars bars;
  bars.unit = Unit::percent;
  bars.label_width = 330;
  bars.axis = "of the prior's variance along the direction that the data took away";
  int number = 0;
  for (const Ridge& ridge : d.ridges) {
    ++number;
    std::string tip;
    for (const auto& [name, moved] : ridge.parts) {
      chart.rows.push_back({number, rounded(ridge.told), name, rounded(moved)});
      tip += fmt::format("{}{} {:.2f}", tip.empty() ? "" : ", ", name, moved);
    }
    bars.lines.push_back({fmt::format("{}: {}", number, names_of(ridge)),
                          {{0, ridge.told, "k-exposed", tip}},
                          shown(ridge.told, Unit::percent),
                          false});
  }
  chart.description = fmt::format(
      "{} directions of constants that move together, by the factors in the table, while the forecasts of the rows "
      "hardly change: what the data do not say of them, the prior does.",
      d.ridges.size());
  chart.drawing = draw(bars);
  return chart;
}

Chart correlations_chart(const Diagnosis& d) {
  Chart chart;
  chart.id = "correlations";
  chart.title = "Constants that are known only together";
  chart.columns = {{"first"}, {"second"}, {"correlation", Unit::plain}};
  Bars bars;
  bars.unit = Unit::plain;
  bars.label_width = 330;
  bars.axis = "correlation after the fit";
  for (const Correlation& c : d.correlations) {
    chart.rows.push_back({c.first, c.second, rounded(c.value)});
    bars.lines.push_back({c.first + ", " + c.second,
                          {{0, c.value, c.value < 0 ? "k-less" : "k-more", {}}},
                          fmt::format("{:+.2f}", c.value),
                          false});
  }
  chart.description = fmt::format("{} pairs with a correlation of 0.8 and more.", d.correlations.size());
  chart.drawing = draw(bars);
  return chart;
}

Chart next_chart(const Diagnosis& d) {
  Chart chart;
  chart.id = "next";
  chart.title = "What to measure next";
  chart.columns = {{"constant"}, {"measurement"}, {"half width now", Unit::percent}, {"with it known", Unit::percent}};
  chart.legend = {{"k-kernels", "left when the constant is known"}, {"k-kernels2", "what its measurement takes away"}};
  Bars bars;
  bars.unit = Unit::percent;
  bars.label_width = 220;
  bars.axis = "mean half width of the forecasts' 90 % interval, from constants alone";
  for (const NextMeasurement& n : d.next) {
    const std::string what = n.measurement.empty() ? std::string("measure it by itself") : n.measurement;
    chart.rows.push_back({n.constant, what, rounded(n.interval_before), rounded(n.interval_after)});
    bars.lines.push_back(
        {n.constant,
         {{0, n.interval_after, "k-kernels", what}, {n.interval_after, n.interval_before, "k-kernels2", what}},
         fmt::format("to {}", shown(n.interval_after, Unit::percent)),
         false});
  }
  chart.description = "Constants whose exact value would narrow the forecasts most, the best first.";
  chart.drawing = draw(bars);
  return chart;
}

// Intervals relative to the forecast, with the measured time where there is one.
Chart predictions_chart(const Calibration& c) {
  Chart chart;
  chart.id = "predictions";
  chart.title = "Forecasts with intervals";
  chart.columns = {{"row"},
                   {"catalogue", Unit::seconds},
                   {"forecast", Unit::seconds},
                   {"low", Unit::seconds},
                   {"high", Unit::seconds},
                   {"measured", Unit::seconds},
                   {"error", Unit::change}};
  chart.legend = {{"k-kernels2", "90 % interval"}, {"k-total", "measured"}};
  Bars bars;
  bars.unit = Unit::change;
  bars.label_width = 220;
  bars.axis = "relative to the forecast; at the end the forecast";
  double range = 0;
  for (const Prediction& p : c.predicted.rows) {
    if (p.predicted_s > 0) range = std::max(range, p.high_s / p.predicted_s - p.low_s / p.predicted_s);
  }
  for (const Prediction& p : c.predicted.rows) {
    if (!(p.predicted_s > 0)) continue;
    const bool known = p.measured_s > 0;
    Json row = {p.id, rounded(p.plain_s), rounded(p.predicted_s), rounded(p.low_s), rounded(p.high_s)};
    row.push_back(known ? Json(rounded(p.measured_s)) : Json());
    row.push_back(known ? Json(rounded(p.predicted_s / p.measured_s - 1)) : Json());
    chart.rows.push_back(std::move(row));
    if (bars.lines.size() == most_lines) continue;
    const double low = p.low_s / p.predicted_s - 1, high = p.high_s / p.predicted_s - 1;
    BarLine line{p.id,
                 {{low, high, "k-kernels2",
                   fmt::format("{}: {} to {}", p.id, shown(p.low_s, Unit::seconds), shown(p.high_s, Unit::seconds))}},
                 shown(p.predicted_s, Unit::seconds),
                 false};
    if (known) {
      const double at = p.measured_s / p.predicted_s - 1;
      line.parts.push_back(
          {at - mark * range, at + mark * range, "k-total", "measured " + shown(p.measured_s, Unit::seconds)});
    }
    bars.lines.push_back(std::move(line));
  }
  chart.description =
      fmt::format("{} forecasts{}; {} of {} measured times lie inside their interval.", c.predicted.rows.size(),
                  c.predicted.rows.size() > most_lines ? fmt::format(", {} drawn", most_lines) : "", c.predicted.inside,
                  c.predicted.measured);
  chart.shown_rows = most_lines;
  chart.drawing = draw(bars);
  return chart;
}

Table breaks_table(const Page& page, const Calibration& c) {
  Table table{"What a forecast meets that the nearest fitted run does not.",
              {{"row"}, {"forecast", Unit::seconds}, {"nearest fitted run"}, {"breaks"}},
              {}};
  for (std::size_t i = 0; i < c.predicted.rows.size(); ++i) {
    const Prediction& p = c.predicted.rows[i];
    std::string breaks;
    for (const std::string& b : p.breaks) breaks += (breaks.empty() ? "" : "; ") + b;
    if (breaks.empty()) continue;
    table.rows.push_back({text_cell(p.id), page.cell(fmt::format("/predictions/{}/predicted_s", i), Unit::seconds),
                          text_cell(p.nearest), text_cell(breaks)});
  }
  return table;
}

std::vector<Tile> tiles_of(const Page& page, const Calibration& c) {
  const auto number = [&](const char* key, Unit unit) { return page.number(std::string("/errors/") + key, unit); };
  std::vector<Tile> tiles = {
      {"rows fitted", number("fitted/n", Unit::count), fmt::format("{} refused", c.refused.size())},
      {"median error before", number("catalogue/median_abs", Unit::percent),
       "bias " + number("catalogue/bias", Unit::change)},
      {"median error fitted", number("fitted/median_abs", Unit::percent),
       "bias " + number("fitted/bias", Unit::change)},
      {"each row as if left out", number("left_out/median_abs", Unit::percent),
       "p90 " + number("left_out/p90_abs", Unit::percent)},
      {"spread of a row", page.number("/residual_sigma", Unit::percent),
       "of whole families " + page.number("/family_sigma", Unit::percent)}};
  if (c.predicted.measured > 0) {
    tiles.push_back({"inside the interval", page.number("/covered/inside", Unit::count),
                     "of " + page.number("/covered/measured", Unit::count) + " forecasts that were measured"});
  }
  return tiles;
}

void add_refused(Page& page, const std::vector<Refusal>& refused, const std::string& title, const std::string& key) {
  if (refused.empty()) return;
  page.section(title);
  Table table{title + ", with the reason.", {{"row"}, {"line", Unit::plain}, {"why"}}, {}};
  for (std::size_t i = 0; i < std::min<std::size_t>(refused.size(), 300); ++i) {
    table.rows.push_back({text_cell(refused[i].id), page.cell(fmt::format("/{}/{}/line", key, i), Unit::plain),
                          text_cell(refused[i].why)});
  }
  page.table(table);
}

void add_diagnosis(Page& page, const Diagnosis& d) {
  page.section("What the data cannot tell");
  if (!d.ridges.empty()) page.chart(ridges_chart(d));
  if (!d.correlations.empty()) page.chart(correlations_chart(d));
  if (d.ridges.empty() && d.correlations.empty()) page.paragraph("The data tell the constants that they feel apart.");
  page.list("Not seen by the data, kept at the prior", d.blind);
  if (!d.outliers.empty()) {
    Table table{"Rows that disagree with the rest, as if they had not been fitted.",
                {{"row"}, {"error", Unit::change}, {"spreads of its family", Unit::plain}},
                {}};
    for (std::size_t i = 0; i < d.outliers.size(); ++i) {
      const std::string at = fmt::format("/diagnosis/outliers/{}/", i);
      table.rows.push_back(
          {text_cell(d.outliers[i].id), page.cell(at + "error", Unit::change), page.cell(at + "sigmas", Unit::count)});
    }
    page.table(table);
  }
  if (!d.next.empty()) page.chart(next_chart(d));
}

}  // namespace

std::string calibrate_page(const Calibration& c, std::string_view data) {
  Page page("Calibration", fmt::format("Constants fitted to {}.", data), to_json(c));
  page.may_leave_out({"/rows", "/predictions/*/open_fields", "/profile"});
  page.tiles(tiles_of(page, c));
  if (c.interrupted) page.list("Interrupted", {"The fit is not complete."}, true);
  std::vector<std::string> warnings = c.warnings;
  if (!c.converged && !c.interrupted) warnings.emplace_back("the fit has not converged: raise --iterations");
  page.list("Warnings", warnings, true);
  page.list(
      "How to read this",
      {"Few constants are fitted to all rows together; none belongs to a row.",
       "Each has a prior: where the data say nothing, it stays there and its interval is the prior's.",
       "Intervals are of 90 %; those of forecasts hold the constants' uncertainty, the spread of rows and that of "
       "whole software families."});
  page.section("Constants");
  for (const bool factors : {true, false}) {
    const bool any = std::any_of(c.values.begin(), c.values.end(),
                                 [&](const FittedValue& v) { return is_factor(v) == factors && v.rows > 0; });
    if (any) page.chart(constants_chart(c, factors));
  }
  page.table(constants_table(page, c));
  page.section("Residuals");
  page.chart(residuals_chart(c));
  add_diagnosis(page, c.diagnosis);
  if (!c.predicted.rows.empty()) {
    page.section("Forecasts");
    page.chart(predictions_chart(c));
    const Table breaks = breaks_table(page, c);
    if (!breaks.rows.empty()) page.table(breaks);
  }
  add_refused(page, c.refused, "Refused", "refused");
  add_refused(page, c.predicted.refused, "Not forecast", "refused_predictions");
  return page.text();
}

}  // namespace stepcast::validation
