// Communication, memory over time, and the rows of every expert.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "scenarios/html/bars.h"
#include "scenarios/html/lines.h"
#include "scenarios/html/simulate_charts.h"
#include "scenarios/report/text_table.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios::html {
namespace {

constexpr std::size_t drawn_parts = 8;      // of memory; the rest is one
constexpr std::size_t drawn_experts = 128;  // bars; above, neighbours in the order are one

Chart communication_chart(const Forecast& forecast) {
  Chart chart;
  chart.id = "communication";
  chart.title = "Transfers: hidden under kernels, exposed, and waited for";
  chart.columns = {{"collective"}, {"hidden", Unit::seconds}, {"exposed", Unit::seconds}, {"waiting", Unit::seconds}};
  chart.legend = {{"k-kernels2", "hidden"}, {"k-exposed", "exposed"}, {"k-waiting", "waiting for peers or messages"}};
  Bars bars;
  bars.label_width = 190;
  bars.axis = "time a rank and step, mean over ranks";
  std::vector<const CommunicationRow*> rows;
  for (const CommunicationRow& row : forecast.communication) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return a->exposed_s + a->wait_s > b->exposed_s + b->wait_s; });
  double all_exposed = 0, all_raw = 0;
  for (const CommunicationRow* row : rows) {
    const std::string name = fmt::format("{} ({})", row->kind, row->group);
    const double hidden = std::max(0.0, row->raw_s - row->exposed_s);
    const double raw = hidden + row->exposed_s;
    bars.lines.push_back({name,
                          {{0, hidden, "k-kernels2", name + ", hidden: " + time_text(hidden)},
                           {hidden, raw, "k-exposed", name + ", exposed: " + time_text(row->exposed_s)},
                           {raw, raw + row->wait_s, "k-waiting", name + ", waiting: " + time_text(row->wait_s)}},
                          raw > 0 ? percent_text(row->exposed_s / raw) + " exp." : ""});
    chart.rows.push_back({name, rounded(hidden), rounded(row->exposed_s), rounded(row->wait_s)});
    all_exposed += row->exposed_s;
    all_raw += raw;
  }
  chart.description = fmt::format(
      "{} of {} of transfers a rank and step lie in gaps of the compute stream; at each bar's end the exposed share of "
      "its "
      "transfer time.",
      time_text(all_exposed), time_text(all_raw));
  chart.drawing = draw(bars);
  return chart;
}

Table communication_table(const Page& page, const Forecast& forecast) {
  Table table{"A rank and step, mean over ranks that take part. Exposed share is of the transfer time.",
              {{"collective"},
               {"group"},
               {"over"},
               {"calls", Unit::count},
               {"payload", Unit::bytes},
               {"wire", Unit::bytes},
               {"transfer", Unit::seconds},
               {"exposed", Unit::seconds},
               {"exposed share", Unit::percent},
               {"waiting", Unit::seconds},
               {"algbw GB/s", Unit::plain},
               {"busbw GB/s", Unit::plain}},
              {}};
  for (std::size_t i = 0; i < forecast.communication.size(); ++i) {
    const CommunicationRow& row = forecast.communication[i];
    const std::string at = fmt::format("/communication/{}/", i);
    const double share = row.raw_s > 0 ? row.exposed_s / row.raw_s : 0;
    table.rows.push_back({text_cell(row.kind),
                          text_cell(row.group),
                          text_cell(row.span),
                          page.cell(at + "calls", Unit::count),
                          page.cell(at + "payload_bytes", Unit::bytes),
                          page.cell(at + "wire_bytes", Unit::bytes),
                          page.cell(at + "raw_s", Unit::seconds),
                          page.cell(at + "exposed_s", Unit::seconds),
                          {escaped(percent_text(share)), fmt::format("{}", share), true},
                          page.cell(at + "wait_s", Unit::seconds),
                          page.cell(at + "algbw_gb_per_s", Unit::count),
                          page.cell(at + "busbw_gb_per_s", Unit::count)});
  }
  return table;
}

