#include "validation/calibrate/calibrate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace stepcast::validation {
namespace {

using Json = nlohmann::ordered_json;

constexpr double z90 = 1.645;
constexpr double pinned = 1e-6;  // of a bound, in internal units

std::vector<FittedValue> values_of(const Evaluator& evaluator, const Fit& fit) {
  std::vector<FittedValue> values;
  for (Eigen::Index c = 0; c < fit.x.size(); ++c) {
    FittedValue v;
    v.constant = evaluator.constants()[static_cast<std::size_t>(c)];
    const double sigma = std::sqrt(fit.covariance(c, c));
    v.value = v.constant.to_value(fit.x[c]);
    v.low = v.constant.to_value(fit.x[c] - z90 * sigma);
    v.high = v.constant.to_value(fit.x[c] + z90 * sigma);
    v.told = 1 - std::min(1.0, sigma * sigma / (fit.prior_sigma[c] * fit.prior_sigma[c]));
    v.rows = static_cast<int>((fit.jacobian.col(c).array() != 0).count());
    v.at_bound = std::abs(fit.x[c] - v.constant.to_internal(v.constant.lower)) < pinned ||
                 std::abs(fit.x[c] - v.constant.to_internal(v.constant.upper)) < pinned;
    values.push_back(std::move(v));
  }
  return values;
}

// Constants that no row felt keep their prior and stay out of the profile: it must not state what was not seen.
Json profile_of(const Calibration& c, const std::string& name) {
  Json adjust = Json::array();
  Json constants = Json::array();
  for (const FittedValue& v : c.values) {
    if (v.rows == 0) continue;
    adjust.push_back(scenarios::to_json(v.constant.adjustment(v.value)));
    constants.push_back({{"name", v.constant.name},
                         {"value", v.value},
                         {"interval_90", {v.low, v.high}},
                         {"prior", v.constant.prior},
                         {"prior_sigma", v.constant.sigma},
                         {"meaning", v.constant.meaning}});
  }
  Json report = {{"rows", c.rows.size()},
                 {"median_error_before", c.before.median_abs},
                 {"median_error_fitted", c.after.median_abs},
                 {"median_error_left_out", c.left_out.median_abs},
                 {"constants", constants}};
  return {{"schema", "stepcast.profile/1"}, {"name", name}, {"adjust", adjust}, {"report", report}};
}

void take_rows(const Evaluator& evaluator, const Fit& fit, Calibration& c) {
  std::vector<double> before, after, left_out;
  for (std::size_t i = 0; i < evaluator.rows().size(); ++i) {
    const Observation& o = evaluator.rows()[i];
    const auto at = static_cast<Eigen::Index>(i);
    if (!std::isfinite(fit.start_residuals[at])) {
      if (!evaluator.cancelled()) c.refused.push_back({o.id, 0, evaluator.failure(i)});
      continue;
    }
    CalibratedRow row{o.id, o.family, o.device, o.software, o.ids.size(), o.measured_s, 0, 0, 0, o.spread};
    row.plain_s = o.measured_s * std::exp(fit.start_residuals[at]);
    row.fitted_s = o.measured_s * std::exp(fit.residuals[at]);
    row.left_out_s = o.measured_s * std::exp(fit.left_out_residuals[at]);
    if (!o.component) {
      before.push_back(std::expm1(fit.start_residuals[at]));
      after.push_back(std::expm1(fit.residuals[at]));
      left_out.push_back(std::expm1(fit.left_out_residuals[at]));
    }
    c.rows.push_back(std::move(row));
  }
  c.before = error_stats(before);
  c.after = error_stats(after);
  c.left_out = error_stats(left_out);
}

void warn_of_size(const Evaluator& evaluator, Calibration& c) {
  // Issue of few constants: beyond these a fit describes its rows and nothing else.
  constexpr int most_dense = 30, most_moe = 20;
  int dense = 0, moe = 0;
  const bool any_moe = std::any_of(evaluator.rows().begin(), evaluator.rows().end(),
                                   [](const Observation& o) { return o.kind == "moe"; });
  for (std::size_t k = 0; k < c.values.size(); ++k) {
    bool in_moe = false, in_dense = false;
    for (std::size_t i = 0; i < evaluator.rows().size(); ++i) {
      if (!evaluator.concerns(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(k))) continue;
      (evaluator.rows()[i].kind == "moe" ? in_moe : in_dense) = true;
    }
    if (c.values[k].rows == 0) continue;
    dense += in_dense ? 1 : 0;
    moe += in_moe ? 1 : 0;
  }
  if (dense > most_dense) c.warnings.push_back(fmt::format("{} constants touch dense rows: more than 30", dense));
  if (any_moe && moe > most_moe) c.warnings.push_back(fmt::format("{} constants touch MoE rows: more than 20", moe));
}

}  // namespace

Calibration summary_of(const Evaluator& evaluator, const Fit& fit, const std::string& name) {
  Calibration c;
  c.iterations = fit.iterations;
  c.converged = fit.converged;
  c.interrupted = evaluator.cancelled();
  c.sigma = fit.sigma;
  c.family_sigma = fit.family_sigma;
  c.forecasts = evaluator.forecasts();
  take_rows(evaluator, fit, c);
  c.values = values_of(evaluator, fit);
  warn_of_size(evaluator, c);
  c.diagnosis = diagnose(evaluator, fit, {});
  c.profile = profile_of(c, name);
  return c;
}

Result<Calibration> calibrate(Observations fitted, Observations targets, const CalibrateOptions& options) {
  const auto constants = read_constants(
      options.constants.empty() ? default_constants(options.catalog_root) : options.constants, options.catalog_root);
  if (!constants) return constants.errors();
  if (fitted.rows.empty()) {
    return make_error(
        ErrorCode::invalid,
        fitted.refused.empty() ? "no row to fit" : "every row is refused; the first: " + fitted.refused.front().why,
        "calibrate");
  }
  weigh_families(fitted.rows, options.family_rows);
  Evaluator evaluator(*constants, fitted.rows, options.evaluator);
  FitOptions fit_options;
  fit_options.max_iterations = options.max_iterations;
  const Fit fit = fit_constants(evaluator, fit_options);
  Calibration c = summary_of(evaluator, fit, options.name);
  c.refused.insert(c.refused.begin(), fitted.refused.begin(), fitted.refused.end());
  c.warnings.insert(c.warnings.begin(), fitted.warnings.begin(), fitted.warnings.end());
  if (!evaluator.cancelled() &&
      std::none_of(c.values.begin(), c.values.end(), [](const auto& v) { return v.rows > 0; }))
    c.warnings.push_back("no row feels any constant of the table: nothing was fitted");
  if (c.rows.empty() && !evaluator.cancelled()) {
    return make_error(ErrorCode::invalid, "no row has a forecast; the first: " + c.refused.front().why, "calibrate");
  }
  if (!targets.rows.empty() && !evaluator.cancelled()) {
    Evaluator predicting(*constants, targets.rows, options.evaluator);
    c.predicted = extrapolate(predicting, evaluator, fit, options.breaks);
    c.forecasts += predicting.forecasts();
    std::vector<double> errors;
    for (const Prediction& p : c.predicted.rows) {
      if (p.measured_s > 0) errors.push_back(p.predicted_s / p.measured_s - 1);
    }
    c.predicted_errors = error_stats(errors);
    c.diagnosis = diagnose(evaluator, fit, c.predicted.jacobian);
  }
  c.predicted.refused.insert(c.predicted.refused.begin(), targets.refused.begin(), targets.refused.end());
  c.interrupted = evaluator.cancelled();
  return c;
}

}  // namespace stepcast::validation
