#include "validation/calibrate/fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "validation/components/levenberg_marquardt.h"

namespace stepcast::validation {
namespace {

constexpr double least_scale = 0.01, most_scale = 0.15;  // of residuals, log
constexpr double to_sigma = 1.4826;                      // median of |normal| to its standard deviation
constexpr double to_sigma_of_p90 = 1 / 1.645;
constexpr double misfit_that_matters = 0.005;  // root mean square over the rows, log
constexpr double misfit_to_refresh = 0.35;     // share of a step's effect that the matrix did not foresee
constexpr double step_tolerance = 1e-3;        // of the cost: far below what the data can tell

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1))];
}

// The matrix of derivatives over the iterations of one fit.
class Derivatives {
 public:
  Derivatives(Evaluator& evaluator, Eigen::MatrixXd given) : evaluator_(evaluator), j_(std::move(given)) {}

  const Eigen::MatrixXd& at(const Eigen::VectorXd& x, const Eigen::VectorXd& predicted) {
    if (j_.size() == 0) {
      j_ = evaluator_.jacobian(x, predicted);
    } else if (x_.size() == x.size() && x != x_) {
      const Eigen::VectorXd move = x - x_;
      const Eigen::VectorXd seen =
          (predicted - predicted_).unaryExpr([](double v) { return std::isfinite(v) ? v : 0; });
      const Eigen::VectorXd missed = seen - j_ * move;
      const double size = missed.norm() / std::sqrt(static_cast<double>(missed.size()));
      if (size > misfit_that_matters && missed.norm() > misfit_to_refresh * seen.norm()) {
        j_ = evaluator_.jacobian(x, predicted);
      } else {
        update(move, missed);
      }
    }
    x_ = x;
    predicted_ = predicted;
    return j_;
  }

 private:
  // Each row changes along the part of the step that concerns it, so that what was zero stays zero.
  void update(const Eigen::VectorXd& move, const Eigen::VectorXd& missed) {
    for (Eigen::Index i = 0; i < j_.rows(); ++i) {
      Eigen::VectorXd own = move;
      for (Eigen::Index c = 0; c < own.size(); ++c) {
        if (j_(i, c) == 0) own[c] = 0;
      }
      const double length = own.squaredNorm();
      if (length > 0) j_.row(i) += missed[i] / length * own.transpose();
    }
  }

  Evaluator& evaluator_;
  Eigen::MatrixXd j_;
  Eigen::VectorXd x_, predicted_;
};

void take_priors(const std::vector<CalibrationConstant>& constants, Fit& fit, LeastSquares& problem) {
  const auto p = static_cast<Eigen::Index>(constants.size());
  fit.prior.resize(p);
  fit.prior_sigma.resize(p);
  problem.lower.resize(p);
  problem.upper.resize(p);
  for (Eigen::Index c = 0; c < p; ++c) {
    const CalibrationConstant& constant = constants[static_cast<std::size_t>(c)];
    fit.prior[c] = constant.to_internal(constant.prior);
    fit.prior_sigma[c] = constant.sigma;
    problem.lower[c] = constant.to_internal(constant.lower);
    problem.upper[c] = constant.to_internal(constant.upper);
  }
}

// Spread within families and between them, of rows that count.
void spreads(const std::vector<Observation>& rows, const Eigen::VectorXd& residuals, const Eigen::VectorXd& weights,
             Fit& fit) {
  std::map<std::string, std::vector<double>> families;
  const bool steps = std::any_of(rows.begin(), rows.end(), [](const Observation& o) { return !o.component; });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    if (weights[at] > 0 && !(steps && rows[i].component)) families[rows[i].family].push_back(residuals[at]);
  }
  std::vector<double> within, middles;
  double noise_of_middles = 0;
  for (const auto& [name, values] : families) {
    const double middle = values.size() >= 3 ? median(values) : 0;
    if (values.size() >= 3) middles.push_back(middle);
    std::vector<double> own;
    for (const double r : values) own.push_back(std::abs(r - middle));
    within.insert(within.end(), own.begin(), own.end());
    if (values.size() >= 3)
      noise_of_middles += std::pow(to_sigma * median(own), 2) / static_cast<double>(values.size());
  }
  fit.sigma = std::clamp(std::max(to_sigma * median(within), to_sigma_of_p90 * quantile(within, 0.9)), 0.005, 1.0);
  if (middles.size() < 3) return;
  double square = 0;
  for (const double m : middles) square += m * m;
  const double n = static_cast<double>(middles.size());
  fit.family_sigma = std::sqrt(std::max(0.0, square / n - noise_of_middles / n));
}

// Weight of a row's family as a cluster: n rows whose errors share a part count as n / (1 + (n - 1) share).
void cluster_weights(const std::vector<Observation>& rows, Fit& fit) {
  const double share = fit.family_sigma > 0 ? fit.family_sigma * fit.family_sigma /
                                                  (fit.family_sigma * fit.family_sigma + fit.sigma * fit.sigma)
                                            : 0;
  std::map<std::string, double> total;
  for (std::size_t i = 0; i < rows.size(); ++i) total[rows[i].family] += fit.weights[static_cast<Eigen::Index>(i)];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fit.weights[static_cast<Eigen::Index>(i)] /= 1 + std::max(0.0, total[rows[i].family] - 1) * share;
  }
}

Eigen::VectorXd robust_weights(const Eigen::VectorXd& weights, const Eigen::VectorXd& residuals, double scale) {
  return weights.cwiseProduct((1 + (residuals.array() / scale).square()).sqrt().inverse().matrix());
}

