// stepcast compare --report: what moved between two results.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "scenarios/html/page.h"
#include "scenarios/html/pages.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios::html {
namespace {

constexpr double least_share = 0.0005;  // of the step or the peak: below, nothing moved

std::string signed_text(double value, Unit unit) { return (value < 0 ? "" : "+") + shown(value, unit); }

// A bar left or right of zero for each part that moved.
Chart moved_chart(const std::vector<Moved>& moved, const std::string& id, const std::string& title, Unit unit,
                  double least) {
  Chart chart;
  chart.id = id;
  chart.title = title;
  chart.columns = {{"part"}, {"A", unit}, {"B", unit}, {"change", unit}};
  chart.legend = {{"k-less", "less in B"}, {"k-more", "more in B"}};
  Bars bars;
  bars.unit = unit;
  bars.label_width = 160;
  bars.axis = "B minus A";
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

Table runs_table(const Page& page) {
  Table table{"Both results.",
              {{""},
               {"scenario"},
               {"devices", Unit::plain},
               {"step time", Unit::seconds},
               {"tokens a step", Unit::count},
               {"MFU", Unit::percent},
               {"HFU", Unit::percent},
               {"peak memory", Unit::bytes}},
              {}};
  for (const char* run : {"a", "b"}) {
    const std::string at = std::string("/") + run + "/";
    const Json& name = page.result()[run]["name"];
    table.rows.push_back({text_cell(run[0] == 'a' ? "A" : "B"), text_cell(name.get<std::string>()),
                          page.cell(at + "devices", Unit::plain), page.cell(at + "step_time_s", Unit::seconds),
                          page.cell(at + "tokens_per_step", Unit::count), page.cell(at + "mfu", Unit::percent),
                          page.cell(at + "hfu", Unit::percent), page.cell(at + "peak_memory_bytes", Unit::bytes)});
  }
  return table;
}

Table moved_table(const Page& page, const std::vector<Moved>& moved, const std::string& key, Unit unit) {
  Table table{"Every part.", {{"part"}, {"A", unit}, {"B", unit}, {"change", unit}}, {}};
  for (const Moved& m : moved) {
    const std::string at = "/" + key + pointer_step(m.name) + "/";
    table.rows.push_back({text_cell(unit == Unit::seconds ? category_words(m.name) : m.name), page.cell(at + "a", unit),
                          page.cell(at + "b", unit), page.cell(at + "change", unit)});
  }
  return table;
}

std::vector<Tile> tiles_of(const Page& page, const Comparison& c) {
  std::vector<Tile> tiles = {
      {"step time, A to B", page.number("/a/step_time_s", Unit::seconds),
       "to " + page.number("/b/step_time_s", Unit::seconds)},
      {"throughput, B over A", page.number("/throughput_ratio", Unit::factor), "tokens/s"},
      {"MFU, A to B", page.number("/a/mfu", Unit::percent), "to " + page.number("/b/mfu", Unit::percent)},
      {"peak memory, A to B", page.number("/a/peak_memory_bytes", Unit::bytes),
       "to " + page.number("/b/peak_memory_bytes", Unit::bytes)}};
  if (c.kind != Comparison::Kind::different_work) {
    tiles.push_back({"speed-up", page.number("/speedup", Unit::factor), "B over A"});
  }
  if (page.result().contains("efficiency")) {
    tiles.push_back({"efficiency", page.number("/efficiency", Unit::percent),
                     fmt::format("{} to {} devices", c.a.devices, c.b.devices)});
  }
  return tiles;
}

}  // namespace

std::string compare_page(const Comparison& c) {
  Page page(fmt::format("{} and {}", c.a.name.empty() ? "A" : c.a.name, c.b.name.empty() ? "B" : c.b.name), verdict(c),
            to_json(c));
  page.tiles(tiles_of(page, c));
  page.list("Warnings", c.warnings, true);
  page.list("The work differs in", c.work_differences, true);
  page.list("Breaks", c.breaks);
  page.list("Also different", c.other_differences);
  page.table(runs_table(page));
  page.section("What moved");
  page.chart(moved_chart(c.parts, "step-moved", "Time of the step, mean over ranks", Unit::seconds,
                         least_share * c.a.step_time_s));
  page.table(moved_table(page, c.parts, "breakdown_s", Unit::seconds));
  page.section("Memory at the peak");
  page.chart(moved_chart(c.memory, "memory-moved", "Memory at the peak, by part", Unit::bytes,
                         least_share * c.a.peak_memory_bytes));
  page.table(moved_table(page, c.memory, "memory_bytes", Unit::bytes));
  return page.text();
}

}  // namespace stepcast::scenarios::html
