// The three formats of a run.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/reliability/run_forecast.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr double hour = 3600, day = 86400;

Json spread_json(const Spread& s) { return {{"mean", s.mean}, {"p10", s.p10}, {"p50", s.p50}, {"p90", s.p90}}; }

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json known(double value) { return value >= 0 ? Json(value) : Json(nullptr); }
Json positive(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json plan_json(const RunForecast& run) {
  const RunPlan& p = run.plan;
  Json json;
  json["step_s"] = p.step_s;
  json["tokens_per_step"] = p.tokens_per_step;
  json["devices"] = p.devices;
  json["mtbf_s"] = finite(run.mtbf_s);
  json["failures_per_day"] = Json::object();
  for (std::size_t c = 0; c < p.failures_per_s.size(); ++c) {
    json["failures_per_day"][std::string(name(static_cast<Cause>(c)))] = p.failures_per_s[c] * day;
  }
  json["detect_s"] = p.detect_s;
  json["restart_s"] = p.restart_s;
  json["spare_nodes"] = p.spare_nodes >= 0 ? Json(p.spare_nodes) : Json(nullptr);
  json["utilisation"] = p.utilisation;
  if (p.busy_w > 0) {
    json["power_w"] = {{"device_idle", p.idle_w}, {"device_busy", p.busy_w}, {"host", p.host_w}, {"pue", p.pue}};
  }
  return json;
}

Json checkpoint_json(const RunForecast& run) {
  const RunPlan& p = run.plan;
  return {{"rule", name(p.rule)},           {"interval_s", p.interval_s},
          {"bytes", p.checkpoint_bytes},    {"blocking_s", p.blocking_s},
          {"background_s", p.write_s},      {"young_s", positive(run.young_s)},
          {"daly_s", positive(run.daly_s)}, {"sampled_optimum_s", positive(run.sampled_s)},
          {"penalty", run.penalty},         {"tokens_per_s_between", p.tokens_per_s_between_checkpoints()}};
}

double per_million(const RunForecast& run, double amount) { return amount / (run.tokens.mean / 1e6); }

std::string spread_text(const Spread& s, const char* format) {
  const auto one = [&](double v) { return fmt::format(fmt::runtime(format), v); };
  return fmt::format("{} (p10 {}, p90 {})", one(s.p50), one(s.p10), one(s.p90));
}

std::string money(const RunForecast& run, double amount) {
  return run.plan.currency.empty() ? fmt::format("{:.4g}", amount)
                                   : fmt::format("{:.4g} {}", amount, run.plan.currency);
}

std::string lost_table(const RunForecast& run) {
  const double wall = run.days.mean * day;
  TextTable table({"cause", "stops", "lost, hours", "of the run", "rework", "detect", "restart", "wait", "<"});
  for (int c = 0; c < cause_count; ++c) {
    const auto cause = static_cast<Cause>(c);
    const double lost = run.lost_by_cause_s(cause);
    if (lost == 0 && run.events[static_cast<std::size_t>(c)] == 0) continue;
    const auto& parts = run.lost_s[static_cast<std::size_t>(c)];
    const auto hours = [&](Part part) { return fmt::format("{:.1f}", parts[static_cast<std::size_t>(part)] / hour); };
    table.row({std::string(name(cause)), fmt::format("{:.1f}", run.events[static_cast<std::size_t>(c)]),
               fmt::format("{:.1f}", lost / hour), percent_text(lost / wall), hours(Part::rework),
               hours(Part::detection), hours(Part::restart), hours(Part::waiting_for_node), bar(lost / wall, 20)});
  }
  return table.empty() ? "  nothing was lost\n" : table.text();
}

std::string list_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "  - " + wrapped(line, 4) + "\n";
  return text;
}

}  // namespace

Json to_json(const RunForecast& run) {
  Json json;
  json["schema"] = run_schema;
  json["name"] = run.name;
  json["scenario"] = run.scenario;
  json["replicas"] = run.replicas;
  json["days"] = spread_json(run.days);
  json["goodput"] = spread_json(run.goodput);
  json["tokens"] = spread_json(run.tokens);
  json["tokens_per_day"] = spread_json(run.tokens_per_day);
  json["interruptions"] = spread_json(run.interruptions);
  json["lost"] = Json::object();
  for (int c = 0; c < cause_count; ++c) {
    const auto cause = static_cast<Cause>(c);
    Json& entry = json["lost"][std::string(name(cause))];
    entry["events"] = run.events[static_cast<std::size_t>(c)];
    entry["lost_s"] = run.lost_by_cause_s(cause);
    for (int p = 0; p < part_count; ++p) {
      const double seconds = run.lost_s[static_cast<std::size_t>(c)][static_cast<std::size_t>(p)];
      if (seconds > 0) entry[std::string(name(static_cast<Part>(p))) + "_s"] = seconds;
    }
  }
  json["checkpoint"] = checkpoint_json(run);
  json["device_hours"] = run.device_hours;
  json["cost"] = known(run.cost);
  json["cost_per_million_tokens"] = run.cost >= 0 ? Json(per_million(run, run.cost)) : Json(nullptr);
  if (!run.plan.currency.empty()) json["currency"] = run.plan.currency;
  json["energy_kwh"] = known(run.energy_kwh);
  json["energy_kwh_per_million_tokens"] = run.energy_kwh >= 0 ? Json(per_million(run, run.energy_kwh)) : Json(nullptr);
  json["plan"] = plan_json(run);
  json["assumptions"] = run.assumptions;
  json["warnings"] = run.warnings;
  return json;
}

