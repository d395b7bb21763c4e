#include "scenarios/html/moved.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios::html {
namespace {

std::string signed_text(double value, Unit unit) { return (value < 0 ? "" : "+") + shown(value, unit); }

std::string words_of(const Moved& m, Unit unit) { return unit == Unit::seconds ? category_words(m.name) : m.name; }

Bars moved_bars(const MovedWords& of, const std::vector<Moved>& moved, Unit unit, double least) {
  Bars bars;
  bars.unit = unit;
  bars.label_width = 160;
  bars.axis = of.b + " minus " + of.a;
  for (const Moved& m : moved) {
    const double change = m.b - m.a;
    if (std::abs(change) <= least) continue;
    const std::string words = words_of(m, unit);
    bars.lines.push_back({words,
                          {{0, change, change < 0 ? "k-less" : "k-more",
                            fmt::format("{}: {} to {}", words, shown(m.a, unit), shown(m.b, unit))}},
                          signed_text(change, unit),
                          false});
  }
  return bars;
}

Table moved_table(const Page& page, const MovedWords& of, const std::vector<Moved>& moved, Unit unit) {
  Table table{"Every part.", {{"part"}, {of.a, unit}, {of.b, unit}, {"change", unit}}, {}};
  for (const Moved& m : moved) {
    const std::string at = of.pointer + pointer_step(m.name) + "/";
    table.rows.push_back({text_cell(words_of(m, unit)), page.cell(at + "a", unit), page.cell(at + "b", unit),
                          page.cell(at + "change", unit)});
  }
  return table;
}

}  // namespace

void add_moved(Page& page, const MovedWords& of, const std::vector<Moved>& moved, Unit unit, double least) {
  const Bars bars = moved_bars(of, moved, unit, least);
  if (bars.lines.empty()) {
    page.paragraph(of.title + ": nothing moved.");
  } else {
    Chart chart;
    chart.id = of.id;
    chart.title = of.title;
    chart.columns = {{"part"}, {of.a, unit}, {of.b, unit}, {"change", unit}};
    chart.legend = {{"k-less", "less in " + of.b}, {"k-more", "more in " + of.b}};
    for (const Moved& m : moved) {
      chart.rows.push_back({words_of(m, unit), rounded(m.a), rounded(m.b), rounded(m.b - m.a)});
    }
    chart.description =
        fmt::format("{} part{} moved; the largest move is {} with {}.", bars.lines.size(),
                    bars.lines.size() == 1 ? "" : "s", bars.lines.front().label, bars.lines.front().note);
    chart.drawing = draw(bars);
    page.chart(std::move(chart));
  }
  page.table(moved_table(page, of, moved, unit));
}

}  // namespace stepcast::scenarios::html
