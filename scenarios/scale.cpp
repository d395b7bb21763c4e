#include "scenarios/scale.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <oneapi/tbb/info.h>

#include "scenarios/plan/plan.h"
#include "scenarios/scaling_breaks.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
using parallelism::StepSpec;

std::string reason(const Errors& errors) {
  return errors.size() == 1 ? errors.front().message
                            : fmt::format("{} (and {} more)", errors.front().message, errors.size() - 1);
}

std::string layout_words(const StepSpec& spec) {
  const parallelism::Degrees& d = spec.degrees;
  std::string out = fmt::format("tp {}", d.tp);
  if (d.cp > 1) out += fmt::format(", cp {}", d.cp);
  out += d.vpp > 1 ? fmt::format(", pp {} x {}", d.pp, d.vpp) : fmt::format(", pp {}", d.pp);
  if (spec.model.is_moe()) out += fmt::format(", ep {}", d.ep);
  if (d.etp.value_or(1) > 1) out += fmt::format(", etp {}", *d.etp);
  out += fmt::format(", dp {}, mbs {}", spec.cluster.devices / (d.tp * d.cp * d.pp), spec.workload.micro_batch);
  if (d.pp > 1) out += fmt::format(", {}", parallelism::info(spec.schedule).name);
  return out + fmt::format(", {}", plan::sharding_names()[static_cast<std::size_t>(spec.sharding)]);
}

class Curve {
 public:
  Curve(const ScenarioRequest& request, const ScaleOptions& options) : request_(request), options_(options) {
    forecasting_ = options.forecast;
    forecasting_.representative = true;  // where ranks are alike one lane a stage gives the same ticks
    curve_.kind = options.kind;
    curve_.layout = options.layout;
  }

  Result<ScaleCurve> run() {
    if (Status status = open(); !status) return status.errors();
    const auto total = static_cast<long long>(options_.devices.size());
    for (const int devices : options_.devices) {
      add(devices);
      if (curve_.interrupted) break;
      if (options_.progress) options_.progress("sizes", static_cast<long long>(curve_.points.size()), total);
    }
    const std::optional<std::size_t> base = baseline();
    if (!base) return nothing_runs();
    curve_.baseline_devices = curve_.points[*base].devices;
    for (std::size_t i = 0; i < curve_.points.size(); ++i) compare(*base, i);
    return std::move(curve_);
  }

 private:
  // The scenario as it stands, whose batch the curve keeps, and the axes of a new plan.
  Status open() {
    ScenarioRequest free_request = request_;
    free_request.check_layout = false;
    auto own = load_scenario(free_request);
    if (!own) return own.errors();
    own_ = std::move(*own);
    if (options_.layout == LayoutRule::data_parallel) return Unit{};
    const parallelism::Recompute& r = own_.spec.recompute;
    if (r.mode == parallelism::RecomputeMode::full && r.method == "block" && r.block_layers > 0) {
      return make_error(ErrorCode::usage,
                        "the scenario repeats some layers of a stage only (recompute method block), which a plan does "
                        "not search; allowed are none, full and selective",
                        "--layout replan");
    }
    if (const auto space = plan::make_space(own_, space_of(own_.spec.workload.global_batch)); !space)
      return space.errors();
    return Unit{};
  }

  // Work and way of running stay; only the layout is free.
  [[nodiscard]] plan::SpaceRequest space_of(int batch) const {
    plan::SpaceRequest space = options_.space;
    space.devices.clear();
    space.global_batch = {batch};
    space.recompute = {"scenario"};
    space.dispatcher = {std::string(parallelism::name(own_.spec.runtime.dispatcher))};
    space.overlap = {"profile"};
    return space;
  }

  [[nodiscard]] double batch_at(int devices) const {
    const auto& spec = own_.spec;
    const double batch = spec.workload.global_batch;
    return options_.kind == ScalingKind::weak ? std::round(batch * devices / spec.cluster.devices) : batch;
  }

  [[nodiscard]] ScenarioRequest request_at(int devices, double batch) const {
    ScenarioRequest sized = request_;
    sized.sets.push_back(fmt::format("cluster.devices={}", devices));
    sized.sets.push_back(fmt::format("workload.global_batch={:.0f}", batch));
    return sized;
  }

  Status plan_layout(const ScenarioRequest& sized, ScalePoint& point) {
    plan::PlanOptions planning;
    planning.space = space_of(static_cast<int>(point.global_batch));
    if (own_.spec.workload.steps == 1) planning.top = 1;
    planning.headroom = options_.headroom;
    planning.fronts = planning.explain = false;
    planning.threads = forecasting_.threads > 0 ? forecasting_.threads : tbb::info::default_concurrency();
    planning.cancelled = forecasting_.cancelled;
    if (options_.progress) {
      planning.progress = [&](const char* what, long long done, long long total) {
        options_.progress(fmt::format("{} devices: {}", point.devices, what), done, total);
      };
    }
    const auto planned = plan::plan(sized, planning);
    if (!planned) return planned.errors();
    if (planned->layouts.empty()) return make_error(ErrorCode::infeasible, "interrupted before a layout was simulated");
    point.settings = planned->layouts.front().settings;
    point.layouts_valid = planned->counts.valid;
    return Unit{};
  }

