#include "scenarios/compare.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/report/report.h"
#include "sim/base/json_fields.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr double same_work = 0.01;  // packed batches differ by a few tokens
constexpr double full_efficiency = 1.0;
constexpr double huge = 1e300;

bool nearly(double a, double b) { return std::abs(a - b) <= same_work * std::max(std::abs(a), std::abs(b)); }

// The batch decides where both results know it: a batch that is nearly the same is another one.
bool keeps(ScalingKind kind, const Comparison& c) {
  const auto a = global_batch(c.a.scenario), b = global_batch(c.b.scenario);
  if (a && b && !same_batch(kind, *a, c.a.devices, *b, c.b.devices)) return false;
  return kind == ScalingKind::strong ? nearly(c.a.tokens_per_step, c.b.tokens_per_step)
                                     : nearly(c.a.tokens_per_step / c.a.devices, c.b.tokens_per_step / c.b.devices);
}

void decide_kind(Comparison& c) {
  const bool same_tokens = keeps(ScalingKind::strong, c);
  const bool same_per_device = keeps(ScalingKind::weak, c);
  const bool more_devices = c.a.devices != c.b.devices;
  if (!same_tokens && !(more_devices && same_per_device)) {
    c.work_differences.insert(c.work_differences.begin(), fmt::format("tokens per step: {:.6g} -> {:.6g}",
                                                                      c.a.tokens_per_step, c.b.tokens_per_step));
  }
  if (!c.work_differences.empty()) {
    c.kind = Comparison::Kind::different_work;
    return;
  }
  if (!more_devices) {
    c.kind = Comparison::Kind::variants;
    c.scaled = Scaling{c.a.step_time_s / c.b.step_time_s, 1, {}};
    return;
  }
  c.kind = same_tokens ? Comparison::Kind::strong_scaling : Comparison::Kind::weak_scaling;
  c.scaled = scaling(same_tokens ? ScalingKind::strong : ScalingKind::weak, c.a.devices, c.a.step_time_s, c.b.devices,
                     c.b.step_time_s);
  if (!c.scaled.warning.empty()) c.warnings.push_back(c.scaled.warning);
}

bool inside_box(const std::string& span) { return span.find("one NVLink domain") != std::string::npos; }

void find_breaks(Comparison& c) {
  for (const auto& [group, span] : c.b.spans) {
    const auto before = c.a.spans.find(group);
    if (before == c.a.spans.end() || inside_box(before->second) == inside_box(span)) continue;
    c.breaks.push_back(
        fmt::format("the {} group goes from {} to {}: a break in the curve, not a trend", group, before->second, span));
  }
  for (const auto& [group, crosses] : c.b.crosses_leaf) {
    const auto before = c.a.crosses_leaf.find(group);
    if (before == c.a.crosses_leaf.end() || before->second == crosses) continue;
    c.breaks.push_back(fmt::format("{} traffic {}: a break in the curve, not a trend", group,
                                   crosses ? "crosses a leaf switch" : "no longer crosses a leaf switch"));
  }
}

std::vector<Moved> moves(const std::map<std::string, double>& a, const std::map<std::string, double>& b) {
  std::map<std::string, Moved> both;
  for (const auto& [key, value] : a) both[key] = Moved{key, value, 0};
  for (const auto& [key, value] : b) {
    both[key].name = key;
    both[key].b = value;
  }
  std::vector<Moved> list;
  for (auto& [key, moved] : both) {
    if (moved.a != 0 || moved.b != 0) list.push_back(std::move(moved));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Moved& x, const Moved& y) { return std::abs(x.b - x.a) > std::abs(y.b - y.a); });
  return list;
}

}  // namespace

Scaling scaling(ScalingKind kind, int devices0, double seconds0, int devices1, double seconds1) {
  const double grown = static_cast<double>(devices1) / devices0;
  const double faster = seconds0 / seconds1;
  Scaling s;
  s.speedup = kind == ScalingKind::strong ? faster : faster * grown;
  s.efficiency = kind == ScalingKind::strong ? faster / grown : faster;
  if (devices1 > devices0 && s.efficiency > full_efficiency) {
    s.warning = fmt::format(
        "efficiency {:.1f} % is above 100 %: the baseline is held back by something that the other run is not (memory, "
        "recompute, bubble, a poor layout); compare with a better baseline",
        100 * s.efficiency);
  }
  return s;
}

