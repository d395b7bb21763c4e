#include "scenarios/html/moved.h"

#include <cmath>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios::html {
namespace {

std::string signed_text(double value, Unit unit) { return (value < 0 ? "" : "+") + shown(value, unit); }

}  // namespace

Chart moved_chart(const MovedWords& of, const std::vector<Moved>& moved, Unit unit, double least) {
  Chart chart;
  chart.id = of.id;
  chart.title = of.title;
  chart.columns = {{"part"}, {of.a, unit}, {of.b, unit}, {"change", unit}};
  chart.legend = {{"k-less", "less in " + of.b}, {"k-more", "more in " + of.b}};
  Bars bars;
  bars.unit = unit;
  bars.label_width = 160;
  bars.axis = of.b + " minus " + of.a;
  for (const Moved& m : moved) {
    const double change = m.b - m.a;
    const bool category = unit == Unit::seconds;
    const std::string words = category ? category_words(m.name) : m.name;
    chart.rows.push_back({words, rounded(m.a), rounded(m.b), rounded(change)});
    if (std::abs(change) <= least) continue;
    bars.lines.push_back({words,
                          {{0, change, change < 0 ? "k-less" : "k-more",
                            fmt::format("{}: {} to {}", words, shown(m.a, unit), shown(m.b, unit))}},
                          signed_text(change, unit),
                          false});
  }
  chart.description = bars.lines.empty()
                          ? std::string("Nothing moved.")
                          : fmt::format("{} parts moved; the largest move is {} with {}.", bars.lines.size(),
                                        bars.lines.front().label, bars.lines.front().note);
  chart.drawing = draw(bars);
  return chart;
}

Table moved_table(const Page& page, const std::vector<Moved>& moved, const std::string& pointer,
                  const std::pair<std::string, std::string>& names, Unit unit) {
  Table table{"Every part.", {{"part"}, {names.first, unit}, {names.second, unit}, {"change", unit}}, {}};
  for (const Moved& m : moved) {
    const std::string at = pointer + pointer_step(m.name) + "/";
    table.rows.push_back({text_cell(unit == Unit::seconds ? category_words(m.name) : m.name), page.cell(at + "a", unit),
                          page.cell(at + "b", unit), page.cell(at + "change", unit)});
  }
  return table;
}

}  // namespace stepcast::scenarios::html