void covariance_of(const std::vector<Observation>& rows, double scale, Fit& fit) {
  const Eigen::MatrixXd prior = fit.prior_sigma.cwiseInverse().cwiseAbs2().asDiagonal();
  const Eigen::VectorXd plain = fit.weights;
  const auto solve = [&](double sigma) {
    fit.information = fit.jacobian.transpose() * fit.weights.asDiagonal() * fit.jacobian / (sigma * sigma);
    fit.covariance = (fit.information + prior).inverse();
  };
  solve(scale);
  fit.left_out_residuals = fit.residuals;
  for (Eigen::Index i = 0; i < fit.residuals.size(); ++i) {
    const double leverage =
        fit.weights[i] / (scale * scale) * fit.jacobian.row(i).dot(fit.covariance * fit.jacobian.row(i).transpose());
    fit.left_out_residuals[i] /= std::max(0.2, 1 - leverage);
  }
  spreads(rows, fit.left_out_residuals, plain, fit);
  cluster_weights(rows, fit);
  solve(fit.sigma);
}

}  // namespace

Fit fit_constants(Evaluator& evaluator, const FitOptions& options) {
  const std::vector<Observation>& rows = evaluator.rows();
  const auto n = static_cast<Eigen::Index>(rows.size());
  Fit fit;
  LeastSquares problem;
  take_priors(evaluator.constants(), fit, problem);
  Eigen::VectorXd measured(n);
  for (Eigen::Index i = 0; i < n; ++i) measured[i] = std::log(rows[static_cast<std::size_t>(i)].measured_s);

  fit.start_residuals = evaluator.predict(fit.prior) - measured;
  problem.weights.resize(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(i);
    const bool used = (options.used.empty() || options.used[row] != 0) && std::isfinite(fit.start_residuals[i]);
    problem.weights[i] = used ? rows[row].weight : 0;
  }
  // A trial that leaves a fitted row without a forecast (a constant beyond what its key allows) is no solution.
  const auto finite = [&](Eigen::VectorXd r) {
    constexpr double no_forecast = 10;
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      if (!std::isfinite(r[i])) r[i] = problem.weights[i] > 0 ? no_forecast : 0;
    }
    return r;
  };
  Derivatives derivatives(evaluator, options.jacobian);
  problem.residuals = [&](const Eigen::VectorXd& x) { return finite(evaluator.predict(x) - measured); };
  problem.jacobian = [&](const Eigen::VectorXd& x, const Eigen::VectorXd& r) {
    return derivatives.at(x, r + measured);
  };
  problem.prior = fit.prior;
  problem.prior_width = fit.prior_sigma;
  problem.start = options.start.size() == fit.prior.size() ? options.start : fit.prior;
  problem.tolerance = step_tolerance;
  problem.max_iterations = options.max_iterations;
  problem.robust_scale = options.scale;
  LeastSquaresSolution solution = minimise(problem);
  fit.iterations = solution.iterations;

  // Second pass at the spread that the residuals have.
  std::vector<double> sizes;
  Eigen::VectorXd residuals = problem.residuals(solution.x);
  for (Eigen::Index i = 0; i < n; ++i) {
    if (problem.weights[i] > 0) sizes.push_back(std::abs(residuals[i]));
  }
  fit.scale = std::clamp(to_sigma * median(sizes), least_scale, most_scale);
  if (!evaluator.cancelled()) {
    problem.start = solution.x;
    problem.robust_scale = fit.scale;
    solution = minimise(problem);
    fit.iterations += solution.iterations;
  }
  fit.x = solution.x;
  fit.converged = solution.converged && !evaluator.cancelled();
  fit.residuals = evaluator.predict(fit.x) - measured;
  residuals = finite(fit.residuals);
  fit.jacobian = derivatives.at(fit.x, residuals + measured);
  fit.weights = robust_weights(problem.weights, residuals, fit.scale);
  covariance_of(rows, fit.scale, fit);
  return fit;
}

Fit refit_linearly(const Evaluator& evaluator, const Fit& full, const std::vector<char>& used) {
  const std::vector<Observation>& rows = evaluator.rows();
  const auto n = static_cast<Eigen::Index>(rows.size());
  Fit fit = full;
  LeastSquares problem;
  take_priors(evaluator.constants(), fit, problem);
  const Eigen::VectorXd at_full = full.residuals.unaryExpr([](double v) { return std::isfinite(v) ? v : 0.0; });
  problem.residuals = [&](const Eigen::VectorXd& x) { return Eigen::VectorXd(at_full + full.jacobian * (x - full.x)); };
  problem.jacobian = [&](const Eigen::VectorXd&, const Eigen::VectorXd&) { return full.jacobian; };
  problem.weights.resize(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(i);
    problem.weights[i] = used[row] != 0 && std::isfinite(full.residuals[i]) ? rows[row].weight : 0;
  }
  problem.start = full.x;
  problem.prior = fit.prior;
  problem.prior_width = fit.prior_sigma;
  problem.robust_scale = full.scale;
  const LeastSquaresSolution solution = minimise(problem);
  fit.x = solution.x;
  fit.converged = solution.converged;
  fit.iterations = solution.iterations;
  fit.residuals = problem.residuals(fit.x);
  fit.weights = robust_weights(problem.weights, fit.residuals, fit.scale);
  covariance_of(rows, fit.scale, fit);
  return fit;
}

}  // namespace stepcast::validation