  Result<Forecast> forecast_at(ScalePoint& point) {
    if (point.global_batch < 1)
      return make_error(ErrorCode::infeasible, "the batch a device leaves less than one sequence a step");
    ScenarioRequest sized = request_at(point.devices, point.global_batch);
    if (options_.layout == LayoutRule::replan) {
      if (const Status planned = plan_layout(sized, point); !planned) return planned.errors();
      sized.sets.insert(sized.sets.end(), point.settings.begin(), point.settings.end());
    }
    const auto scenario = load_scenario(sized);
    if (!scenario) return scenario.errors();
    point.layout = layout_words(scenario->spec);
    return forecast(*scenario, forecasting_);
  }

  [[nodiscard]] bool cancelled() const { return forecasting_.cancelled && forecasting_.cancelled(); }

  void add(int devices) {
    ScalePoint point;
    point.devices = devices;
    point.global_batch = batch_at(devices);
    Json work;
    const auto result = cancelled() ? Result<Forecast>(Errors{}) : forecast_at(point);
    if (cancelled()) {  // a size that was begun is no result
      curve_.interrupted = true;
      return;
    }
    if (result) {
      point.feasible = true;
      point.step_time_s = result->step_time.mean_s;
      point.tokens_per_s = result->tokens_per_step / point.step_time_s;
      point.mfu = result->utilisation.mfu;
      for (const auto& [category, stats] : result->breakdown) {
        if (stats.mean > 0) point.breakdown[category] = to_seconds(stats.mean).value;
      }
      const ScaleMarks marks = scale_marks(*result);
      point.breaks = scaling_breaks(before_ ? &*before_ : nullptr, marks);
      before_ = marks;
      work = result->scenario.resolved;
      if (curve_.assumptions.empty()) curve_.assumptions = result->assumptions;
    } else {
      point.why = reason(result.errors());
    }
    curve_.points.push_back(std::move(point));
    works_.push_back(std::move(work));
  }

  [[nodiscard]] std::optional<std::size_t> baseline() const {
    const StepSpec& spec = own_.spec;
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < curve_.points.size(); ++i) {
      const ScalePoint& p = curve_.points[i];
      if (!p.feasible || (options_.baseline_devices != 0 && p.devices != options_.baseline_devices)) continue;
      if (!first) first = i;
      if (same_batch(curve_.kind, spec.workload.global_batch, spec.cluster.devices, p.global_batch, p.devices))
        return i;
    }
    return first;
  }

  // Strong: step times at equal work. Weak: tokens/s a device.
  void compare(std::size_t base_index, std::size_t index) {
    ScalePoint& p = curve_.points[index];
    if (!p.feasible) return;
    const ScalePoint& base = curve_.points[base_index];
    p.not_scaling = differences(works_[base_index], works_[index]).work;
    if (!same_batch(curve_.kind, base.global_batch, base.devices, p.global_batch, p.devices)) {
      p.not_scaling.push_back(curve_.kind == ScalingKind::strong
                                  ? fmt::format("batch: {:.0f} -> {:.0f}", base.global_batch, p.global_batch)
                                  : fmt::format("sequences a device: {:.6g} -> {:.6g}",
                                                base.global_batch / base.devices, p.global_batch / p.devices));
    }
    if (!p.comparable()) return;
    p.speedup = p.tokens_per_s / base.tokens_per_s;
    p.efficiency = p.speedup * base.devices / p.devices;
    constexpr double just_above = 1.001;  // rounding of the last digit shown
    if (p.efficiency > just_above) {
      curve_.warnings.push_back(
          fmt::format("{} devices: efficiency {:.1f} % is above 100 %: the baseline is held back by something that the "
                      "larger size relieves",
                      p.devices, 100 * p.efficiency));
    }
  }

  [[nodiscard]] Errors nothing_runs() const {
    Errors errors;
    for (const ScalePoint& p : curve_.points) {
      errors.push_back(make_error(ErrorCode::infeasible,
                                  p.feasible ? "can run, but is not the baseline asked for" : p.why,
                                  fmt::format("{} devices", p.devices)));
    }
    if (errors.empty()) errors.push_back(make_error(ErrorCode::infeasible, "interrupted before the first size"));
    return errors;
  }

  const ScenarioRequest& request_;
  const ScaleOptions& options_;
  ForecastOptions forecasting_;
  Scenario own_;
  ScaleCurve curve_;
  std::vector<Json> works_;  // resolved scenario of each point; null where it cannot run
  std::optional<ScaleMarks> before_;
};

}  // namespace

std::vector<int> powers_of_two(int low, int high) {
  std::vector<int> out;
  for (long long n = low; n <= high; n *= 2) out.push_back(static_cast<int>(n));
  return out;
}

Result<ScaleCurve> scale(const ScenarioRequest& request, const ScaleOptions& options) {
  return Curve(request, options).run();
}

}  // namespace stepcast::scenarios
