// stepcast scale --report: the curves with their breaks, and every size.
#include <algorithm>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "scenarios/html/lines.h"
#include "scenarios/html/page.h"
#include "scenarios/html/pages.h"

namespace stepcast::scenarios::html {
namespace {

constexpr double shown_share = 0.002;  // of the step

struct Break {
  std::string number;
  const ScalePoint* point;
  std::string words;
};

std::vector<Break> breaks_of(const ScaleCurve& curve) {
  std::vector<Break> breaks;
  for (const ScalePoint& p : curve.points) {
    for (const std::string& words : p.breaks) breaks.push_back({std::to_string(breaks.size() + 1), &p, words});
  }
  return breaks;
}

Axis devices_axis(const ScaleCurve& curve) {
  Axis axis{"devices", Unit::plain, true, false, {}};
  for (const ScalePoint& p : curve.points) {
    if (p.comparable()) axis.ticks.push_back(p.devices);
  }
  return axis;
}

std::vector<PlaceMark> marks_of(const std::vector<Break>& breaks) {
  std::vector<PlaceMark> marks;
  for (const Break& b : breaks) {
    if (b.point->comparable()) marks.push_back({static_cast<double>(b.point->devices), b.number});
  }
  return marks;
}

Chart efficiency_chart(const ScaleCurve& curve, const std::vector<Break>& breaks) {
  Chart chart;
  chart.id = "efficiency";
  chart.title = "Efficiency and MFU";
  chart.columns = {{"devices", Unit::plain}, {"efficiency", Unit::percent}, {"mfu", Unit::percent}};
  chart.legend = {{"s1", "efficiency"}, {"s3", "MFU"}, {"s8", "no loss"}};
  Curve efficiency{{}, "s1", false, {}}, mfu{{}, "s3", false, {}}, ideal{{}, "s8", true, {}};
  const ScalePoint* last = nullptr;
  for (const ScalePoint& p : curve.points) {
    if (!p.comparable()) continue;
    const auto devices = static_cast<double>(p.devices);
    efficiency.points.push_back({devices, p.efficiency});
    efficiency.tips.push_back(fmt::format("{} devices: {}", p.devices, shown(p.efficiency, Unit::percent)));
    mfu.points.push_back({devices, p.mfu});
    mfu.tips.push_back(fmt::format("{} devices: {}", p.devices, shown(p.mfu, Unit::percent)));
    ideal.points.push_back({devices, 1});
    chart.rows.push_back({p.devices, rounded(p.efficiency), rounded(p.mfu)});
    last = &p;
  }
  Lines lines{
      {ideal, mfu, efficiency}, marks_of(breaks), devices_axis(curve), {"share", Unit::percent, false, true, {}}, 300};
  chart.drawing = draw(lines);
  chart.description = fmt::format("Efficiency against {} devices: {} at {} devices.{}", curve.baseline_devices,
                                  shown(last->efficiency, Unit::percent), last->devices,
                                  breaks.empty() ? "" : " Numbers in circles are the breaks named below.");
  return chart;
}

Chart throughput_chart(const ScaleCurve& curve, const std::vector<Break>& breaks) {
  Chart chart;
  chart.id = "throughput";
  chart.title = "Throughput";
  chart.columns = {{"devices", Unit::plain}, {"tokens per s", Unit::count}, {"proportional", Unit::count}};
  chart.legend = {{"s1", "forecast"}, {"s8", "proportional to the baseline"}};
  const auto base = std::find_if(curve.points.begin(), curve.points.end(), [&](const ScalePoint& p) {
    return p.feasible && p.devices == curve.baseline_devices;
  });
  Curve forecast{{}, "s1", false, {}}, ideal{{}, "s8", true, {}};
  const ScalePoint* last = nullptr;
  for (const ScalePoint& p : curve.points) {
    if (!p.comparable()) continue;
    const auto devices = static_cast<double>(p.devices);
    const double proportional = base->tokens_per_s / base->devices * devices;
    forecast.points.push_back({devices, p.tokens_per_s});
    forecast.tips.push_back(fmt::format("{} devices: {} tokens/s", p.devices, shown(p.tokens_per_s, Unit::count)));
    ideal.points.push_back({devices, proportional});
    chart.rows.push_back({p.devices, rounded(p.tokens_per_s), rounded(proportional)});
    last = &p;
  }
  Lines lines{
      {ideal, forecast}, marks_of(breaks), devices_axis(curve), {"tokens/s", Unit::count, true, false, {}}, 300};
  chart.drawing = draw(lines);
  chart.description = fmt::format("{} tokens/s on {} devices, {} on {}; both axes are logarithmic.",
                                  shown(base->tokens_per_s, Unit::count), base->devices,
                                  shown(last->tokens_per_s, Unit::count), last->devices);
  return chart;
}

// The step of each size, by what its time counts as.
Chart breakdown_chart(const ScaleCurve& curve) {
  Chart chart;
  chart.id = "breakdown";
  chart.title = "Where the step goes at each size";
  chart.columns = {{"devices", Unit::plain}};
  for (const LegendEntry& entry : group_legend()) chart.columns.push_back({entry.words, Unit::seconds});
  chart.legend = group_legend();
  Bars bars;
  bars.label_width = 110;
  bars.axis = "share of the step, mean over ranks";
  bars.unit = Unit::percent;
  for (const ScalePoint& p : curve.points) {
    if (!p.feasible) continue;
    double total = 0;
    for (const auto& [category, s] : p.breakdown) total += s;
    BarLine line{fmt::format("{} devices", p.devices), {}, shown(p.step_time_s, Unit::seconds), false};
    Json row = {p.devices};
    double at = 0;
    for (const LegendEntry& entry : group_legend()) {
      double sum = 0;
      for (const auto& [category, s] : p.breakdown) sum += category_style(category) == entry.style ? s : 0;
      row.push_back(rounded(sum));
      const double share = total > 0 ? sum / total : 0;
      if (share > shown_share) {
        line.parts.push_back({at, at + share, entry.style, entry.words + ": " + shown(sum, Unit::seconds)});
      }
      at += share > shown_share ? share : 0;
    }
    bars.lines.push_back(std::move(line));
    chart.rows.push_back(std::move(row));
  }
  chart.description =
      "One bar a size, all equally long: what is not kernels is what more devices cost. At the end the step time.";
  chart.drawing = draw(bars);
  return chart;
}

Table sizes_table(const Page& page, const ScaleCurve& curve) {
  Table table{"Every size that was asked for.",
              {{"devices", Unit::plain},
               {"batch", Unit::count},
               {"step time", Unit::seconds},
               {"tokens/s", Unit::count},
               {"speed-up", Unit::factor},
               {"efficiency", Unit::percent},
               {"MFU", Unit::percent},
               {"breaks, or why it cannot run or is no scaling"},
               {"layout"}},
              {}};
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const ScalePoint& p = curve.points[i];
    const std::string at = fmt::format("/points/{}/", i);
    std::string words = p.why;
    for (const std::string& work : p.not_scaling) words += (words.empty() ? "the work differs: " : "; ") + work;
    for (const std::string& b : p.breaks) words += (words.empty() ? "" : "; ") + b;
    table.rows.push_back({page.cell(at + "devices", Unit::plain), page.cell(at + "global_batch", Unit::count),
                          page.cell(at + "step_time_s", Unit::seconds), page.cell(at + "tokens_per_s", Unit::count),
                          page.cell(at + "speedup", Unit::factor), page.cell(at + "efficiency", Unit::percent),
                          page.cell(at + "mfu", Unit::percent), text_cell(words), text_cell(p.layout)});
  }
  return table;
}

std::vector<Tile> tiles_of(const Page& page, const ScaleCurve& curve) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    if (curve.points[i].comparable()) last = i;
  }
  const std::string at = fmt::format("/points/{}/", last);
  return {{"baseline", page.number("/baseline_devices", Unit::plain), "devices"},
          {"largest size", page.number(at + "devices", Unit::plain), "devices that can run"},
          {"speed-up there", page.number(at + "speedup", Unit::factor), "over the baseline"},
          {"efficiency there", page.number(at + "efficiency", Unit::percent),
           "MFU " + page.number(at + "mfu", Unit::percent)},
          {"step time there", page.number(at + "step_time_s", Unit::seconds),
           page.number(at + "tokens_per_s", Unit::count) + " tokens/s"}};
}

}  // namespace

