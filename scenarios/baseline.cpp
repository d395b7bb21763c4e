#include "scenarios/baseline.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "scenarios/report/text_table.h"
#include "sim/base/json_fields.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr double huge = 1e300;
constexpr int kept_digits = 9;  // of a value: a difference below is rounding

// Pointers into a result, by schema; "*" stands for every member.
struct Source {
  const char* schema;
  const char* kind;
  std::vector<const char*> pointers;
};
const std::vector<Source>& sources() {
  static const std::vector<Source> all = {
      {"stepcast.forecast/1",
       "forecast",
       {"/step_time_s/mean", "/step_time_s/p50", "/step_time_s/p95", "/throughput/tokens_per_s",
        "/throughput/tokens_per_s_per_device", "/utilisation/mfu", "/utilisation/hfu", "/bubble/fraction",
        "/memory/peak_bytes", "/moe/imbalance", "/breakdown/*/mean_s", "/memory/by_part/*"}},
      {"stepcast.profile/1", "profile", {"/step_time_s/mean", "/step_time_s/p50", "/breakdown/*/mean_s"}},
      {"stepcast.run/1",
       "run",
       {"/days/p10", "/days/p50", "/days/p90", "/goodput/mean", "/tokens_per_day/p50", "/interruptions/mean",
        "/checkpoint/interval_s", "/cost", "/energy_kwh", "/lost/*/lost_s"}},
  };
  return all;
}

const Source* source_of(const Json& root) {
  if (!root.is_object() || !root.contains("schema") || !root["schema"].is_string()) return nullptr;
  for (const Source& source : sources()) {
    if (root["schema"].get<std::string>() == source.schema) return &source;
  }
  return nullptr;
}

double rounded(double value) { return std::stod(fmt::format("{:.{}g}", value, kept_digits)); }

// "/breakdown/*/mean_s" of each member is the value "breakdown.MEMBER".
void take(const Json& at, const std::string& pointer, const std::string& name, std::map<std::string, double>& values) {
  if (pointer.empty()) {
    const std::string stem = name.ends_with('*') ? name.substr(0, name.size() - 1) : name;
    if (at.is_number() && std::isfinite(at.get<double>())) values[stem] = rounded(at.get<double>());
    return;
  }
  if (!at.is_object()) return;
  const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
  const std::string key = pointer.substr(1, end - 1), rest = pointer.substr(end);
  const bool below_star = name.find('*') != std::string::npos;
  if (key == "*") {
    for (const auto& [member, value] : at.items()) take(value, rest, name + "." + member + "*", values);
  } else if (at.contains(key)) {
    const std::string stem = below_star ? name.substr(0, name.size() - 1) : name;
    take(at[key], rest, below_star ? stem : stem.empty() ? key : stem + "." + key, values);
  }
}

// Parts of a step, and what they are parts of.
const char* whole_of(const std::string& value) {
  if (value.starts_with("breakdown.")) return "step_time_s.mean";
  if (value.starts_with("memory.by_part.")) return "memory.peak_bytes";
  return nullptr;
}

void differ(const char* what, const std::map<std::string, std::string>& a, const std::map<std::string, std::string>& b,
            std::vector<std::string>& lines) {
  for (const auto& [key, value] : a) {
    const auto other = b.find(key);
    if (other != b.end() && other->second != value) {
      lines.push_back(fmt::format("{} {}: {} -> {}", what, key, value, other->second));
    }
  }
}

void differ(const Json& a, const Json& b, std::vector<std::string>& lines) {
  if (!a.is_object() || !b.is_object()) return;
  const Json flat_a = a.flatten(), flat_b = b.flatten();
  std::set<std::string> pointers;
  for (const auto& [pointer, value] : flat_a.items()) pointers.insert(pointer);
  for (const auto& [pointer, value] : flat_b.items()) pointers.insert(pointer);
  const auto text = [](const Json& flat, const std::string& pointer) {
    return flat.contains(pointer) ? shown(flat[pointer]) : std::string("none");
  };
  for (const std::string& pointer : pointers) {
    const std::string before = text(flat_a, pointer), now = text(flat_b, pointer);
    if (before != now) lines.push_back(fmt::format("scenario {}: {} -> {}", pointer.substr(1), before, now));
  }
}

