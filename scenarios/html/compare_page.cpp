// stepcast compare --report: what moved between two results.
#include <fmt/format.h>

#include "scenarios/html/moved.h"
#include "scenarios/html/page.h"
#include "scenarios/html/pages.h"

namespace stepcast::scenarios::html {
namespace {

constexpr double least_share = 0.0005;  // of the step or the peak: below, nothing moved

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
  add_moved(page, {"step-moved", "Time of the step, mean over ranks", "A", "B", "/breakdown_s"}, c.parts, Unit::seconds,
            least_share * c.a.step_time_s);
  page.section("Memory at the peak");
  add_moved(page, {"memory-moved", "Memory at the peak, by part", "A", "B", "/memory_bytes"}, c.memory, Unit::bytes,
            least_share * c.a.peak_memory_bytes);
  return page.text();
}

}  // namespace stepcast::scenarios::html