std::string to_table(const RunForecast& run, bool colour) {
  const RunPlan& p = run.plan;
  const bool by_tokens = std::isfinite(p.work_s);
  std::string text =
      bold(fmt::format("{}: {} devices, step {}", run.name, p.devices, time_text(p.step_s)), colour) + "\n";
  text += fmt::format("  {:<12} {} for {} tokens\n", "days", spread_text(run.days, "{:.2f}"),
                      count_text(by_tokens ? run.tokens.mean : run.tokens.p50));
  text += fmt::format(
      "  {:<12} {} %\n", "goodput",
      spread_text({100 * run.goodput.mean, 100 * run.goodput.p10, 100 * run.goodput.p50, 100 * run.goodput.p90},
                  "{:.2f}"));
  text += fmt::format("  {:<12} {} tokens a day; {} tokens/s between checkpoints\n", "rate",
                      count_text(run.tokens_per_day.p50), count_text(p.tokens_per_s_between_checkpoints()));
  text +=
      fmt::format("  {:<12} {}{}\n", "stops", spread_text(run.interruptions, "{:.0f}"),
                  std::isfinite(run.mtbf_s) ? fmt::format("; a failure every {:.2f} hours", run.mtbf_s / hour) : "");
  text += fmt::format("  {:<12} every {} ({}), {} blocking{}\n", "checkpoint", time_text(p.interval_s), name(p.rule),
                      time_text(p.blocking_s),
                      p.write_s > 0 ? fmt::format(", durable {} later", time_text(p.write_s)) : "");
  if (run.young_s > 0) {
    text += fmt::format("  {:<12} Young {}, Daly {}{}\n", "", time_text(run.young_s), time_text(run.daly_s),
                        run.sampled_s > 0 ? ", sampled optimum " + time_text(run.sampled_s) : "");
  }
  text += fmt::format("  {:<12} {} device-hours", "spent", count_text(run.device_hours));
  if (run.cost >= 0) {
    text += fmt::format("; cost {}, {} a million tokens", money(run, run.cost), money(run, per_million(run, run.cost)));
  } else {
    text += "; no price given (reliability.price_per_device_hour)";
  }
  text += "\n";
  if (run.energy_kwh >= 0) {
    text += fmt::format("  {:<12} {:.4g} MWh, {:.4g} kWh a million tokens\n", "energy", run.energy_kwh / 1000,
                        per_million(run, run.energy_kwh));
  }
  text +=
      "\n" + bold(fmt::format("Lost time, mean of {} sampled run(s)", run.replicas), colour) + "\n" + lost_table(run);
  if (!run.warnings.empty()) text += "\n" + bold("Warnings", colour) + "\n" + list_text(run.warnings);
  if (!run.assumptions.empty()) text += "\n" + bold("Assumptions", colour) + "\n" + list_text(run.assumptions);
  return text;
}

std::string to_csv(const RunForecast& run) {
  std::string text = csv_line({"quantity", "mean", "p10", "p50", "p90"});
  const auto row = [&text](const char* what, const Spread& s) {
    text += csv_line({what, csv_number(s.mean), csv_number(s.p10), csv_number(s.p50), csv_number(s.p90)});
  };
  row("days", run.days);
  row("goodput", run.goodput);
  row("tokens", run.tokens);
  row("tokens_per_day", run.tokens_per_day);
  row("interruptions", run.interruptions);
  const auto one = [&text](const std::string& what, double value) {
    text += csv_line({what, csv_number(value), "", "", ""});
  };
  for (int c = 0; c < cause_count; ++c) {
    one(fmt::format("lost_{}_s", name(static_cast<Cause>(c))), run.lost_by_cause_s(static_cast<Cause>(c)));
  }
  one("checkpoint_interval_s", run.plan.interval_s);
  one("device_hours", run.device_hours);
  if (run.cost >= 0) one("cost", run.cost);
  if (run.energy_kwh >= 0) one("energy_kwh", run.energy_kwh);
  return text;
}

}  // namespace stepcast::scenarios