double excess(const Drift& drift) {
  return drift.tolerance > 0 ? std::abs(drift.change) / drift.tolerance : drift.change != 0 ? huge : 0;
}

void read_texts(JsonFields& root, const char* key, std::map<std::string, std::string>& target) {
  auto fields = root.object(key);
  if (!fields) return;
  for (const std::string& name : fields->unread()) {
    if (const auto text = fields->text(name)) target[name] = *text;
  }
}

void read_numbers(JsonFields& root, const char* key, double low, std::map<std::string, double>& target) {
  auto fields = root.object(key);
  if (!fields) return;
  for (const std::string& name : fields->unread()) {
    if (const auto number = fields->number(name, low, huge)) target[name] = *number;
  }
}

}  // namespace

double Baseline::tolerance_of(const std::string& value) const {
  double found = tolerance;
  std::size_t longest = 0;
  for (const auto& [group, own] : tolerances) {
    if ((value + ".").starts_with(group + ".") && group.size() > longest) {
      longest = group.size();
      found = own;
    }
  }
  return found;
}

bool is_result(const JsonDocument& document) { return source_of(document.root) != nullptr; }

Result<Baseline> baseline_of(const JsonDocument& result) {
  const Source* source = source_of(result.root);
  if (source == nullptr) {
    std::string allowed;
    for (const Source& s : sources()) allowed += (allowed.empty() ? "" : ", ") + std::string(s.schema);
    return make_error(ErrorCode::invalid, "no result that a baseline can be made of: schema is one of " + allowed,
                      result.where("/schema"));
  }
  Baseline baseline;
  baseline.kind = source->kind;
  if (result.root.contains("name") && result.root["name"].is_string()) baseline.name = result.root["name"];
  if (result.root.contains("scenario")) baseline.scenario = result.root["scenario"];
  for (const char* pointer : source->pointers) take(result.root, pointer, "", baseline.values);
  if (baseline.values.empty()) {
    return make_error(ErrorCode::invalid, "the result holds none of the values that a baseline keeps", result.file);
  }
  return baseline;
}

Result<Baseline> read_baseline(const JsonDocument& document) {
  Errors errors;
  JsonFields root(document, document.root, "", errors);
  const auto schema = root.required_text("schema");
  if (schema && *schema != baseline_schema) {
    return make_error(ErrorCode::invalid,
                      fmt::format("found schema '{}', '{}' is needed: the file of stepcast baseline record", *schema,
                                  baseline_schema),
                      root.where("schema"));
  }
  Baseline baseline;
  root.read("name", baseline.name);
  baseline.kind = root.required_text("kind").value_or("");
  root.read("tolerance", baseline.tolerance, 0, huge);
  read_texts(root, "versions", baseline.versions);
  read_texts(root, "environment", baseline.environment);
  read_numbers(root, "tolerances", 0, baseline.tolerances);
  root.require("values");
  read_numbers(root, "values", -huge, baseline.values);
  if (const Json* scenario = root.find("scenario")) baseline.scenario = *scenario;
  root.refuse_unknown();
  if (errors.empty() && baseline.values.empty()) root.fail("values", "the baseline holds no values");
  if (!errors.empty()) return errors;
  return baseline;
}

