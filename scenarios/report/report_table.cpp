// The scorecard on a terminal: what a first screen must answer comes first, the details below it.
#include <algorithm>

#include <fmt/format.h>

#include "scenarios/report/diagnosis.h"
#include "scenarios/report/report.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

constexpr int bar_width = 24;
constexpr double shown_share = 0.0005;  // of the step or of the peak; below, a line says nothing

double seconds(Ticks ticks) { return to_seconds(ticks).value; }

std::string headline(const Forecast& forecast) {
  const auto& spec = forecast.scenario.spec;
  const auto& d = spec.degrees;
  const int dp = spec.cluster.devices / std::max(1, d.tp * d.cp * d.pp);
  std::string text = fmt::format("{} on {} {} ({})", spec.model.name, spec.cluster.devices, spec.cluster.device.name,
                                 spec.cluster.name);
  std::string layout = fmt::format("tp {}, cp {}, pp {}", d.tp, d.cp, d.pp);
  if (d.vpp > 1) layout += fmt::format(" x {} chunks", d.vpp);
  layout += fmt::format(", dp {}", dp);
  if (spec.model.is_moe()) layout += fmt::format(", ep {}, etp {}", d.ep, d.etp.value_or(1));
  layout += fmt::format("; {}, {}", parallelism::info(spec.schedule).name, spec.recipe.name);
  layout += fmt::format("; {} sequences of {}, microbatch {}", spec.workload.global_batch,
                        spec.workload.sequence_length, spec.workload.micro_batch);
  return text + "\n  " + wrapped(layout, 2);
}

std::string step_time_text(const StepTimeStats& stats) {
  std::string text = fmt::format("{} mean of {} sampled step{}", time_text(stats.mean_s), stats.samples,
                                 stats.samples == 1 ? "" : "s");
  if (stats.samples > 1) {
    text += fmt::format("; p50 {}", time_text(stats.p50_s));
    const auto tail = [&text](const char* name, double value, const std::optional<Interval>& interval) {
      if (value < 0) return;
      text += fmt::format(", {} {}", name, time_text(value));
      if (interval) text += fmt::format(" (95 %: {} to {})", time_text(interval->low), time_text(interval->high));
    };
    tail("p95", stats.p95_s, stats.p95_interval);
    tail("p99", stats.p99_s, stats.p99_interval);
    text += fmt::format(", {} to {}", time_text(stats.min_s), time_text(stats.max_s));
  }
  return text;
}

std::string utilisation_text(const Utilisation& u) {
  std::string text = fmt::format("MFU {}, HFU {} of {:.0f} TFLOP/s ({}), {}", percent_text(u.mfu), percent_text(u.hfu),
                                 u.peak_flops_per_device / 1e12, u.peak_precision, u.convention);
  if (u.bf16_peak_flops_per_device > 0 && u.bf16_peak_flops_per_device != u.peak_flops_per_device) {
    text += fmt::format("; MFU {} of the BF16 peak {:.0f}",
                        percent_text(u.mfu * u.peak_flops_per_device / u.bf16_peak_flops_per_device),
                        u.bf16_peak_flops_per_device / 1e12);
  }
  return text;
}

std::string summary(const Forecast& forecast) {
  const double step = std::max(forecast.step_time.mean_s, 1e-30);
  const MemoryAccount& memory = forecast.memory;
  const auto line = [](const char* label, const std::string& text) {
    return fmt::format("  {:<13}{}\n", label, wrapped(text, 15));
  };
  std::string text = line("step time", step_time_text(forecast.step_time));
  text += line("throughput",
               fmt::format("{} tokens/s, {} a device; {:.4g} steps/s{}", count_text(forecast.tokens_per_step / step),
                           count_text(forecast.tokens_per_step / step / std::max(1, forecast.engine.devices)), 1 / step,
                           forecast.moe ? fmt::format("; {} expert assignments/s",
                                                      count_text(forecast.assignments_per_step / step))
                                        : ""));
  text += line("utilisation", utilisation_text(forecast.utilisation));
  text += line("memory",
               fmt::format("{} of {} at the peak, rank {}: {}", bytes_text(memory.peak_bytes),
                           bytes_text(memory.limit_bytes), memory.peak_rank, memory.fits ? "fits" : "DOES NOT FIT"));
  text += line("bubble", fmt::format("{} of the step{}", percent_text(forecast.bubble_fraction),
                                     forecast.ideal_bubble_fraction >= 0
                                         ? fmt::format("; ideal {}", percent_text(forecast.ideal_bubble_fraction))
                                         : ""));
  return text;
}

