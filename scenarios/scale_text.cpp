// The three formats of a scaling curve.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/report/text_table.h"
#include "scenarios/scale.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

Json point_json(const ScalePoint& p) {
  Json j = {{"devices", p.devices}, {"feasible", p.feasible}, {"global_batch", p.global_batch}};
  if (!p.layout.empty()) j["layout"] = p.layout;
  if (!p.settings.empty()) {
    j["settings"] = p.settings;
    j["layouts_valid"] = p.layouts_valid;
  }
  if (!p.feasible) {
    j["why"] = p.why;
    return j;
  }
  j["comparable"] = p.comparable();
  j["step_time_s"] = p.step_time_s;
  j["tokens_per_s"] = p.tokens_per_s;
  if (p.comparable()) {
    j["speedup"] = p.speedup;
    j["efficiency"] = p.efficiency;
  } else {
    j["not_scaling"] = p.not_scaling;
  }
  j["mfu"] = p.mfu;
  j["breakdown"] = p.breakdown;
  j["breaks"] = p.breaks;
  return j;
}

std::string row(const ScalePoint& p) {
  const std::string begin = fmt::format("  {:>8} {:>9.0f} ", p.devices, p.global_batch);
  if (!p.feasible) return begin + fmt::format("cannot run: {}\n", p.why);
  const std::string gains = p.comparable() ? fmt::format("{:>8.2f}x {:>9.1f} %", p.speedup, 100 * p.efficiency)
                                           : fmt::format("{:>9} {:>11}", "-", "-");
  return begin + fmt::format("{:>9.4g} s {:>13.4g} {} {:>5.1f} %\n", p.step_time_s, p.tokens_per_s, gains, 100 * p.mfu);
}

}  // namespace

std::string_view name(LayoutRule rule) { return rule == LayoutRule::replan ? "replan" : "data-parallel"; }

Json to_json(const ScaleCurve& curve) {
  Json points = Json::array();
  for (const ScalePoint& p : curve.points) points.push_back(point_json(p));
  return {{"schema", "stepcast.scale/1"},
          {"kind", curve.kind == ScalingKind::strong ? "strong" : "weak"},
          {"layout_rule", name(curve.layout)},
          {"baseline_devices", curve.baseline_devices},
          {"points", points},
          {"assumptions", curve.assumptions},
          {"warnings", curve.warnings},
          {"interrupted", curve.interrupted}};
}

std::string to_table(const ScaleCurve& curve) {
  const bool planned = curve.layout == LayoutRule::replan;
  std::string out = fmt::format("{} scaling{}, baseline {} devices\n\n  {:>8} {:>9} {:>11} {:>13} {:>9} {:>11} {:>7}\n",
                                curve.kind == ScalingKind::strong ? "Strong" : "Weak",
                                planned ? " with the best layout of every size" : "", curve.baseline_devices, "devices",
                                "batch", "step time", "tokens/s", "speed-up", "efficiency", "MFU");
  for (const ScalePoint& p : curve.points) {
    out += row(p);
    if (planned && !p.layout.empty()) out += fmt::format("           layout: {}\n", p.layout);
    if (!p.not_scaling.empty())
      out += fmt::format("           not scaling, the work differs: {}\n", fmt::join(p.not_scaling, "; "));
    for (const std::string& b : p.breaks) out += fmt::format("           break: {}\n", b);
  }
  for (const std::string& w : curve.warnings) out += fmt::format("\nwarning: {}\n", w);
  return out;
}

std::string to_csv(const ScaleCurve& curve) {
  std::string out =
      "devices,feasible,comparable,global_batch,step_time_s,tokens_per_s,speedup,efficiency,mfu,layout,why,"
      "not_scaling,breaks\n";
  for (const ScalePoint& p : curve.points) {
    const auto number = [&](bool known, double value) { return known ? csv_number(value) : std::string(); };
    out += csv_line({std::to_string(p.devices), p.feasible ? "1" : "0", p.comparable() ? "1" : "0",
                     csv_number(p.global_batch), number(p.feasible, p.step_time_s), number(p.feasible, p.tokens_per_s),
                     number(p.comparable(), p.speedup), number(p.comparable(), p.efficiency), number(p.feasible, p.mfu),
                     p.layout, p.why, fmt::format("{}", fmt::join(p.not_scaling, "; ")),
                     fmt::format("{}", fmt::join(p.breaks, "; "))});
  }
  return out;
}

}  // namespace stepcast::scenarios