std::string scale_page(const ScaleCurve& curve, std::string_view name) {
  const std::string rule = curve.layout == LayoutRule::replan ? "the layout is planned anew at every size."
                                                              : "the layout grows by data parallelism.";
  const bool strong = curve.kind == ScalingKind::strong;
  Page page(name.empty() ? std::string("Scaling") : std::string(name),
            (strong ? "Strong scaling: the batch stays, " : "Weak scaling: the batch grows with the devices, ") + rule,
            to_json(curve));
  page.may_leave_out({"/points/*/settings"});
  page.tiles(tiles_of(page, curve));
  if (curve.interrupted) page.list("Interrupted", {"Some sizes are missing."}, true);
  page.list("Warnings", curve.warnings, true);
  const std::vector<Break> breaks = breaks_of(curve);
  std::vector<std::string> words;
  for (const Break& b : breaks)
    words.push_back(fmt::format("{}: at {} devices, {}", b.number, b.point->devices, b.words));
  page.list("Breaks in the curve", words);
  page.list("Assumptions", curve.assumptions);
  page.section("Curves");
  page.chart(efficiency_chart(curve, breaks));
  page.chart(throughput_chart(curve, breaks));
  page.chart(breakdown_chart(curve));
  page.section("Sizes");
  page.table(sizes_table(page, curve));
  return page.text();
}

}  // namespace stepcast::scenarios::html
