#include "scenarios/profile/profile_compare.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/profile/profile.h"
#include "scenarios/report/text_table.h"
#include "sim/base/json_fields.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr double huge = 1e300;
constexpr double matters = 0.005;  // of the measured step: below, no constant is named

// How a constant moves a part's time.
enum class Law : unsigned char { none, inverse, proportional };

struct PartRule {
  const char* name;
  std::vector<const char*> categories;
  const char* constant;
  Law law;
  const char* remark;
};

const std::vector<PartRule>& rules() {
  static const std::vector<PartRule> all = {
      {"gemm", {"gemm"}, "cluster.sustained_gemm", Law::inverse, "level of dense products"},
      {"grouped_gemm",
       {"grouped_gemm"},
       "cluster.sustained_gemm",
       Law::inverse,
       "level of grouped products; or routing.skew"},
      {"attention", {"attention"}, "", Law::none, "kernel generation (software) and its fitted level (device)"},
      {"memory_bound",
       {"memory_bound"},
       "cluster.hbm_bandwidth_gb_per_s",
       Law::inverse,
       "or passes over memory of the software profile (norms, activation)"},
      {"permute", {"permute"}, "cluster.hbm_bandwidth_gb_per_s", Law::inverse, "fused or not (software)"},
      {"quantise", {"quantise"}, "cluster.hbm_bandwidth_gb_per_s", Law::inverse, "fused or not (software)"},
      {"recompute", {"recompute"}, "", Law::none, "in a profile it is in the kernels' own classes"},
      {"optimizer", {"optimizer"}, "cluster.hbm_bandwidth_gb_per_s", Law::inverse, "or precision.optimizer_state"},
      {"exposed_tp", {"exposed_tp", "wait_tp"}, "cluster.nvlink_gb_per_s", Law::inverse, "or overlap.tp"},
      {"exposed_cp", {"exposed_cp", "wait_cp"}, "cluster.nic_gb_per_s", Law::inverse, "or parallelism.cp_kind"},
      {"exposed_ep",
       {"exposed_ep", "wait_ep"},
       "cluster.nic_gb_per_s",
       Law::inverse,
       "or overlap.ep, runtime.dispatcher, routing.skew"},
      {"exposed_dp",
       {"exposed_dp", "wait_dp"},
       "cluster.nic_gb_per_s",
       Law::inverse,
       "or overlap.gradients, overlap.parameters, buckets"},
      {"pipeline", {"exposed_pp", "bubble"}, "", Law::none, "stage split, schedule, or the parts above on other ranks"},
      {"host", {"host"}, "runtime.host_launch_us", Law::proportional, "or runtime.cuda_graphs"},
      {"data and other", {"data", "other"}, "", Law::none, "data loader, copies, idle time of no known cause"},
  };
  return all;
}

using Breakdown = std::map<std::string, double>;

Result<double> read_result(const JsonDocument& document, const char* schema, Breakdown& breakdown) {
  Errors errors;
  JsonFields root(document, document.root, "", errors);
  const auto found = root.required_text("schema");
  if (found && *found != schema) {
    return make_error(ErrorCode::invalid, fmt::format("found schema '{}', '{}' is needed", *found, schema),
                      root.where("schema"));
  }
  double step = 0;
  root.require("step_time_s");
  if (auto fields = root.object("step_time_s")) step = fields->required_number("mean", 1e-12, huge).value_or(1);
  root.require("breakdown");
  if (auto fields = root.object("breakdown")) {
    for (const std::string& category : fields->unread()) {
      if (auto stats = fields->object(category)) {
        breakdown[category] = stats->required_number("mean_s", 0, huge).value_or(0);
      }
    }
  }
  if (!errors.empty()) return errors;
  return step;
}

void explain(ProfilePart& part, const PartRule& rule, double step, const Constants& constants) {
  part.remark = rule.remark;
  const double difference = part.measured_s - part.forecast_s;
  if (std::abs(difference) < matters * step || rule.law == Law::none) return;
  part.constant = rule.constant;
  const auto now = constants.find(rule.constant);
  if (now == constants.end() || part.forecast_s <= 0 || part.measured_s <= 0) return;
  const double ratio = part.measured_s / part.forecast_s;
  part.now = now->second;
  part.then = rule.law == Law::inverse ? now->second / ratio : now->second * ratio;
}

std::string text_of(const JsonDocument& document, const char* key) {
  const Json& root = document.root;
  return root.contains(key) && root[key].is_string() ? root[key].get<std::string>() : document.file;
}

std::string signed_time(double seconds) { return (seconds < 0 ? "-" : "+") + time_text(std::abs(seconds)); }

}  // namespace

bool is_profile(const JsonDocument& document) {
  const Json& root = document.root;
  return root.is_object() && root.contains("schema") && root["schema"].is_string() &&
         root["schema"].get<std::string>() == profile_schema;
}