std::string breakdown_text(const Forecast& forecast) {
  std::vector<std::pair<std::string, sim::CategoryStats>> rows(forecast.breakdown.begin(), forecast.breakdown.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.mean > b.second.mean; });
  const double step = std::max(forecast.step_time.mean_s, 1e-30);
  TextTable table({"category", "mean", "share", "<", "p95", "max", "rank", "critical path"});
  for (const auto& [category, stats] : rows) {
    const double share = seconds(stats.mean) / step;
    if (share < shown_share && seconds(stats.max) / step < shown_share) continue;
    table.row({category, time_text(seconds(stats.mean)), percent_text(share), bar(share, bar_width),
               time_text(seconds(stats.p95)), time_text(seconds(stats.max)), std::to_string(stats.max_rank.value),
               time_text(seconds(stats.critical_path))});
  }
  return table.text();
}

// "64 ranks over 8 NVLink domains" as "64 over 8": the columns beside it need the room.
std::string short_span(std::string span) {
  for (const auto& [words, fewer] :
       {std::pair<std::string_view, std::string_view>{" ranks in one NVLink domain", " in 1"},
        {" ranks over ", " over "},
        {" NVLink domains", ""},
        {"pipeline ", ""}}) {
    if (const auto at = span.find(words); at != std::string::npos) span.replace(at, words.size(), fewer);
  }
  return span;
}

std::string communication_text(const Forecast& forecast) {
  TextTable table(
      {"collective", "<group", "<over domains", "calls", "payload", "wire", "raw", "exposed", "wait", "busbw"});
  for (const CommunicationRow& row : forecast.communication) {
    table.row({row.kind, row.group, short_span(row.span), count_text(row.calls), bytes_text(row.payload_bytes),
               bytes_text(row.wire_bytes), time_text(row.raw_s), time_text(row.exposed_s), time_text(row.wait_s),
               fmt::format("{:.1f}", row.busbw_gb_per_s)});
  }
  return table.text();
}

std::string memory_text(const MemoryAccount& memory) {
  std::vector<std::pair<std::string, double>> rows(memory.by_part.begin(), memory.by_part.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  TextTable table({"part", "bytes", "of the limit", "<"});
  for (const auto& [part, bytes] : rows) {
    const double share = memory.limit_bytes > 0 ? bytes / memory.limit_bytes : 0;
    if (share < shown_share) continue;
    table.row({part, bytes_text(bytes), percent_text(share), bar(share, bar_width)});
  }
  return table.text();
}

std::string moe_text(const Forecast& forecast) {
  const auto& load = forecast.expert_load;
  const double kept = std::max(1.0, load.routed);
  return fmt::format(
      "  rows per expert {} / {} / {} (min / median / max); busiest rank {:.2f}x the mean\n"
      "  capacity use {}, dropped {}, padded {}\n",
      count_text(load.min), count_text(load.median), count_text(load.max), load.imbalance,
      percent_text(load.capacity_use), percent_text(load.dropped / kept), percent_text(load.padded / kept));
}

std::string engine_text(const EngineStats& engine) {
  std::string text =
      "  " +
      wrapped(fmt::format("{} devices, {} rank-ops a step, {} rank-ops/s on {} thread{}, {} wall, {} resident",
                          engine.devices, count_text(static_cast<double>(engine.rank_ops)),
                          count_text(engine.rank_ops_per_s), engine.threads, engine.threads == 1 ? "" : "s",
                          time_text(engine.wall_s), bytes_text(static_cast<double>(engine.peak_rss_bytes))),
              2) +
      "\n";
  std::string shares;
  for (const auto& [tier, share] : engine.tier_share) {
    shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", tier, percent_text(share));
  }
  return shares.empty() ? text : text + "  rank-ops by tier: " + shares + "\n";
}

std::string list_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "  - " + wrapped(line, 4) + "\n";
  return text;
}

}  // namespace

std::string to_table(const Forecast& forecast, bool colour) {
  std::string text = bold(headline(forecast), colour) + "\n" + summary(forecast);
  const auto section = [&](const std::string& title, const std::string& body) {
    if (!body.empty()) text += "\n" + bold(title, colour) + "\n" + body;
  };
  if (forecast.interrupted) section("INTERRUPTED", "  some sampled steps are missing\n");
  section("Where the step goes, mean over ranks", breakdown_text(forecast));
  std::string hints;
  for (const Hint& hint : diagnose(symptoms_of(forecast))) {
    hints += "  - " + wrapped(hint.symptom + ": " + hint.look_at, 4) + "\n";
  }
  section("Where to look", hints);
  if (!forecast.communication.empty())
    section("Communication, a rank and step (busbw in GB/s)", communication_text(forecast));
  section(fmt::format("Memory at the peak, rank {}", forecast.memory.peak_rank), memory_text(forecast.memory));
  if (forecast.moe) section("Experts", moe_text(forecast));
  section("Stages", forecast.stage_split.empty() ? "" : "  " + wrapped(forecast.stage_split, 2) + "\n");
  section("Engine", engine_text(forecast.engine));
  section("Assumptions", list_text(forecast.assumptions));
  section("Warnings", list_text(forecast.warnings));
  return text;
}

}  // namespace stepcast::scenarios
