// stepcast plan --report: the layouts, what else could be had, why the first wins, what was searched.
#include <algorithm>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "scenarios/html/lines.h"
#include "scenarios/html/moved.h"
#include "scenarios/html/pages.h"

namespace stepcast::scenarios::html {
namespace {

using plan::PlannedLayout;
using plan::PlanResult;

constexpr double least_share = 0.0005;  // of the step: below, nothing moved

Json row_of(const PlannedLayout& l, const char* set) {
  return {set,
          l.words,
          l.point.devices,
          rounded(l.step_time_s),
          rounded(l.tokens_per_s),
          rounded(l.mfu),
          rounded(l.peak_bytes),
          rounded(l.free_share)};
}

std::vector<Column> layout_columns() {
  return {{"set"},
          {"layout"},
          {"devices", Unit::plain},
          {"step time", Unit::seconds},
          {"tokens per s", Unit::count},
          {"mfu", Unit::percent},
          {"peak", Unit::bytes},
          {"free memory", Unit::percent}};
}

std::string tip_of(const PlannedLayout& l) {
  return fmt::format("{}: {} tokens/s, {} free", l.words, shown(l.tokens_per_s, Unit::count),
                     shown(l.free_share, Unit::percent));
}

// Throughput against free memory: the front as a curve, the other layouts of the ranking as points.
Chart memory_chart(const PlanResult& r) {
  Chart chart;
  chart.id = "memory-front";
  chart.title = "Throughput against free memory";
  chart.columns = layout_columns();
  chart.legend = {{"s1", "front: beaten in neither"}, {"s2", "other layouts of the ranking"}};
  std::vector<PlannedLayout> front = r.memory_front;
  std::sort(front.begin(), front.end(), [](const auto& a, const auto& b) { return a.free_share < b.free_share; });
  Curve of_front{{}, "s1", false, {}}, others{{}, "s2", false, {}};
  others.line = false;
  for (const PlannedLayout& l : front) {
    of_front.points.push_back({l.free_share, l.tokens_per_s});
    of_front.tips.push_back(tip_of(l));
    chart.rows.push_back(row_of(l, "front"));
  }
  for (const PlannedLayout& l : r.layouts) {
    const bool on_front =
        std::any_of(front.begin(), front.end(), [&](const auto& f) { return f.settings == l.settings; });
    if (on_front || (!front.empty() && l.point.devices != front.front().point.devices)) continue;
    others.points.push_back({l.free_share, l.tokens_per_s});
    others.tips.push_back(tip_of(l));
    chart.rows.push_back(row_of(l, "ranking"));
  }
  Lines lines;
  lines.curves = {others, of_front};
  lines.x = {"share of a device's memory that stays free", Unit::percent, false, true, {}};
  lines.y = {"tokens/s", Unit::count, false, true, {}};
  chart.drawing = draw(lines);
  chart.description =
      fmt::format("{} layout{} on the front: from {} tokens/s with {} free to {} tokens/s with {} free.", front.size(),
                  front.size() == 1 ? "" : "s", shown(front.front().tokens_per_s, Unit::count),
                  shown(front.front().free_share, Unit::percent), shown(front.back().tokens_per_s, Unit::count),
                  shown(front.back().free_share, Unit::percent));
  return chart;
}

Chart devices_chart(const PlanResult& r) {
  Chart chart;
  chart.id = "devices-front";
  chart.title = "Throughput against devices";
  chart.columns = layout_columns();
  chart.legend = {{"s1", "the fastest layout"}, {"s8", "proportional to the smallest size"}};
  Curve forecast{{}, "s1", false, {}}, ideal{{}, "s8", true, {}};
  Axis devices{"devices", Unit::plain, true, false, {}};
  const PlannedLayout& first = r.devices_front.front();
  for (const PlannedLayout& l : r.devices_front) {
    const auto n = static_cast<double>(l.point.devices);
    devices.ticks.push_back(n);
    forecast.points.push_back({n, l.tokens_per_s});
    forecast.tips.push_back(fmt::format("{} devices, {}", l.point.devices, tip_of(l)));
    ideal.points.push_back({n, first.tokens_per_s / first.point.devices * n});
    chart.rows.push_back(row_of(l, "devices"));
  }
  chart.drawing = draw(Lines{{ideal, forecast}, {}, devices, {"tokens/s", Unit::count, true, false, {}}, 300});
  chart.description =
      fmt::format("{} sizes; {} tokens/s on {} devices, {} on {}. Both axes are logarithmic.", r.devices_front.size(),
                  shown(first.tokens_per_s, Unit::count), first.point.devices,
                  shown(r.devices_front.back().tokens_per_s, Unit::count), r.devices_front.back().point.devices);
  return chart;
}

Table layouts_table(const Page& page, const std::vector<PlannedLayout>& layouts, const std::string& key,
                    const std::string& caption, bool price) {
  Table table{caption,
              {{"rank", Unit::plain},
               {"step time", Unit::seconds},
               {"tokens/s", Unit::count},
               {"MFU", Unit::percent},
               {"peak", Unit::bytes},
               {"free", Unit::percent},
               {"devices", Unit::plain}},
              {}};
  if (price) table.columns.push_back({"cost of 1 M tokens", Unit::plain});
  table.columns.push_back({"layout"});
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::string at = fmt::format("/{}/{}/", key, i);
    std::vector<Cell> row = {
        page.cell(at + "rank", Unit::plain),         page.cell(at + "step_time_s", Unit::seconds),
        page.cell(at + "tokens_per_s", Unit::count), page.cell(at + "mfu", Unit::percent),
        page.cell(at + "peak_bytes", Unit::bytes),   page.cell(at + "free_memory_share", Unit::percent),
        page.cell(at + "devices", Unit::plain)};
    if (price) row.push_back(page.cell(at + "cost_per_million_tokens", Unit::plain));
    row.push_back(text_cell(layouts[i].words));
    table.rows.push_back(std::move(row));
  }
  return table;
}

struct Outcome {
  std::string words, pointer;
  std::int64_t count;
  const char* style;
};

// Every enumerated point once, by what became of it.
std::vector<Outcome> outcomes_of(const PlanResult& r) {
  const plan::Counts& c = r.counts;
  std::vector<Outcome> all;
  for (std::size_t i = 0; i < plan::refusal_count; ++i) {
    const auto refusal = static_cast<plan::Refusal>(i);
    all.push_back({std::string("refused: ") + plan::words(refusal),
                   std::string("/counts/refused/") + plan::name(refusal), c.refused[i], "k-bubble"});
  }
  all.push_back({"bound above what was found", "/counts/pruned", c.pruned, "k-kernels2"});
  all.push_back({"simulated exactly", "/counts/simulated", c.simulated, "k-kernels"});
  if (c.out_of_memory > 0) all.push_back({"survivors out of memory", "", c.out_of_memory, "k-more"});
  if (c.failed > 0) all.push_back({"refused by the lowering", "/counts/failed", c.failed, "k-more"});
  return all;
}

Chart counts_chart(const PlanResult& r) {
  Chart chart;
  chart.id = "searched";
  chart.title = "What became of the points";
  chart.columns = {{"what"}, {"points", Unit::count}, {"of all", Unit::percent}};
  chart.legend = {{"k-bubble", "refused"},
                  {"k-kernels2", "could not win"},
                  {"k-kernels", "simulated"},
                  {"k-more", "survivors that could not run"}};
  Bars bars;
  bars.unit = Unit::percent;
  bars.label_width = 270;
  bars.axis = "share of the points enumerated; at the end their number";
  const auto all = static_cast<double>(r.counts.enumerated);
  for (const Outcome& o : outcomes_of(r)) {
    const double share = all > 0 ? static_cast<double>(o.count) / all : 0;
    chart.rows.push_back({o.words, o.count, rounded(share)});
    if (o.count == 0) continue;
    bars.lines.push_back({o.words,
                          {{0, share, o.style, fmt::format("{}: {}", o.words, o.count)}},
                          shown(static_cast<double>(o.count), Unit::count),
                          false});
  }
  chart.description = fmt::format(
      "{} points enumerated, {} valid, {} simulated exactly. Valid points that were not simulated have a lower "
      "bound above the layouts found.",
      shown(all, Unit::count), shown(static_cast<double>(r.counts.valid), Unit::count),
      shown(static_cast<double>(r.counts.simulated), Unit::count));
  chart.drawing = draw(bars);
  return chart;
}

Table counts_table(const Page& page, const PlanResult& r) {
  Table table{"Counts of the search.", {{"what"}, {"points", Unit::count}}, {}};
  const auto add = [&](const std::string& words, const std::string& pointer) {
    table.rows.push_back({text_cell(words), page.cell(pointer, Unit::count)});
  };
  add("enumerated", "/counts/enumerated");
  for (const Outcome& o : outcomes_of(r)) {
    if (o.count > 0 && !o.pointer.empty()) add(o.words, o.pointer);
  }
  add("valid, each with a lower bound", "/counts/valid");
  add("of them with the close bound", "/counts/closely_bound");
  add("out of memory, in all", "/counts/out_of_memory");
  add("layouts judged a CPU-second", "/layouts_per_s");
  add("layouts simulated a CPU-second", "/search/simulated_per_cpu_s");
  return table;
}

std::vector<Tile> tiles_of(const Page& page, const PlanResult& r) {
  const auto number = [&](const char* key, Unit unit) { return page.number(std::string("/layouts/0/") + key, unit); };
  std::vector<Tile> tiles = {
      {"fastest step", number("step_time_s", Unit::seconds),
       fmt::format("mean of {} sampled step{}", page.number("/samples", Unit::plain), r.samples == 1 ? "" : "s")},
      {"tokens/s", number("tokens_per_s", Unit::count), number("tokens_per_s_per_device", Unit::count) + " a device"},
      {"MFU", number("mfu", Unit::percent), "causal attention"},
      {"memory at the peak", number("peak_bytes", Unit::bytes), number("free_memory_share", Unit::percent) + " free"},
      {"layouts judged", page.number("/counts/valid", Unit::count),
       page.number("/counts/simulated", Unit::count) + " simulated"}};
  if (r.price > 0) {
    tiles.push_back({"cost of a million tokens", number("cost_per_million_tokens", Unit::plain),
                     "at " + page.number("/price_per_device_hour", Unit::plain) + " a device-hour"});
  }
  return tiles;
}

void add_why(Page& page, const PlanResult& r) {
  if (r.against_runner_up.empty()) return;
  const Comparison& c = r.against_runner_up.front();
  page.section("Why the first wins", "The first layout beside the second, as stepcast compare lays them.");
  const MovedWords words{"against-second", "Time of the step, mean over ranks", "the second", "the first",
                         "/against_runner_up/breakdown_s"};
  add_moved(page, words, c.parts, Unit::seconds, least_share * c.a.step_time_s);
  page.list("What differs", c.other_differences);
}

// Line by line: in text a line's end would become a space.
std::string lines_of(const std::string& text) {
  std::string out;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    out += escaped(std::string_view(text).substr(from, end - from)) + "\n";
    from = end + 1;
  }
  return out;
}