Result<ProfileComparison> compare_profile(const JsonDocument& forecast, const JsonDocument& profile,
                                          const Constants& constants) {
  Breakdown a, b;
  const auto forecast_step = read_result(forecast, "stepcast.forecast/1", a);
  const auto profile_step = read_result(profile, profile_schema, b);
  Errors errors;
  if (!forecast_step) errors = forecast_step.errors();
  if (!profile_step) errors.insert(errors.end(), profile_step.errors().begin(), profile_step.errors().end());
  if (!errors.empty()) return errors;

  ProfileComparison c;
  c.forecast = text_of(forecast, "name");
  c.profile = text_of(profile, "name");
  c.forecast_s = *forecast_step;
  c.measured_s = *profile_step;
  for (const PartRule& rule : rules()) {
    ProfilePart part;
    part.name = rule.name;
    for (const char* category : rule.categories) {
      part.forecast_s += a[category];
      part.measured_s += b[category];
    }
    if (part.forecast_s == 0 && part.measured_s == 0) continue;
    explain(part, rule, c.measured_s, constants);
    c.parts.push_back(std::move(part));
  }
  std::stable_sort(c.parts.begin(), c.parts.end(), [](const ProfilePart& x, const ProfilePart& y) {
    return std::abs(x.measured_s - x.forecast_s) > std::abs(y.measured_s - y.forecast_s);
  });
  if (a["recompute"] > matters * c.forecast_s && b["recompute"] == 0) {
    c.warnings.push_back(
        "the forecast recomputes: its recompute is in the profile's kernel classes, so that those look slow together "
        "by "
        "as much");
  }
  const Json& root = profile.root;
  if (root.contains("ranks") && root["ranks"].is_array() && root.contains("world_size") &&
      root["world_size"].is_number() && static_cast<double>(root["ranks"].size()) < root["world_size"].get<double>()) {
    c.warnings.push_back(fmt::format("{} of {} ranks were profiled; the forecast's parts are means over all ranks",
                                     root["ranks"].size(), root["world_size"].get<double>()));
  }
  return c;
}

nlohmann::ordered_json to_json(const ProfileComparison& c) {
  Json json;
  json["schema"] = profile_compare_schema;
  json["forecast"] = c.forecast;
  json["profile"] = c.profile;
  json["step_time_s"] = {
      {"forecast", c.forecast_s}, {"measured", c.measured_s}, {"error", c.forecast_s / c.measured_s - 1}};
  json["parts"] = Json::array();
  for (const ProfilePart& p : c.parts) {
    Json part = {{"part", p.name},
                 {"forecast_s", p.forecast_s},
                 {"measured_s", p.measured_s},
                 {"difference_s", p.measured_s - p.forecast_s},
                 {"share_of_step", (p.measured_s - p.forecast_s) / c.measured_s}};
    if (!p.constant.empty()) {
      part["constant"] = p.constant;
      if (p.now) part["now"] = *p.now;
      if (p.then) part["would_be"] = *p.then;
    }
    part["remark"] = p.remark;
    json["parts"].push_back(std::move(part));
  }
  json["warnings"] = c.warnings;
  return json;
}

std::string to_table(const ProfileComparison& c, bool colour) {
  std::string text =
      bold(fmt::format("{} (forecast {}) beside {} (measured {}): {:+.1f} %", c.forecast, time_text(c.forecast_s),
                       c.profile, time_text(c.measured_s), 100 * (c.forecast_s / c.measured_s - 1)),
           colour) +
      "\n";
  TextTable table({"part", "forecast", "measured", "off by", "of the step", "<would be explained by"});
  for (const ProfilePart& p : c.parts) {
    std::string why = p.constant;
    if (p.now && p.then) why += fmt::format(" {:.4g} -> {:.4g}", *p.now, *p.then);
    table.row({p.name, time_text(p.forecast_s), time_text(p.measured_s), signed_time(p.measured_s - p.forecast_s),
               fmt::format("{:+.1f} %", 100 * (p.measured_s - p.forecast_s) / c.measured_s), why});
  }
  text += table.text();
  for (const ProfilePart& p : c.parts) {
    if (std::abs(p.measured_s - p.forecast_s) < matters * c.measured_s) continue;
    text += fmt::format("  {}: {}\n", p.name, p.remark);
  }
  if (!c.warnings.empty()) text += "\n" + bold("Warnings", colour) + "\n";
  for (const std::string& line : c.warnings) text += "  - " + wrapped(line, 4) + "\n";
  return text;
}

std::string to_csv(const ProfileComparison& c) {
  std::string text = csv_line({"part", "forecast_s", "measured_s", "difference_s", "constant", "now", "would_be"});
  text += csv_line({"step", csv_number(c.forecast_s), csv_number(c.measured_s), csv_number(c.measured_s - c.forecast_s),
                    "", "", ""});
  for (const ProfilePart& p : c.parts) {
    text +=
        csv_line({p.name, csv_number(p.forecast_s), csv_number(p.measured_s), csv_number(p.measured_s - p.forecast_s),
                  p.constant, p.now ? csv_number(*p.now) : "", p.then ? csv_number(*p.then) : ""});
  }
  return text;
}

}  // namespace stepcast::scenarios
