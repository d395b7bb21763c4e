// The three formats of a comparison.
#include <cmath>

#include <fmt/format.h>

#include "scenarios/compare.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Comparison::Kind;

Json run_json(const RunSummary& run) {
  return {{"name", run.name},
          {"devices", run.devices},
          {"step_time_s", run.step_time_s},
          {"tokens_per_step", run.tokens_per_step},
          {"mfu", run.mfu},
          {"hfu", run.hfu},
          {"peak_memory_bytes", run.peak_memory_bytes}};
}

Json moved_json(const std::vector<Moved>& moved) {
  Json json = Json::object();
  for (const Moved& m : moved) json[m.name] = {{"a", m.a}, {"b", m.b}, {"change", m.b - m.a}};
  return json;
}

std::string signed_text(double value, std::string (*format)(double)) {
  return (value < 0 ? "-" : "+") + format(std::abs(value));
}

std::string moved_text(const char* what, const std::vector<Moved>& moved, std::string (*format)(double), double least) {
  TextTable table({what, "A", "B", "change"});
  for (const Moved& m : moved) {
    if (std::abs(m.b - m.a) <= least) continue;
    table.row({m.name, format(m.a), format(m.b), signed_text(m.b - m.a, format)});
  }
  return table.empty() ? std::string("  nothing moved\n") : table.text();
}

std::string list_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "  - " + wrapped(line, 4) + "\n";
  return text;
}

}  // namespace

std::string verdict(const Comparison& c) {
  const Scaling& s = c.scaled;
  switch (c.kind) {
    case Kind::strong_scaling:
      return fmt::format("strong scaling {} -> {} devices: speed-up {:.2f}, efficiency {:.1f} %", c.a.devices,
                         c.b.devices, s.speedup, 100 * s.efficiency);
    case Kind::weak_scaling:
      return fmt::format("weak scaling {} -> {} devices: efficiency {:.1f} %, throughput x {:.2f}", c.a.devices,
                         c.b.devices, 100 * s.efficiency, s.speedup);
    case Kind::variants:
      return fmt::format("the same work on {} devices: B takes {:.3f} times the time of A", c.a.devices, 1 / s.speedup);
    case Kind::different_work:
      break;
  }
  return fmt::format("no scaling result, the work differs; throughput B over A: {:.3f}", c.throughput_ratio);
}

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::strong_scaling:
      return "strong_scaling";
    case Kind::weak_scaling:
      return "weak_scaling";
    case Kind::variants:
      return "variants";
    case Kind::different_work:
      break;
  }
  return "different_work";
}

nlohmann::ordered_json to_json(const Comparison& c) {
  Json json;
  json["schema"] = compare_schema;
  json["kind"] = name(c.kind);
  json["a"] = run_json(c.a);
  json["b"] = run_json(c.b);
  json["throughput_ratio"] = c.throughput_ratio;
  if (c.kind != Kind::different_work) json["speedup"] = c.scaled.speedup;
  if (c.kind == Kind::strong_scaling || c.kind == Kind::weak_scaling) json["efficiency"] = c.scaled.efficiency;
  json["work_differences"] = c.work_differences;
  json["other_differences"] = c.other_differences;
  json["breaks"] = c.breaks;
  json["breakdown_s"] = moved_json(c.parts);
  json["memory_bytes"] = moved_json(c.memory);
  json["warnings"] = c.warnings;
  return json;
}

std::string to_table(const Comparison& c, bool colour) {
  constexpr double least_share = 0.0005;  // of the step or the peak
  std::string text = bold(verdict(c), colour) + "\n";
  TextTable runs({"", "devices", "step time", "tokens/s", "a device", "MFU", "HFU", "peak memory", "<scenario"});
  for (const auto& [label, run] : {std::pair<const char*, const RunSummary&>{"A", c.a}, {"B", c.b}}) {
    const double rate = run.tokens_per_step / run.step_time_s;
    runs.row({label, std::to_string(run.devices), time_text(run.step_time_s), count_text(rate),
              count_text(rate / run.devices), percent_text(run.mfu), percent_text(run.hfu),
              bytes_text(run.peak_memory_bytes), run.name});
  }
  text += runs.text();
  const auto section = [&](const char* title, const std::string& body) {
    if (!body.empty()) text += "\n" + bold(title, colour) + "\n" + body;
  };
  section("The work differs in", list_text(c.work_differences));
  section("Also different", list_text(c.other_differences));
  section("Breaks", list_text(c.breaks));
  section("What moved, mean over ranks", moved_text("category", c.parts, time_text, least_share * c.a.step_time_s));
  section("Memory at the peak", moved_text("part", c.memory, bytes_text, least_share * c.a.peak_memory_bytes));
  section("Warnings", list_text(c.warnings));
  return text;
}

std::string to_csv(const Comparison& c) {
  std::string text = csv_line({"part", "a", "b", "change"});
  const auto row = [&text](const std::string& part, double a, double b) {
    text += csv_line({part, csv_number(a), csv_number(b), csv_number(b - a)});
  };
  row("devices", c.a.devices, c.b.devices);
  row("step_time_s", c.a.step_time_s, c.b.step_time_s);
  row("tokens_per_s", c.a.tokens_per_step / c.a.step_time_s, c.b.tokens_per_step / c.b.step_time_s);
  row("mfu", c.a.mfu, c.b.mfu);
  row("hfu", c.a.hfu, c.b.hfu);
  row("peak_memory_bytes", c.a.peak_memory_bytes, c.b.peak_memory_bytes);
  for (const Moved& m : c.parts) row(m.name + "_s", m.a, m.b);
  for (const Moved& m : c.memory) row("memory_" + m.name + "_bytes", m.a, m.b);
  return text;
}

}  // namespace stepcast::scenarios