void add_winner(Page& page, const PlanResult& r) {
  page.section("The first layout");
  page.list("As --set flags", r.layouts.front().settings);
  page.markup(element("details", {{"class", "data"}},
                      text_element("summary", {}, "As arguments of Megatron-LM") +
                          element("pre", {{"tabindex", "0"}}, lines_of(megatron::to_text(r.winner_arguments)))));
}

}  // namespace

std::string plan_page(const PlanResult& r) {
  Page page(fmt::format("Layouts of {} on {}", r.model, r.cluster), r.layouts.front().words, to_json(r));
  page.may_leave_out({"/winner_megatron", "/winner", "/layouts/*/settings", "/memory_front/*/settings"});
  page.tiles(tiles_of(page, r));
  if (r.interrupted) page.list("Interrupted", {"The best of what was simulated so far, not the optimum."}, true);
  page.list("Warnings", r.warnings, true);
  page.list("Assumptions", r.assumptions);
  const bool price = r.price > 0;
  page.section("Layouts", fmt::format("The fastest that leave {} or less in use.", shown(r.memory_limit, Unit::bytes)));
  page.table(layouts_table(page, r.layouts, "layouts", "The fastest layouts.", price));
  page.section("What else could be had");
  if (!r.memory_front.empty()) {
    page.chart(memory_chart(r));
    page.table(
        layouts_table(page, r.memory_front, "memory_front", "The front of throughput against free memory.", price));
  }
  if (!r.devices_front.empty()) {
    page.chart(devices_chart(r));
    page.table(
        layouts_table(page, r.devices_front, "devices_front", "The front of throughput against devices.", price));
  }
  add_why(page, r);
  page.section("What was searched");
  page.chart(counts_chart(r));
  page.table(counts_table(page, r));
  add_winner(page, r);
  return page.text();
}

}  // namespace stepcast::scenarios::html
