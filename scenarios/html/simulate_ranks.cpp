// Ranks over time, and ranks beside each other: who is slow, who waits.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "scenarios/html/heat_map.h"
#include "scenarios/html/simulate_charts.h"
#include "scenarios/html/strips.h"

namespace stepcast::scenarios::html {
namespace {

constexpr std::size_t group_count = 6;
constexpr std::size_t kernels = 0, exposed = 1, waiting = 2, bubble = 3;
constexpr std::size_t wrapped_columns = 64;  // of a single stage's ranks
constexpr std::size_t named_ranks = 8;       // of each kind

using Groups = std::array<double, group_count>;  // seconds, in the order of group_legend()

double seconds(Ticks ticks) { return to_seconds(ticks).value; }

std::size_t group_index(std::size_t category) {
  const std::string style = category_style(sim::name(static_cast<sim::Category>(category)));
  const auto& legend = group_legend();
  const auto found = std::find_if(legend.begin(), legend.end(), [&](const LegendEntry& e) { return e.style == style; });
  return static_cast<std::size_t>(found - legend.begin());
}

template <class Times, class ToSeconds>
Groups grouped(const Times& by_category, const ToSeconds& to_s) {
  Groups groups{};
  for (std::size_t c = 0; c < by_category.size(); ++c) groups[group_index(c)] += to_s(by_category[c]);
  return groups;
}

Groups groups_of(const Forecast& forecast, std::size_t rank) { return grouped(forecast.report.by_rank[rank], seconds); }

std::vector<Column> group_columns(std::vector<Column> columns) {
  for (const LegendEntry& entry : group_legend()) columns.push_back({entry.words, Unit::seconds});
  return columns;
}

void append(Json& row, const Groups& groups) {
  for (const double value : groups) row.push_back(rounded(value));
}

std::string call_words(const StripCall& call) {
  std::string words = call.body;
  if (call.instance >= 0) words += fmt::format(", microbatch {}", call.instance);
  if (call.second_instance >= 0) words += fmt::format(" and {}", call.second_instance);
  if (call.calls > 1) words += fmt::format(" and {} more", call.calls - 1);
  return words;
}

std::string call_style(const StripCall& call) {
  if (call.body.starts_with("forward+backward")) return "k-total";
  if (call.body.starts_with("forward")) return "k-kernels2";
  return call.body.starts_with("backward weight") ? "k-kernels3" : "k-kernels";
}

void draw_strip(const RankStrip& strip, Strips& strips, Chart& chart) {
  const std::string calls = strip.cohort + " schedule";
  strips.lines.push_back({calls, true});
  constexpr double space = 0.04;  // of a call's width, so that neighbours can be told apart
  for (const StripCall& call : strip.calls) {
    strips.marks.push_back({strips.lines.size() - 1, call.begin_s, call.end_s - space * (call.end_s - call.begin_s), 0,
                            1, call_style(call)});
    Json row = {calls, rounded(call.begin_s), rounded(call.end_s), call_words(call)};
    for (std::size_t g = 0; g < group_count; ++g) row.push_back(nullptr);
    chart.rows.push_back(std::move(row));
  }
  const std::string time = fmt::format("{}, rank {}", strip.cohort, strip.rank);
  strips.lines.push_back({time, false});
  for (const StripPiece& piece : strip.pieces) {
    const Groups groups = grouped(piece.seconds, [](double s) { return s; });
    const double total = std::accumulate(groups.begin(), groups.end(), 0.0);
    double low = 0;
    for (std::size_t g = 0; g < group_count && total > 0; ++g) {
      if (groups[g] <= 0) continue;
      const double high = std::min(1.0, low + groups[g] / total);
      strips.marks.push_back({strips.lines.size() - 1, piece.begin_s, piece.end_s, low, high, group_legend()[g].style});
      low = high;
    }
    Json row = {time, rounded(piece.begin_s), rounded(piece.end_s), piece.doing};
    append(row, groups);
    chart.rows.push_back(std::move(row));
  }
}

// How lanes of cohorts lie on the grid.
struct Grid {
  std::vector<std::string> lines;
  std::vector<std::vector<std::vector<std::size_t>>> ranks;  // by line, column: the ranks of a cell
  std::size_t columns = 0, lanes_per_cell = 1;
};

Grid grid_of(const StepDetail& detail) {
  std::vector<std::vector<std::size_t>> lanes(detail.cohorts.size());  // by cohort: rank of each lane
  for (std::size_t c = 0; c < detail.cohorts.size(); ++c) {
    for (std::size_t r = 0; r < detail.places.size(); ++r) {
      if (detail.places[r].cohort == detail.cohorts[c]) lanes[c].push_back(r);
    }
    std::sort(lanes[c].begin(), lanes[c].end(),
              [&](std::size_t a, std::size_t b) { return detail.places[a].lane < detail.places[b].lane; });
  }
  Grid grid;
  std::vector<std::vector<std::size_t>> lines = lanes;
  grid.lines = detail.cohorts;
  if (lanes.size() == 1 && lanes[0].size() > wrapped_columns) {
    const std::size_t width = std::max(wrapped_columns, (lanes[0].size() + 31) / 32);
    lines.clear();
    grid.lines.clear();
    for (std::size_t at = 0; at < lanes[0].size(); at += width) {
      const auto from = lanes[0].begin() + static_cast<std::ptrdiff_t>(at);
      const auto to = lanes[0].begin() + static_cast<std::ptrdiff_t>(std::min(at + width, lanes[0].size()));
      lines.emplace_back(from, to);
      grid.lines.push_back(fmt::format("rank {}", lines.back().front()));
    }
  }
  std::size_t longest = 1;
  for (const auto& line : lines) longest = std::max(longest, line.size());
  const std::size_t room = std::max<std::size_t>(8, detail.limits.cells / std::max<std::size_t>(1, lines.size()));
  grid.lanes_per_cell = (longest + room - 1) / room;
  grid.columns = (longest + grid.lanes_per_cell - 1) / grid.lanes_per_cell;
  for (const auto& line : lines) {
    auto& cells = grid.ranks.emplace_back(grid.columns);
    for (std::size_t l = 0; l < line.size(); ++l) cells[l / grid.lanes_per_cell].push_back(line[l]);
  }
  return grid;
}

// Means of times over a cell's ranks, the largest of peaks and slow factors.
struct CellValues {
  Groups groups{};
  double peak = 0, slow = 1;
};

CellValues cell_values(const Forecast& forecast, const StepDetail& detail, const std::vector<std::size_t>& ranks) {
  CellValues v;
  for (const std::size_t rank : ranks) {
    const Groups groups = groups_of(forecast, rank);
    for (std::size_t g = 0; g < group_count; ++g) v.groups[g] += groups[g] / static_cast<double>(ranks.size());
    if (rank < forecast.report.memory.peak_by_rank.size()) {
      v.peak = std::max(v.peak, forecast.report.memory.peak_by_rank[rank]);
    }
    if (!detail.slow_factors.empty()) v.slow = std::max(v.slow, static_cast<double>(detail.slow_factors[rank]));
  }
  return v;
}

Chart heat_chart(const Forecast& forecast, const StepDetail& detail) {
  const Grid grid = grid_of(detail);
  HeatMap map;
  map.lines = grid.lines;
  map.columns = grid.columns;
  map.axis = grid.lanes_per_cell > 1
                 ? fmt::format("ranks of a line in order, {} a cell (times are their mean)", grid.lanes_per_cell)
                 : std::string("ranks of a line in order");
  map.layers = {{"kernels: dark is slow", {}, Unit::seconds},
                {"waiting for peers: dark waits", {}, Unit::seconds},
                {"exposed communication", {}, Unit::seconds}};
  std::vector<std::size_t> shown_groups = {kernels, waiting, exposed};
  if (detail.cohorts.size() > 1) {
    map.layers.push_back({"pipeline bubble", {}, Unit::seconds});
    shown_groups.push_back(bubble);
  }
  map.layers.push_back({"memory at the rank's peak, without fragmentation", {}, Unit::bytes});
  const bool slow = !detail.slow_factors.empty();
  if (slow) map.layers.push_back({"slowness of the device", {}, Unit::factor});
  Chart chart;
  chart.id = "ranks";
  chart.title = "Ranks beside each other";
  chart.columns = group_columns({{"line"}, {"first rank", Unit::plain}, {"last rank", Unit::plain}});
  chart.columns.push_back({"peak memory", Unit::bytes});
  if (slow) chart.columns.push_back({"slowness", Unit::plain});
  for (std::size_t line = 0; line < grid.ranks.size(); ++line) {
    for (const auto& ranks : grid.ranks[line]) {
      const CellValues v = cell_values(forecast, detail, ranks);
      const double none = std::numeric_limits<double>::quiet_NaN();
      std::size_t layer = 0;
      for (const std::size_t g : shown_groups) map.layers[layer++].values.push_back(ranks.empty() ? none : v.groups[g]);
      map.layers[layer++].values.push_back(ranks.empty() ? none : v.peak);
      if (slow) map.layers[layer].values.push_back(ranks.empty() ? none : v.slow);
      Json row = {grid.lines[line]};
      if (ranks.empty()) {
        while (row.size() < chart.columns.size()) row.push_back(nullptr);
      } else {
        row.push_back(ranks.front());
        row.push_back(ranks.back());
        append(row, v.groups);
        row.push_back(rounded(v.peak));
        if (slow) row.push_back(rounded(v.slow));
      }
      chart.rows.push_back(std::move(row));
    }
  }
  chart.description = fmt::format(
      "Every rank of the recorded step on a grid of {} lines and {} columns, once for each kind of time: kernels, "
      "waiting "
      "for slower peers, exposed communication{}, and memory. Each map has its own range.",
      grid.lines.size(), grid.columns, detail.cohorts.size() > 1 ? ", pipeline bubble" : "");
  chart.behaviour = behaviour(map);
  chart.drawing = draw(map);
  chart.shown_rows = 24;
  return chart;
}

// The ranks with most kernels and those with most waiting.
Chart named_chart(const Forecast& forecast, const StepDetail& detail) {
  const std::size_t n = forecast.report.by_rank.size();
  std::vector<Groups> groups;
  for (std::size_t r = 0; r < n; ++r) groups.push_back(groups_of(forecast, r));
  std::set<std::size_t> chosen;
  for (const std::size_t group : {kernels, waiting}) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(std::min(n, named_ranks));
    std::partial_sort(order.begin(), middle, order.end(), [&](std::size_t a, std::size_t b) {
      return groups[a][group] != groups[b][group] ? groups[a][group] > groups[b][group] : a < b;
    });
    chosen.insert(order.begin(), middle);
  }
  std::vector<std::size_t> rows(chosen.begin(), chosen.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [&](std::size_t a, std::size_t b) { return groups[a][kernels] > groups[b][kernels]; });
  Chart table;
  table.id = "named-ranks";
  table.title = "The ranks with most time in kernels and those that wait most";
  table.columns = group_columns({{"rank", Unit::plain}, {"stage"}});
  table.columns.push_back({"peak memory", Unit::bytes});
  for (const std::size_t rank : rows) {
    Json row = {rank, detail.places[rank].cohort};
    append(row, groups[rank]);
    row.push_back(
        rounded(rank < forecast.report.memory.peak_by_rank.size() ? forecast.report.memory.peak_by_rank[rank] : 0));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

void add_timeline(Page& page, const StepDetail& detail) {
  if (detail.strips.empty()) return;
  page.section("Pipeline over time");
  Chart chart;
  chart.id = "timeline";
  const bool pipeline = detail.cohorts.size() > 1;
  chart.title = pipeline ? "A stage and its neighbours" : "The busiest rank, one between, the least busy";
  chart.columns = group_columns({{"line"}, {"from", Unit::seconds}, {"to", Unit::seconds}, {"doing"}});
  chart.legend = group_legend();
  chart.legend.push_back({"k-kernels2", "schedule: forward"});
  chart.legend.push_back({"k-kernels", "schedule: backward"});
  chart.controls = true;
  chart.shown_rows = 24;
  Strips strips;
  strips.duration = detail.duration_s;
  bool weight = false, both = false;
  for (const RankStrip& strip : detail.strips) {
    draw_strip(strip, strips, chart);
    for (const StripCall& call : strip.calls) {
      weight = weight || call_style(call) == "k-kernels3";
      both = both || call_style(call) == "k-total";
    }
  }
  if (weight) chart.legend.push_back({"k-kernels3", "schedule: weight gradients"});
  if (both) chart.legend.push_back({"k-total", "schedule: forward and backward at once"});
  chart.description = fmt::format(
      "{}: above what each runs, below how every moment of the compute stream is accounted for. Where there is more "
      "than "
      "can be drawn, neighbouring moments are one column whose parts are their shares. Zoom with the buttons, + and -, "
      "or "
      "Ctrl and the wheel; move with the arrows or the pointer.",
      pipeline ? "The stage on which the critical path spends most time, and its neighbours" : "Three ranks");
  chart.behaviour = behaviour(strips);
  chart.drawing = draw(strips);
  page.chart(std::move(chart));
}

void add_ranks(Page& page, const Forecast& forecast, const StepDetail& detail) {
  page.section("Ranks");
  page.chart(heat_chart(forecast, detail));
  page.data_table(named_chart(forecast, detail));
}

}  // namespace stepcast::scenarios::html
