// Where the step goes: the waterfall, the breakdown by category, the critical path.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "scenarios/html/simulate_charts.h"
#include "scenarios/html/strips.h"

namespace stepcast::scenarios::html {
namespace {

constexpr double shown_share = 0.0005;  // of the step; below, a bar cannot be seen

double seconds(Ticks ticks) { return to_seconds(ticks).value; }

double mean_of(const Forecast& forecast, const std::string& category) {
  const auto found = forecast.breakdown.find(category);
  return found == forecast.breakdown.end() ? 0 : seconds(found->second.mean);
}

struct WaterfallStep {
  std::string words, style;
  double seconds = 0;
  bool total = false;
};

// From the model's FLOPs at the device's peak, over what kernels take beyond that, to the recorded step.
std::vector<WaterfallStep> waterfall_steps(const Forecast& forecast) {
  const Utilisation& u = forecast.utilisation;
  const double peak = u.peak_flops_per_device * std::max(1, forecast.engine.devices);
  const double ideal = u.model_flops / peak, executed = u.executed_flops / peak;
  double dense = 0;
  for (const char* category : {"gemm", "grouped_gemm", "attention", "recompute"}) dense += mean_of(forecast, category);
  std::vector<WaterfallStep> steps = {{"model FLOPs at peak", "k-total", ideal, true},
                                      {"recomputed, padded FLOPs", "k-kernels2", executed - ideal},
                                      {"GEMM, attention below peak", "k-kernels", dense - executed}};
  for (const char* category :
       {"memory_bound", "permute", "quantise", "optimizer", "exposed_tp", "exposed_cp", "exposed_ep", "exposed_pp",
        "exposed_dp", "wait_tp", "wait_cp", "wait_ep", "wait_dp", "bubble", "host", "data", "other"}) {
    const std::string style = category_group(category) == "kernels" ? "k-kernels3" : category_style(category);
    steps.push_back({category_words(category), style, mean_of(forecast, category)});
  }
  double recorded = 0;
  for (const WaterfallStep& step : steps) recorded += step.seconds;
  steps.push_back({"median sampled step", "k-total", recorded, true});
  const double mean = forecast.step_time.mean_s;
  if (forecast.step_time.samples > 1) {
    steps.push_back({"other sampled steps", "k-other", mean - recorded});
    steps.push_back({"forecast step, mean", "k-total", mean, true});
  }
  const double least = shown_share * recorded;
  std::erase_if(steps, [&](const WaterfallStep& s) { return !s.total && std::abs(s.seconds) < least; });
  return steps;
}

Chart waterfall(const Forecast& forecast) {
  Chart chart;
  chart.id = "waterfall";
  chart.title = "From ideal compute to the forecast step";
  chart.columns = {{"part"}, {"from", Unit::seconds}, {"to", Unit::seconds}, {"time", Unit::seconds}};
  chart.legend = {{"k-total", "total"}, {"k-kernels", "GEMM and attention"}, {"k-kernels3", "other kernels"}};
  const auto& groups = group_legend();
  chart.legend.insert(chart.legend.end(), groups.begin() + 1, groups.end());
  Bars bars;
  bars.connected = true;
  bars.label_width = 204;
  bars.axis = "time of the step, mean over ranks";
  double at = 0;
  const WaterfallStep* largest = nullptr;
  const std::vector<WaterfallStep> steps = waterfall_steps(forecast);
  for (const WaterfallStep& step : steps) {
    const double from = step.total ? 0 : at, to = step.total ? step.seconds : at + step.seconds;
    bars.lines.push_back({step.words,
                          {{from, to, step.style, step.words + ": " + shown(step.seconds, Unit::seconds)}},
                          (step.total || step.seconds < 0 ? "" : "+") + shown(step.seconds, Unit::seconds),
                          step.total});
    chart.rows.push_back({step.words, rounded(from), rounded(to), rounded(step.seconds)});
    at = to;
    if (!step.total && (largest == nullptr || step.seconds > largest->seconds)) largest = &step;
  }
  chart.description = fmt::format(
      "The model's FLOPs at the device's peak would take {}; what is added up to {} stands below each other, as mean "
      "over "
      "ranks{}.",
      shown(steps.front().seconds, Unit::seconds), shown(steps.back().seconds, Unit::seconds),
      largest == nullptr
          ? ""
          : fmt::format("; the largest part is {} with {}", largest->words, shown(largest->seconds, Unit::seconds)));
  chart.drawing = draw(bars);
  return chart;
}

Table breakdown_table(const Page& page, const Forecast& forecast) {
  Table table{"The recorded step by category: over ranks, and on the critical path.",
              {{"category"},
               {"mean", Unit::seconds},
               {"p50", Unit::seconds},
               {"p95", Unit::seconds},
               {"max", Unit::seconds},
               {"rank of max", Unit::plain},
               {"critical path", Unit::seconds}},
              {}};
  std::vector<std::pair<Ticks, std::string>> order;
  for (const auto& [category, stats] : forecast.breakdown) {
    if (stats.max > 0 || stats.critical_path > 0) order.emplace_back(-stats.mean, category);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [time, category] : order) {
    const std::string at = "/breakdown/" + category + "/";
    std::vector<Cell> row = {text_cell(category_words(category))};
    for (const char* key : {"mean_s", "p50_s", "p95_s", "max_s"}) row.push_back(page.cell(at + key, Unit::seconds));
    row.push_back(page.cell(at + "max_rank", Unit::plain));
    row.push_back(page.cell(at + "critical_path_s", Unit::seconds));
    table.rows.push_back(std::move(row));
  }
  return table;
}

struct PathPiece {
  std::string cohort, group;
  Ticks begin = 0, end = 0;
};

// Hops on one stage and of one kind that follow each other, as one; short ones join the piece before when there are
// many.
std::vector<PathPiece> path_pieces(const Forecast& forecast, const StepDetail& detail) {
  std::vector<PathPiece> pieces;
  const Ticks duration = forecast.report.duration;
  for (Ticks least = 0; pieces.empty() || pieces.size() > detail.limits.path_marks; least += 1 + duration / 8000) {
    pieces.clear();
    for (const sim::CriticalHop& hop : forecast.report.critical_path) {
      const std::string& cohort = detail.places[static_cast<std::size_t>(hop.rank.value)].cohort;
      const std::string group = category_group(sim::name(hop.category));
      const bool joins = !pieces.empty() && ((pieces.back().cohort == cohort && pieces.back().group == group) ||
                                             (hop.end - hop.begin < least && pieces.back().cohort == cohort) ||
                                             hop.end - pieces.back().begin < least);
      if (!joins) pieces.push_back({cohort, group, hop.begin, hop.begin});
      pieces.back().end = hop.end;
    }
    if (forecast.report.critical_path.empty()) break;
  }
  return pieces;
}

// Ops of the path by name, as a table of their own.
Chart path_ops(const Forecast& forecast) {
  struct Sum {
    Ticks time = 0;
    long long hops = 0;
    std::set<int> ranks;
  };
  std::map<std::pair<std::string, std::string>, Sum> by_op;
  for (const sim::CriticalHop& hop : forecast.report.critical_path) {
    Sum& sum = by_op[{hop.name, sim::name(hop.category)}];
    sum.time += hop.end - hop.begin;
    ++sum.hops;
    sum.ranks.insert(hop.rank.value);
  }
  std::vector<std::pair<Ticks, std::pair<std::string, std::string>>> order;
  for (const auto& [key, sum] : by_op) order.emplace_back(-sum.time, key);
  std::sort(order.begin(), order.end());
  Chart table;
  table.id = "path-ops";
  table.title = "Ops on the critical path";
  table.columns = {{"op"},
                   {"counts as"},
                   {"time on the path", Unit::seconds},
                   {"share", Unit::percent},
                   {"hops", Unit::count},
                   {"ranks", Unit::count}};
  table.shown_rows = 16;
  for (const auto& [time, key] : order) {
    const Sum& sum = by_op[key];
    const double share = static_cast<double>(sum.time) / static_cast<double>(forecast.report.duration);
    table.rows.push_back({key.first, category_words(key.second), rounded(seconds(sum.time)), rounded(share), sum.hops,
                          sum.ranks.size()});
  }
  return table;
}

}  // namespace

void add_breakdown(Page& page, const Forecast& forecast) {
  page.section("Where the step goes");
  page.chart(waterfall(forecast));
  page.table(breakdown_table(page, forecast));
}

void add_critical_path(Page& page, const Forecast& forecast, const StepDetail& detail) {
  if (forecast.report.critical_path.empty()) return;
  page.section("Critical path",
               "Walked back from the step's end: each op to the input that came last. A shorter op here makes the step "
               "shorter, until another way is the longest.");
  Chart chart;
  chart.id = "critical-path";
  chart.title = "The critical path through the stages";
  chart.columns = {{"stage"}, {"from", Unit::seconds}, {"to", Unit::seconds}, {"counts as"}};
  chart.legend = group_legend();
  chart.controls = true;
  Strips strips;
  strips.duration = seconds(forecast.report.duration);
  std::map<std::string, std::size_t> line_of;
  for (const std::string& cohort : detail.cohorts) {
    line_of[cohort] = strips.lines.size();
    strips.lines.push_back({cohort, true});
  }
  const Ticks begin = forecast.report.critical_path.front().begin;
  for (const PathPiece& piece : path_pieces(forecast, detail)) {
    const double from = seconds(piece.begin - begin), to = seconds(piece.end - begin);
    strips.marks.push_back({line_of[piece.cohort], from, to, 0, 1, "k-" + piece.group});
    chart.rows.push_back({piece.cohort, rounded(from), rounded(to), piece.group});
  }
  chart.description =
      fmt::format("{} hops over {} stages; hops of one kind that follow each other on a stage are drawn as one.",
                  forecast.report.critical_path.size(), detail.cohorts.size());
  chart.behaviour = behaviour(strips);
  chart.drawing = draw(strips);
  page.chart(std::move(chart));
  page.data_table(path_ops(forecast));
}

}  // namespace stepcast::scenarios::html