// The largest parts each for themselves, the others together.
Chart memory_chart(const Forecast& forecast, const MemoryTrack& track) {
  Chart chart;
  chart.id = "memory";
  chart.title = fmt::format("Memory over the step, rank {}", track.rank);
  chart.columns = {{"time", Unit::seconds}};
  Areas areas;
  areas.at = track.at_s;
  areas.x = {"time since the step's begin", Unit::seconds, false, true, {}};
  areas.y = {"allocated", Unit::bytes, false, true, {}};
  areas.limit = forecast.memory.limit_bytes;
  areas.limit_words = "limit " + bytes_text(areas.limit);
  const std::size_t own = track.parts.size() > drawn_parts ? drawn_parts - 1 : track.parts.size();
  for (std::size_t p = 0; p < track.parts.size(); ++p) {
    if (p <= own && p < drawn_parts) {
      const bool rest = p == own;
      const std::string words = rest ? "other parts" : track.parts[p];
      areas.areas.push_back({std::vector<double>(areas.at.size(), 0), fmt::format("s{}", p + 1), words});
      chart.legend.push_back({fmt::format("s{}", p + 1), words});
      chart.columns.push_back({words, Unit::bytes});
    }
    auto& values = areas.areas.back().values;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += track.bytes[p][i];
  }
  for (std::size_t i = 0; i < areas.at.size(); ++i) {
    Json row = {rounded(areas.at[i])};
    for (const Areas::Area& area : areas.areas) row.push_back(rounded(area.values[i]));
    chart.rows.push_back(std::move(row));
  }
  chart.description = fmt::format(
      "Bytes by part on the rank with the highest peak, {} at {}, in the order in which the allocator is asked; of "
      "each "
      "moment that is drawn, the highest total within it.",
      bytes_text(forecast.memory.peak_bytes), time_text(forecast.memory.peak_at_s));
  const auto fragmentation = forecast.memory.by_part.find("fragmentation");
  if (fragmentation != forecast.memory.by_part.end()) {
    chart.description +=
        fmt::format(" {} of fragmentation come on top of what is drawn.", bytes_text(fragmentation->second));
  }
  chart.shown_rows = 12;
  chart.drawing = draw(areas);
  return chart;
}

Table memory_table(const Page& page, const Forecast& forecast) {
  Table table{"At the peak.", {{"part"}, {"bytes", Unit::bytes}, {"of the limit", Unit::percent}}, {}};
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [part, bytes] : forecast.memory.by_part) parts.emplace_back(-bytes, part);
  std::sort(parts.begin(), parts.end());
  for (const auto& [bytes, part] : parts) {
    const double share = forecast.memory.limit_bytes > 0 ? -bytes / forecast.memory.limit_bytes : 0;
    table.rows.push_back({text_cell(part),
                          page.cell("/memory/by_part" + pointer_step(part), Unit::bytes),
                          {escaped(percent_text(share)), fmt::format("{}", share), true}});
  }
  return table;
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Chart layers_chart(const StepDetail& detail) {
  Chart chart;
  chart.id = "expert-layers";
  chart.title = "Rows of experts by layer, over the layer's mean";
  chart.columns = {{"layer", Unit::plain}, {"least", Unit::plain}, {"median", Unit::plain}, {"most", Unit::plain}};
  chart.legend = {{"s6", "busiest expert"}, {"s1", "median"}, {"s3", "least busy expert"}};
  Curve most{{}, "s6", false, {}}, median{{}, "s1", false, {}}, least{{}, "s3", false, {}};
  double highest = 0;
  for (const LayerLoad& layer : detail.experts) {
    std::vector<double> rows = layer.rows;
    std::sort(rows.begin(), rows.end());
    const double over = std::max(1e-9, mean(rows));
    const std::array<double, 3> values = {rows.front() / over, rows[rows.size() / 2] / over, rows.back() / over};
    least.points.push_back({static_cast<double>(layer.layer), values[0]});
    median.points.push_back({static_cast<double>(layer.layer), values[1]});
    most.points.push_back({static_cast<double>(layer.layer), values[2]});
    most.tips.push_back(fmt::format("layer {}: {:.2f}x the mean", layer.layer, values[2]));
    chart.rows.push_back({layer.layer, rounded(values[0]), rounded(values[1]), rounded(values[2])});
    highest = std::max(highest, values[2]);
  }
  Lines lines;
  lines.curves = {most, median, least};
  lines.x = {"decoder layer", Unit::plain, false, false, {}};
  lines.y = {"rows over the mean", Unit::plain, false, true, {}};
  lines.height = 260;
  chart.description = fmt::format(
      "One expert group and one microbatch of the recorded step, {} MoE layers: the busiest expert of all has {:.2f} "
      "times "
      "its layer's mean rows.",
      detail.experts.size(), highest);
  chart.drawing = draw(lines);
  return chart;
}

