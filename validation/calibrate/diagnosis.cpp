#include "validation/calibrate/diagnosis.h"

#include <algorithm>
#include <cmath>

namespace stepcast::validation {
namespace {

constexpr double blind_below = 0.1;  // share of the prior's variance that the data took away
constexpr double correlated_from = 0.8;
constexpr double outlier_from = 3;  // spreads
constexpr double part_from = 0.3;   // component of a unit eigenvector
constexpr double z90 = 1.645;
constexpr double exact_sigma = 0.01;  // of a constant that was measured by itself
constexpr std::size_t most_suggestions = 5;

// A step of one prior sigma times `part` in the constant's own units.
double moved(const CalibrationConstant& c, double x, double step) {
  return c.form == CalibrationConstant::Form::factor ? std::exp(step) : c.to_value(x + step) - c.to_value(x);
}

void find_blind_and_ridges(const Evaluator& evaluator, const Fit& fit, Diagnosis& d) {
  const auto& constants = evaluator.constants();
  const Eigen::Index p = fit.x.size();
  std::vector<Eigen::Index> seen;
  for (Eigen::Index c = 0; c < p; ++c) {
    // Alone, the data would tell it: then it is part of a ridge and not blind.
    const double alone = fit.information(c, c) * fit.prior_sigma[c] * fit.prior_sigma[c];
    if (alone < blind_below) d.blind.push_back(constants[static_cast<std::size_t>(c)].name);
    if (alone >= blind_below) seen.push_back(c);
  }
  // In units of the prior's sigma: eigenvalues below one are directions that the prior decides.
  const auto m = static_cast<Eigen::Index>(seen.size());
  if (m < 2) return;
  Eigen::MatrixXd scaled(m, m);
  for (Eigen::Index a = 0; a < m; ++a) {
    for (Eigen::Index b = 0; b < m; ++b) {
      const Eigen::Index ca = seen[static_cast<std::size_t>(a)], cb = seen[static_cast<std::size_t>(b)];
      scaled(a, b) = fit.information(ca, cb) * fit.prior_sigma[ca] * fit.prior_sigma[cb];
    }
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(scaled);
  for (Eigen::Index e = 0; e < m; ++e) {
    const double value = std::max(0.0, solver.eigenvalues()[e]);
    if (value >= 1) break;  // ascending
    Ridge ridge;
    ridge.told = value / (1 + value);
    const Eigen::VectorXd v = solver.eigenvectors().col(e);
    for (Eigen::Index a = 0; a < m; ++a) {
      if (std::abs(v[a]) < part_from) continue;
      const Eigen::Index c = seen[static_cast<std::size_t>(a)];
      const auto& constant = constants[static_cast<std::size_t>(c)];
      ridge.parts.emplace_back(constant.name, moved(constant, fit.x[c], v[a] * fit.prior_sigma[c]));
    }
    if (ridge.parts.size() > 1) {
      d.ridges.push_back(std::move(ridge));
    } else if (ridge.parts.size() == 1) {
      d.blind.push_back(ridge.parts.front().first);
    }
  }
}

void find_correlations(const Evaluator& evaluator, const Fit& fit, Diagnosis& d) {
  const auto& constants = evaluator.constants();
  for (Eigen::Index a = 0; a < fit.x.size(); ++a) {
    for (Eigen::Index b = a + 1; b < fit.x.size(); ++b) {
      const double r = fit.covariance(a, b) / std::sqrt(fit.covariance(a, a) * fit.covariance(b, b));
      if (std::abs(r) < correlated_from) continue;
      d.correlations.push_back(
          {constants[static_cast<std::size_t>(a)].name, constants[static_cast<std::size_t>(b)].name, r});
    }
  }
  std::sort(d.correlations.begin(), d.correlations.end(),
            [](const auto& a, const auto& b) { return std::abs(a.value) > std::abs(b.value); });
}

void find_outliers(const Evaluator& evaluator, const Fit& fit, Diagnosis& d) {
  for (Eigen::Index i = 0; i < fit.residuals.size(); ++i) {
    if (fit.weights[i] <= 0) continue;
    const double sigmas = std::abs(fit.left_out_residuals[i]) / fit.sigma;
    if (sigmas < outlier_from) continue;
    d.outliers.push_back(
        {evaluator.rows()[static_cast<std::size_t>(i)].id, std::expm1(fit.left_out_residuals[i]), sigmas});
  }
  std::sort(d.outliers.begin(), d.outliers.end(), [](const auto& a, const auto& b) { return a.sigmas > b.sigmas; });
}

// Mean half width over the targets, from the covariance of the constants alone.
double half_width(const Eigen::MatrixXd& targets, const Eigen::MatrixXd& covariance) {
  double sum = 0;
  for (Eigen::Index i = 0; i < targets.rows(); ++i) {
    sum += std::sqrt(std::max(0.0, targets.row(i).dot(covariance * targets.row(i).transpose())));
  }
  return targets.rows() == 0 ? 0 : z90 * sum / static_cast<double>(targets.rows());
}

void rank_measurements(const Evaluator& evaluator, const Fit& fit, const Eigen::MatrixXd& targets, Diagnosis& d) {
  const double before = half_width(targets, fit.covariance);
  if (before <= 0) return;
  for (Eigen::Index c = 0; c < fit.x.size(); ++c) {
    const Eigen::VectorXd column = fit.covariance.col(c);
    const Eigen::MatrixXd after =
        fit.covariance - column * column.transpose() / (fit.covariance(c, c) + exact_sigma * exact_sigma);
    const auto& constant = evaluator.constants()[static_cast<std::size_t>(c)];
    d.next.push_back({constant.name, constant.measurement, before, half_width(targets, after)});
  }
  std::sort(d.next.begin(), d.next.end(),
            [](const auto& a, const auto& b) { return a.interval_after < b.interval_after; });
  std::erase_if(d.next, [](const auto& n) { return n.interval_after > 0.98 * n.interval_before; });
  if (d.next.size() > most_suggestions) d.next.resize(most_suggestions);
}

}  // namespace

Diagnosis diagnose(const Evaluator& evaluator, const Fit& fit, const Eigen::MatrixXd& targets) {
  Diagnosis d;
  find_blind_and_ridges(evaluator, fit, d);
  find_correlations(evaluator, fit, d);
  find_outliers(evaluator, fit, d);
  rank_measurements(evaluator, fit, targets.size() > 0 ? targets : fit.jacobian, d);
  return d;
}

}  // namespace stepcast::validation
