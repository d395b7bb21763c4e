#include "scenarios/scale.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "scenarios/scaling_breaks.h"

namespace stepcast::scenarios {
namespace {

// Below about this many rows an expert GEMM runs far from its asymptote (m0 of the fitted forms is 40 to 120).
constexpr double row_knee = 256;

std::string reason(const Errors& errors) {
  return errors.size() == 1 ? errors.front().message
                            : fmt::format("{} (and {} more)", errors.front().message, errors.size() - 1);
}

bool crosses(const std::string& span) { return span.find(" over ") != std::string::npos; }

// Strong: step times at equal work. Weak: tokens/s a device.
void compare_to_baseline(ScaleCurve& curve, const ScalePoint& base) {
  for (ScalePoint& p : curve.points) {
    if (!p.feasible) continue;
    p.speedup = p.tokens_per_s / base.tokens_per_s;
    p.efficiency = p.speedup * base.devices / p.devices;
    if (p.efficiency > 1.001) {
      curve.warnings.push_back(
          fmt::format("{} devices: efficiency {:.1f} % is above 100 %: the baseline is held back by something that the "
                      "larger size relieves",
                      p.devices, 100 * p.efficiency));
    }
  }
}

}  // namespace

ScaleMarks scale_marks(const Forecast& f) {
  ScaleMarks m;
  const auto& spec = f.scenario.spec;
  for (const auto& row : f.communication) m.span[row.group] = row.span;
  const int dp = spec.cluster.devices / (spec.degrees.tp * spec.degrees.cp * spec.degrees.pp);
  m.microbatches = spec.workload.global_batch / std::max(1, dp * spec.workload.micro_batch);
  m.stages = spec.degrees.pp;
  m.rows_per_expert = f.moe ? f.expert_load.median : 0;
  return m;
}

std::vector<std::string> scaling_breaks(const ScaleMarks* before, const ScaleMarks& now) {
  std::vector<std::string> out;
  for (const auto& [group, span] : now.span) {
    const auto known = before ? before->span.find(group) : now.span.end();
    const bool was_inside = before != nullptr && (known == before->span.end() || !crosses(known->second));
    if (crosses(span) && was_inside) out.push_back(fmt::format("{} leaves the NVLink domain: {}", group, span));
  }
  if (now.stages > 1 && now.microbatches < now.stages && (!before || before->microbatches >= before->stages)) {
    out.push_back(fmt::format("microbatches run out: {} on {} stages", now.microbatches, now.stages));
  }
  if (now.rows_per_expert > 0 && now.rows_per_expert < row_knee && (!before || before->rows_per_expert >= row_knee)) {
    out.push_back(fmt::format("rows per expert below the knee: {:.0f}", now.rows_per_expert));
  }
  return out;
}

std::vector<int> powers_of_two(int low, int high) {
  std::vector<int> out;
  for (long long n = low; n <= high; n *= 2) out.push_back(static_cast<int>(n));
  return out;
}

Result<ScaleCurve> scale(const ScenarioRequest& request, const ScaleOptions& options) {
  ScenarioRequest free_request = request;
  free_request.check_layout = false;
  const auto own = load_scenario(free_request);
  if (!own) return own.errors();
  const double batch_per_device = static_cast<double>(own->spec.workload.global_batch) / own->spec.cluster.devices;

  ForecastOptions forecasting = options.forecast;
  forecasting.representative = true;  // where ranks are alike one lane a stage gives the same ticks

  ScaleCurve curve;
  curve.kind = options.kind;
  std::optional<ScaleMarks> before;
  int done = 0;
  for (const int devices : options.devices) {
    if (options.forecast.cancelled && options.forecast.cancelled()) {
      curve.interrupted = true;
      break;
    }
    ScalePoint point;
    point.devices = devices;
    ScenarioRequest sized = request;
    sized.sets.push_back(fmt::format("cluster.devices={}", devices));
    point.global_batch =
        options.kind == ScaleKind::weak ? std::round(batch_per_device * devices) : own->spec.workload.global_batch;
    sized.sets.push_back(fmt::format("workload.global_batch={}", static_cast<long long>(point.global_batch)));
    const auto scenario = load_scenario(sized);
    auto result = scenario ? forecast(*scenario, forecasting) : Result<Forecast>(scenario.errors());
    if (result) {
      point.feasible = true;
      point.step_time_s = result->step_time.mean_s;
      point.tokens_per_s = result->tokens_per_step / point.step_time_s;
      point.mfu = result->utilisation.mfu;
      for (const auto& [category, stats] : result->breakdown) {
        if (stats.mean > 0) point.breakdown[category] = to_seconds(stats.mean).value;
      }
      const ScaleMarks marks = scale_marks(*result);
      point.breaks = scaling_breaks(before ? &*before : nullptr, marks);
      before = marks;
      if (curve.assumptions.empty()) curve.assumptions = result->assumptions;
    } else {
      point.why = reason(result.errors());
    }
    curve.points.push_back(std::move(point));
    if (options.progress) options.progress(++done, static_cast<int>(options.devices.size()));
  }
  const auto base = std::find_if(curve.points.begin(), curve.points.end(), [&](const ScalePoint& p) {
    return p.feasible && (options.baseline_devices == 0 || p.devices == options.baseline_devices);
  });
  if (base == curve.points.end()) {
    Errors errors;
    for (const ScalePoint& p : curve.points)
      errors.push_back(make_error(ErrorCode::infeasible,
                                  p.feasible ? "can run, but is not the baseline asked for" : p.why,
                                  fmt::format("{} devices", p.devices)));
    if (errors.empty()) errors.push_back(make_error(ErrorCode::infeasible, "interrupted before the first size"));
    return errors;
  }
  curve.baseline_devices = base->devices;
  compare_to_baseline(curve, ScalePoint(*base));
  return curve;
}

nlohmann::ordered_json to_json(const ScaleCurve& curve) {
  using Json = nlohmann::ordered_json;
  Json points = Json::array();
  for (const ScalePoint& p : curve.points) {
    Json j = {{"devices", p.devices}, {"feasible", p.feasible}, {"global_batch", p.global_batch}};
    if (p.feasible) {
      j["step_time_s"] = p.step_time_s;
      j["tokens_per_s"] = p.tokens_per_s;
      j["speedup"] = p.speedup;
      j["efficiency"] = p.efficiency;
      j["mfu"] = p.mfu;
      j["breakdown"] = p.breakdown;
      j["breaks"] = p.breaks;
    } else {
      j["why"] = p.why;
    }
    points.push_back(std::move(j));
  }
  return {{"schema", "stepcast.scale/1"},
          {"kind", curve.kind == ScaleKind::strong ? "strong" : "weak"},
          {"baseline_devices", curve.baseline_devices},
          {"points", points},
          {"assumptions", curve.assumptions},
          {"warnings", curve.warnings},
          {"interrupted", curve.interrupted}};
}

std::string to_table(const ScaleCurve& curve) {
  std::string out = fmt::format("{} scaling, baseline {} devices\n\n  {:>8} {:>9} {:>11} {:>13} {:>9} {:>11} {:>7}\n",
                                curve.kind == ScaleKind::strong ? "Strong" : "Weak", curve.baseline_devices, "devices",
                                "batch", "step time", "tokens/s", "speed-up", "efficiency", "MFU");
  for (const ScalePoint& p : curve.points) {
    if (p.feasible) {
      out += fmt::format("  {:>8} {:>9.0f} {:>9.4g} s {:>13.4g} {:>8.2f}x {:>9.1f} % {:>5.1f} %\n", p.devices,
                         p.global_batch, p.step_time_s, p.tokens_per_s, p.speedup, 100 * p.efficiency, 100 * p.mfu);
    } else {
      out += fmt::format("  {:>8} {:>9.0f} cannot run: {}\n", p.devices, p.global_batch, p.why);
    }
    for (const std::string& b : p.breaks) out += fmt::format("           break: {}\n", b);
  }
  for (const std::string& w : curve.warnings) out += fmt::format("\nwarning: {}\n", w);
  return out;
}

std::string to_csv(const ScaleCurve& curve) {
  std::string out = "devices,feasible,global_batch,step_time_s,tokens_per_s,speedup,efficiency,mfu\n";
  for (const ScalePoint& p : curve.points) {
    out += fmt::format("{},{},{:.0f},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n", p.devices, p.feasible ? 1 : 0,
                       p.global_batch, p.step_time_s, p.tokens_per_s, p.speedup, p.efficiency, p.mfu);
  }
  return out;
}

}  // namespace stepcast::scenarios