Result<RunSummary> read_run(const JsonDocument& document) {
  Errors errors;
  JsonFields root(document, document.root, "", errors);
  RunSummary run;
  const auto schema = root.required_text("schema");
  if (schema && *schema != forecast_schema) {
    return make_error(
        ErrorCode::invalid,
        fmt::format("found schema '{}', '{}' is needed: the JSON of stepcast simulate", *schema, forecast_schema),
        root.where("schema"));
  }
  run.name = root.text("name").value_or("");
  root.require("scenario");
  if (auto scenario = root.object("scenario")) {
    for (const char* key : {"model", "cluster", "workload"}) {
      scenario->require(key);
      static_cast<void>(scenario->object(key));
    }
    run.scenario = *root.find("scenario");
  }
  const auto block = [&](const char* key, const auto& read) {
    root.require(key);
    if (auto fields = root.object(key)) read(*fields);
  };
  block("engine",
        [&](JsonFields& f) { run.devices = static_cast<int>(f.required_integer("devices", 1, 1 << 20).value_or(1)); });
  block("step_time_s", [&](JsonFields& f) { run.step_time_s = f.required_number("mean", 1e-12, huge).value_or(1); });
  block("throughput", [&](JsonFields& f) {
    run.tokens_per_step = f.required_number("tokens_per_s", 0, huge).value_or(0) * run.step_time_s;
    f.read("tokens_per_step", run.tokens_per_step, 0, huge);
  });
  block("utilisation", [&](JsonFields& f) {
    run.mfu = f.required_number("mfu", 0, huge).value_or(0);
    run.hfu = f.required_number("hfu", 0, huge).value_or(0);
  });
  block("memory", [&](JsonFields& f) {
    run.peak_memory_bytes = f.required_number("peak_bytes", 0, huge).value_or(0);
    const auto* parts = f.find("by_part");
    if (parts == nullptr || !parts->is_object()) return;
    for (const auto& [part, bytes] : parts->items()) {
      if (bytes.is_number()) run.memory_bytes[part] = bytes.get<double>();
    }
  });
  block("breakdown", [&](JsonFields& f) {
    for (const std::string& category : f.unread()) {
      if (auto stats = f.object(category))
        run.breakdown_s[category] = stats->required_number("mean_s", 0, huge).value_or(0);
    }
    if (run.breakdown_s.empty() && errors.empty()) {
      errors.push_back(make_error(ErrorCode::invalid, "no part of the step is given", document.where("/breakdown")));
    }
  });
  root.list("communication", [&](const Json& row, const std::string&) {
    if (!row.is_object() || !row.contains("group") || !row["group"].is_string()) return;
    const auto group = row["group"].get<std::string>();
    // All ranks together leave a domain whenever a run does, and only their norm meets there.
    if (group == "world") return;
    if (row.contains("span") && row["span"].is_string()) run.spans[group] = row["span"].get<std::string>();
    if (row.contains("crosses_leaf") && row["crosses_leaf"].is_boolean()) {
      run.crosses_leaf[group] = row["crosses_leaf"].get<bool>();
    }
  });
  if (!errors.empty()) return errors;
  return run;
}

Comparison compare(RunSummary a, RunSummary b) {
  Comparison c;
  c.a = std::move(a);
  c.b = std::move(b);
  c.throughput_ratio = (c.b.tokens_per_step / c.b.step_time_s) / (c.a.tokens_per_step / c.a.step_time_s);
  ScenarioDifferences found = differences(c.a.scenario, c.b.scenario);
  c.work_differences = std::move(found.work);
  c.other_differences = std::move(found.other);
  decide_kind(c);
  find_breaks(c);
  c.parts = moves(c.a.breakdown_s, c.b.breakdown_s);
  c.memory = moves(c.a.memory_bytes, c.b.memory_bytes);
  return c;
}

}  // namespace stepcast::scenarios
