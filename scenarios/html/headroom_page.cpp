// stepcast headroom --report, and the same as a section of a forecast's page: what each ideal would give.
#include <cmath>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "scenarios/html/headroom_charts.h"
#include "scenarios/html/pages.h"

namespace stepcast::scenarios::html {
namespace {

std::string in_words(std::string ideal) {
  for (char& c : ideal) c = c == '_' ? ' ' : c;
  return ideal;
}

Chart ideals_chart(const Headroom& headroom) {
  Chart chart;
  chart.id = "headroom";
  chart.title = "What each ideal would save";
  chart.columns = {{"ideal"},
                   {"what is ideal"},
                   {"step time", Unit::seconds},
                   {"saves", Unit::seconds},
                   {"of the step", Unit::percent},
                   {"speed-up", Unit::factor}};
  chart.legend = {{"k-less", "time saved"}, {"k-more", "time lost"}};
  Bars bars;
  bars.unit = Unit::seconds;
  bars.label_width = 190;
  bars.axis = "saved of a step, each ideal alone; at the end also the speed-up";
  for (const HeadroomRow& row : headroom.rows) {
    const std::string words = in_words(row.ideal);
    const double share = row.saved_s / headroom.step_time_s;
    chart.rows.push_back(
        {words, row.meaning, rounded(row.step_time_s), rounded(row.saved_s), rounded(share), rounded(row.speedup)});
    bars.lines.push_back({words,
                          {{0, row.saved_s, row.saved_s < 0 ? "k-more" : "k-less",
                            fmt::format("{}: {}, {} of the step", row.meaning, shown(row.saved_s, Unit::seconds),
                                        shown(share, Unit::percent))}},
                          fmt::format("{}, {:.3f}x", shown(row.saved_s, Unit::seconds), row.speedup),
                          false});
  }
  chart.description =
      headroom.rows.empty()
          ? std::string("No ideal applies.")
          : fmt::format(
                "{} ideals, the largest saving first: {} saves {} of {}. Savings do not add up: what one ideal "
                "uncovers another may have hidden.",
                headroom.rows.size(), bars.lines.front().label, shown(headroom.rows.front().saved_s, Unit::seconds),
                shown(headroom.step_time_s, Unit::seconds));
  chart.drawing = draw(bars);
  return chart;
}

Table ideals_table(const Page& page, const Headroom& headroom, const std::string& pointer) {
  Table table{"Each ideal alone, simulated again with the same draws.",
              {{"ideal"},
               {"what is ideal"},
               {"step time", Unit::seconds},
               {"saves", Unit::seconds},
               {"of the step", Unit::percent},
               {"speed-up", Unit::factor}},
              {}};
  for (std::size_t i = 0; i < headroom.rows.size(); ++i) {
    const HeadroomRow& row = headroom.rows[i];
    const std::string at = fmt::format("{}/ideals/{}/", pointer, i);
    table.rows.push_back({text_cell(in_words(row.ideal)), text_cell(row.meaning),
                          page.cell(at + "step_time_s", Unit::seconds), page.cell(at + "saved_s", Unit::seconds),
                          page.cell(at + "saved_share", Unit::percent), page.cell(at + "speedup", Unit::factor)});
  }
  return table;
}

}  // namespace

void add_headroom(Page& page, const Headroom& headroom, const std::string& pointer) {
  page.section("Headroom", "The scenario simulated again with one thing ideal at a time.");
  if (headroom.interrupted) page.list("Interrupted", {"Some ideals are missing."}, true);
  if (!headroom.rows.empty()) {
    page.chart(ideals_chart(headroom));
    page.table(ideals_table(page, headroom, pointer));
  }
  page.list("Left out", headroom.left_out);
}

std::string headroom_page(const Headroom& headroom) {
  const std::string name = headroom.name.empty() ? std::string("Headroom") : headroom.name + ": headroom";
  Page page(name, "What the step would take if one thing were ideal.", to_json(headroom));
  std::vector<Tile> tiles = {{"step time", page.number("/step_time_s", Unit::seconds),
                              fmt::format("as it is; mean of {} sampled step{}", page.number("/samples", Unit::plain),
                                          headroom.samples == 1 ? "" : "s")}};
  for (std::size_t i = 0; i < headroom.rows.size() && i < 3; ++i) {
    const std::string at = fmt::format("/ideals/{}/", i);
    tiles.push_back({in_words(headroom.rows[i].ideal), page.number(at + "saved_s", Unit::seconds),
                     fmt::format("saved; {} of the step, {}", page.number(at + "saved_share", Unit::percent),
                                 page.number(at + "speedup", Unit::factor))});
  }
  page.tiles(tiles);
  page.list("Assumptions", headroom.assumptions);
  add_headroom(page, headroom, "");
  return page.text();
}

}  // namespace stepcast::scenarios::html