Chart experts_chart(const StepDetail& detail) {
  const auto uneven = std::max_element(detail.experts.begin(), detail.experts.end(), [](const auto& a, const auto& b) {
    const auto over = [](const std::vector<double>& r) {
      return *std::max_element(r.begin(), r.end()) / std::max(1e-9, mean(r));
    };
    return over(a.rows) < over(b.rows);
  });
  std::vector<std::pair<double, int>> order;
  for (std::size_t e = 0; e < uneven->rows.size(); ++e) order.emplace_back(-uneven->rows[e], static_cast<int>(e));
  std::sort(order.begin(), order.end());
  Chart chart;
  chart.id = "experts";
  chart.title = fmt::format("Every expert of layer {}, the most uneven one", uneven->layer);
  chart.columns = {{"expert", Unit::plain}, {"rows", Unit::count}};
  Curve curve{{}, "s1", false, {}};
  const std::size_t every = (order.size() + drawn_experts - 1) / drawn_experts;
  for (std::size_t i = 0; i < order.size(); ++i) {
    chart.rows.push_back({order[i].second, -order[i].first});
    if (i % every != 0) continue;
    curve.points.push_back({static_cast<double>(i + 1), -order[i].first});
    curve.tips.push_back(fmt::format("expert {}: {} rows", order[i].second, count_text(-order[i].first)));
  }
  const double m = mean(uneven->rows);
  Lines lines;
  lines.curves = {{{{1, m}, {static_cast<double>(order.size()), m}}, "s8", true, {}}, curve};
  lines.x = {"experts, busiest first", Unit::plain, false, false, {}};
  lines.y = {"rows of a microbatch", Unit::count, false, true, {}};
  lines.height = 240;
  chart.legend = {{"s1", "kept rows"}, {"s8", "mean " + count_text(m)}};
  chart.description = fmt::format("{} experts; the busiest, expert {}, has {} rows, the mean is {}.", order.size(),
                                  order.front().second, count_text(-order.front().first), count_text(m));
  chart.drawing = draw(lines);
  chart.shown_rows = 16;
  return chart;
}

}  // namespace

void add_communication(Page& page, const Forecast& forecast) {
  if (forecast.communication.empty()) return;
  page.section("Communication");
  page.chart(communication_chart(forecast));
  page.table(communication_table(page, forecast));
}

void add_memory(Page& page, const Forecast& forecast, const StepDetail& detail) {
  page.section("Memory");
  if (!detail.memory.at_s.empty()) page.chart(memory_chart(forecast, detail.memory));
  page.table(memory_table(page, forecast));
}

void add_experts(Page& page, const Forecast& forecast, const StepDetail& detail) {
  if (!forecast.moe) return;
  page.section("Experts");
  const auto rows = [&](const char* key) {
    return page.number(std::string("/moe/tokens_per_expert/") + key, Unit::count);
  };
  const auto moe = [&](const char* key, Unit unit) { return page.number(std::string("/moe/") + key, unit); };
  page.markup(element("p", {},
                      "Rows per expert, over layers, groups and microbatches: " + rows("min") + " / " + rows("median") +
                          " / " + rows("max") + " (min / median / max). Busiest rank " +
                          moe("imbalance", Unit::factor) + " the mean of its group; capacity use " +
                          moe("capacity_use", Unit::percent) + "; of " + moe("routed", Unit::count) +
                          " routed rows a step " + moe("dropped", Unit::count) + " dropped, " +
                          moe("padded", Unit::count) + " padded."));
  if (detail.experts.empty()) return;
  page.chart(layers_chart(detail));
  page.chart(experts_chart(detail));
}

}  // namespace stepcast::scenarios::html
