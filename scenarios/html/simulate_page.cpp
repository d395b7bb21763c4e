// stepcast simulate --report: the scorecard first, then what stands behind it.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "scenarios/html/headroom_charts.h"
#include "scenarios/html/pages.h"
#include "scenarios/html/simulate_charts.h"
#include "scenarios/report/report.h"

namespace stepcast::scenarios::html {
namespace {

std::string layout_words(const Forecast& forecast) {
  const auto& spec = forecast.scenario.spec;
  const auto& d = spec.degrees;
  const int dp = spec.cluster.devices / std::max(1, d.tp * d.cp * d.pp);
  std::string text = fmt::format("{} on {} {} ({}): tp {}, cp {}, pp {}", spec.model.name, spec.cluster.devices,
                                 spec.cluster.device.name, spec.cluster.name, d.tp, d.cp, d.pp);
  if (d.vpp > 1) text += fmt::format(" x {} chunks", d.vpp);
  text += fmt::format(", dp {}", dp);
  if (spec.model.is_moe()) text += fmt::format(", ep {}, etp {}", d.ep, d.etp.value_or(1));
  return text + fmt::format("; {}, {}; {} sequences of {}, microbatch {}", parallelism::info(spec.schedule).name,
                            spec.recipe.name, spec.workload.global_batch, spec.workload.sequence_length,
                            spec.workload.micro_batch);
}

std::string step_note(const Page& page, const Forecast& forecast) {
  const auto n = [&](const char* key) { return page.number(std::string("/step_time_s/") + key, Unit::seconds); };
  if (forecast.step_time.samples < 2) return "one sampled step";
  std::string note = fmt::format("mean of {}; p50 {}", page.number("/step_time_s/samples", Unit::plain), n("p50"));
  if (forecast.step_time.p95_s >= 0) note += ", p95 " + n("p95");
  if (forecast.step_time.p99_s >= 0) note += ", p99 " + n("p99");
  return note + ", " + n("min") + " to " + n("max");
}

std::vector<Tile> tiles_of(const Page& page, const Forecast& forecast) {
  const auto& u = forecast.utilisation;
  std::vector<Tile> tiles = {{"step time", page.number("/step_time_s/mean", Unit::seconds), step_note(page, forecast)},
                             {"tokens/s", page.number("/throughput/tokens_per_s", Unit::count),
                              page.number("/throughput/tokens_per_s_per_device", Unit::count) + " a device; " +
                                  page.number("/throughput/steps_per_s", Unit::count) + " steps/s"},
                             {"MFU", page.number("/utilisation/mfu", Unit::percent),
                              fmt::format("HFU {} of {}FLOP/s ({}), {}", page.number("/utilisation/hfu", Unit::percent),
                                          page.number("/utilisation/peak_flops_per_device", Unit::flops),
                                          escaped(u.peak_precision), escaped(u.convention))},
                             {"pipeline bubble", page.number("/bubble/fraction", Unit::percent),
                              forecast.ideal_bubble_fraction >= 0
                                  ? "of the step; ideal " + page.number("/bubble/ideal_fraction", Unit::percent)
                                  : std::string("of the step")},
                             {"memory at the peak", page.number("/memory/peak_bytes", Unit::bytes),
                              fmt::format("of {}, rank {}: {}", page.number("/memory/limit_bytes", Unit::bytes),
                                          page.number("/memory/peak_rank", Unit::plain),
                                          forecast.memory.fits ? "fits" : "<strong>does not fit</strong>")}};
  if (forecast.moe) {
    tiles.push_back(
        {"busiest expert rank", page.number("/moe/imbalance", Unit::factor),
         "of the mean rows; " + page.number("/throughput/assignments_per_s", Unit::count) + " expert assignments/s"});
  }
  return tiles;
}

std::vector<std::string> hints_of(const Json& result) {
  std::vector<std::string> hints;
  for (const Json& hint : result["hints"]) {
    hints.push_back(hint["symptom"].get<std::string>() + ": " + hint["look_at"].get<std::string>());
  }
  return hints;
}

void add_scenario(Page& page, const Forecast& forecast) {
  page.section("Scenario and engine");
  if (!forecast.stage_split.empty()) page.paragraph("Stages: " + forecast.stage_split);
  const auto number = [&](const char* key, Unit unit) { return page.number(std::string("/engine/") + key, unit); };
  page.markup(element("p", {},
                      number("rank_ops", Unit::count) + " rank-ops a step, " + number("rank_ops_per_s", Unit::count) +
                          " rank-ops/s on " + number("threads", Unit::plain) + " threads, " +
                          number("wall_s", Unit::seconds) + " wall."));
  Table table{"The resolved scenario; run again it gives the same result.", {{"key"}, {"value"}}, {}};
  const Json flat = forecast.scenario.resolved.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    table.rows.push_back({text_cell(std::string_view(pointer).substr(1)), text_cell(shortened(text, 300))});
    if (table.rows.size() == 400) break;  // the JSON in the page holds all
  }
  page.markup("<details class=\"data\"><summary>Every key of the resolved scenario</summary>");
  page.table(table);
  page.markup("</details>");
}

}  // namespace

std::string simulate_page(const Forecast& forecast, const StepDetail& detail, const Headroom* headroom) {
  const std::string name = forecast.scenario.name.empty() ? std::string("Forecast") : forecast.scenario.name;
  Json result = to_json(forecast);
  if (headroom != nullptr) result["headroom"] = to_json(*headroom);
  Page page(name, layout_words(forecast), std::move(result));
  page.may_leave_out({"/samples_s"});
  page.tiles(tiles_of(page, forecast));
  if (forecast.interrupted) page.list("Interrupted", {"Some sampled steps are missing."}, true);
  page.list("Warnings", forecast.warnings, true);
  page.list("Where to look", hints_of(page.result()));
  page.list("Assumptions", forecast.assumptions);
  add_breakdown(page, forecast);
  add_timeline(page, detail);
  add_critical_path(page, forecast, detail);
  add_ranks(page, forecast, detail);
  add_communication(page, forecast);
  add_memory(page, forecast, detail);
  add_experts(page, forecast, detail);
  if (headroom != nullptr) add_headroom(page, *headroom, "/headroom");
  add_scenario(page, forecast);
  return page.text();
}

Result<std::string> simulate_page(const Forecast& forecast, const Headroom* headroom) {
  constexpr std::size_t least_cells = 50;  // a drawing of less says nothing; by then the result alone is too large
  DetailLimits limits;
  for (;;) {
    const auto detail = step_detail(forecast, limits);
    if (!detail) return detail.errors();
    std::string page = simulate_page(forecast, *detail, headroom);
    if (page.size() < most_page_bytes || limits.cells < least_cells) return page;
    for (std::size_t* limit : {&limits.pieces, &limits.calls, &limits.memory_points, &limits.expert_layers,
                               &limits.cells, &limits.path_marks}) {
      *limit = std::max<std::size_t>(1, *limit / 2);
    }
  }
}

}  // namespace stepcast::scenarios::html