std::string baseline_text(const Baseline& baseline) {
  Json json;
  json["schema"] = baseline_schema;
  json["name"] = baseline.name;
  json["kind"] = baseline.kind;
  json["versions"] = baseline.versions;
  json["environment"] = baseline.environment;
  json["tolerance"] = baseline.tolerance;
  if (!baseline.tolerances.empty()) json["tolerances"] = baseline.tolerances;
  json["values"] = baseline.values;
  if (!baseline.scenario.is_null()) json["scenario"] = baseline.scenario;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool Drift::moved() const { return std::abs(change) > tolerance; }

bool BaselineCheck::passed() const {
  if (same_kind && !missing.empty()) return false;
  if (values.empty()) return false;
  return std::none_of(values.begin(), values.end(), [](const Drift& d) { return d.moved(); });
}

BaselineCheck check_baseline(const Baseline& recorded, const Baseline& now) {
  BaselineCheck check;
  check.name = recorded.name;
  check.same_kind = recorded.kind == now.kind;
  for (const auto& [name, value] : recorded.values) {
    const auto found = now.values.find(name);
    if (found == now.values.end()) {
      check.missing.push_back(name);
      continue;
    }
    Drift drift{name, value, found->second, 0, recorded.tolerance_of(name)};
    double base = std::abs(value);
    if (const char* whole = whole_of(name); whole != nullptr && recorded.values.contains(whole)) {
      base = recorded.values.at(whole);
    }
    if (name == "bubble.fraction") base = 1;  // a share of the step already
    const double difference = drift.now - drift.recorded;
    drift.change = base > 0 ? difference / base : difference;
    check.values.push_back(drift);
  }
  std::stable_sort(check.values.begin(), check.values.end(),
                   [](const Drift& a, const Drift& b) { return excess(a) > excess(b); });
  differ("version of", recorded.versions, now.versions, check.differences);
  differ("environment", recorded.environment, now.environment, check.differences);
  differ(recorded.scenario, now.scenario, check.differences);
  return check;
}

nlohmann::ordered_json to_json(const BaselineCheck& check) {
  Json json;
  json["schema"] = baseline_check_schema;
  json["name"] = check.name;
  json["passed"] = check.passed();
  json["values"] = Json::object();
  for (const Drift& d : check.values) {
    json["values"][d.name] = {{"recorded", d.recorded},
                              {"now", d.now},
                              {"change", d.change},
                              {"tolerance", d.tolerance},
                              {"moved", d.moved()}};
  }
  json["missing"] = check.missing;
  json["differences"] = check.differences;
  return json;
}

std::string to_table(const BaselineCheck& check, bool colour) {
  const auto moved = std::count_if(check.values.begin(), check.values.end(), [](const Drift& d) { return d.moved(); });
  std::string text =
      bold(fmt::format("{}: {} of {} values moved beyond their tolerance{}", check.name, moved, check.values.size(),
                       check.missing.empty() ? "" : fmt::format(", {} missing", check.missing.size())),
           colour) +
      "\n";
  TextTable table({"value", "recorded", "now", "change", "tolerance"});
  for (const Drift& d : check.values) {
    if (!d.moved()) continue;
    table.row({d.name, fmt::format("{:.6g}", d.recorded), fmt::format("{:.6g}", d.now),
               fmt::format("{:+.3g} %{}", 100 * d.change, whole_of(d.name) != nullptr ? " of the whole" : ""),
               percent_text(d.tolerance)});
  }
  if (!table.empty()) text += table.text();
  if (!check.missing.empty()) text += "\n" + bold("Missing", colour) + "\n";
  for (const std::string& name : check.missing) text += "  - " + name + "\n";
  if (!check.differences.empty()) text += "\n" + bold("Configuration, versions, environment", colour) + "\n";
  for (const std::string& line : check.differences) text += "  - " + wrapped(line, 4) + "\n";
  return text;
}

std::string to_csv(const BaselineCheck& check) {
  std::string text = csv_line({"value", "recorded", "now", "change", "tolerance", "moved"});
  for (const Drift& d : check.values) {
    text += csv_line({d.name, csv_number(d.recorded), csv_number(d.now), csv_number(d.change), csv_number(d.tolerance),
                      d.moved() ? "true" : "false"});
  }
  for (const std::string& name : check.missing) text += csv_line({name, "", "", "", "", "missing"});
  return text;
}

}  // namespace stepcast::scenarios
