#include "validation/calibrate/extrapolate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "scenarios/scaling_breaks.h"

namespace stepcast::validation {
namespace {

constexpr double z90 = 1.645;
// A framework's next releases moved steps by 4 to 14 % on the same machine (pilot M6, D6): one sigma of 8 %.
constexpr double unseen_software = 0.08;
// Nobody named the software: about what the profiles of one date differ by.
constexpr double unnamed_software = 0.12;

constexpr double grown_by = 0.02;  // of the step: a category's growth that is worth a line

// Student's t over the normal at 90 %, for the degrees of freedom that are left.
double small_sample(double freedom) { return freedom > 0.5 ? 1 + 1.6 / freedom : 4; }

double software_sigma(const Observation& row, const std::set<std::string>& seen) {
  if (row.software_assumed) return unnamed_software;
  return seen.contains(row.software) ? 0 : unseen_software;
}

// Range over the values that the open fields may have had, at the fitted constants.
void open_range(const Evaluator& targets, std::size_t row, const Eigen::VectorXd& x, Prediction& p) {
  p.open_low_s = p.open_high_s = p.predicted_s;
  for (const Alternative& a : targets.rows()[row].alternatives) {
    if (targets.cancelled()) return;
    const double value = std::exp(targets.predict_row(row, x, a.sets));
    if (!std::isfinite(value)) continue;
    p.open_low_s = std::min(p.open_low_s, value);
    p.open_high_s = std::max(p.open_high_s, value);
    if (std::find(p.open_fields.begin(), p.open_fields.end(), a.field) == p.open_fields.end())
      p.open_fields.push_back(a.field);
  }
}

void set_interval(Prediction& p, double variance, double inflation) {
  const double half = z90 * inflation * std::sqrt(variance);
  p.low_s = p.predicted_s * std::exp(-std::hypot(half, std::log(p.predicted_s / p.open_low_s)));
  p.high_s = p.predicted_s * std::exp(std::hypot(half, std::log(p.open_high_s / p.predicted_s)));
}

// The fitted run to compare with: same model and device if there is one, then the largest below the row's size.
const Observation* nearest_run(const Observation& row, const std::vector<Observation>& fitted, std::size_t& index) {
  const Observation* best = nullptr;
  const auto rank = [&](const Observation& o) {
    return std::tuple(o.kind == row.kind, o.model == row.model, o.device == row.device, o.software == row.software,
                      o.devices <= row.devices, o.devices <= row.devices ? o.devices : -o.devices);
  };
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    if (fitted[i].component || (best != nullptr && rank(fitted[i]) <= rank(*best))) continue;
    best = &fitted[i];
    index = i;
  }
  return best;
}

// Categories that take a larger share of the step than in the nearest run.
void grown_shares(const scenarios::Forecast& before, const scenarios::Forecast& now, std::vector<std::string>& breaks) {
  const auto share = [](const scenarios::Forecast& f, const std::string& category) {
    const auto found = f.breakdown.find(category);
    return found == f.breakdown.end() ? 0 : to_seconds(found->second.mean).value / f.step_time.mean_s;
  };
  for (const auto& [category, stats] : now.breakdown) {
    const bool kernel = category == "gemm" || category == "grouped_gemm" || category == "attention";
    const double was = share(before, category), is = share(now, category);
    if (!kernel && is - was > grown_by) {
      breaks.push_back(fmt::format("{} grows from {:.1f} to {:.1f} % of the step", category, 100 * was, 100 * is));
    }
  }
}

void name_breaks(const Evaluator& targets, std::size_t row, const Evaluator& fitted, const Eigen::VectorXd& x,
                 Prediction& p) {
  std::size_t index = 0;
  const Observation& target = targets.rows()[row];
  const Observation* nearest = nearest_run(target, fitted.rows(), index);
  if (nearest == nullptr || !nearest->account || !target.account || targets.cancelled()) return;
  const auto before = nearest->account(fitted.calibration_of(index, x));
  const auto now = target.account(targets.calibration_of(row, x));
  if (!before || !now) return;
  p.nearest = nearest->id;
  const auto marks = scenarios::scale_marks(*before);
  p.breaks = scenarios::scaling_breaks(&marks, scenarios::scale_marks(*now));
  grown_shares(*before, *now, p.breaks);
}

}  // namespace

Extrapolation extrapolate(Evaluator& targets, const Evaluator& fitted, const Fit& fit, bool breaks) {
  Extrapolation out;
  const std::vector<Observation>& rows = targets.rows();
  const Eigen::VectorXd plain = targets.predict(fit.prior);
  const Eigen::VectorXd at = targets.predict(fit.x);
  const Eigen::MatrixXd jacobian = targets.jacobian(fit.x, at);

  std::set<std::string> seen;
  for (const Observation& o : fitted.rows()) {
    if (!o.component) seen.insert(o.software);
  }
  const double used = fit.weights.sum();
  const double effective = (fit.covariance * fit.information).trace();  // constants that the data decided
  const double inflation = small_sample(used - effective);

  std::vector<Prediction> predictions(rows.size());
  tbb::parallel_for(
      std::size_t{0}, rows.size(),
      [&](std::size_t i) {
        const auto row = static_cast<Eigen::Index>(i);
        if (!std::isfinite(at[row])) return;
        Prediction& p = predictions[i];
        p.id = rows[i].id;
        p.measured_s = rows[i].measured_s;
        p.plain_s = std::exp(plain[row]);
        p.predicted_s = std::exp(at[row]);
        open_range(targets, i, fit.x, p);
        const double constants = std::max(0.0, jacobian.row(row).dot(fit.covariance * jacobian.row(row).transpose()));
        const double residual = fit.sigma * fit.sigma + fit.family_sigma * fit.family_sigma;
        const double software = std::pow(software_sigma(rows[i], seen), 2);
        p.from_constants = z90 * std::sqrt(constants);
        p.from_residuals = z90 * inflation * std::sqrt(residual);
        p.from_software = z90 * std::sqrt(software);
        set_interval(p, constants + residual + software, inflation);
        if (breaks) name_breaks(targets, i, fitted, fit.x, p);
      },
      tbb::simple_partitioner());

  std::vector<Eigen::Index> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (predictions[i].id.empty()) {
      if (!targets.cancelled()) out.refused.push_back({rows[i].id, 0, targets.failure(i)});
      continue;
    }
    Prediction& p = predictions[i];
    if (p.measured_s > 0) {
      ++out.measured;
      if (p.measured_s >= p.low_s && p.measured_s <= p.high_s) ++out.inside;
    }
    kept.push_back(static_cast<Eigen::Index>(i));
    out.rows.push_back(std::move(p));
  }
  out.jacobian = jacobian(kept, Eigen::all);
  return out;
}

}  // namespace stepcast::validation
