#include "validation/components/levenberg_marquardt.h"

#include <algorithm>
#include <cmath>

namespace stepcast::validation {
namespace {

constexpr double step = 1e-6;  // forward difference, parameters are logarithms or of order one
constexpr double damping_start = 1e-3;
constexpr double damping_max = 1e10;

Eigen::VectorXd clamp(const LeastSquares& problem, Eigen::VectorXd x) {
  if (problem.lower.size() == x.size()) x = x.cwiseMax(problem.lower);
  if (problem.upper.size() == x.size()) x = x.cwiseMin(problem.upper);
  return x;
}

double prior_of(const LeastSquares& problem, Eigen::Index j) {
  return problem.prior.size() == problem.start.size() ? problem.prior[j] : problem.start[j];
}

double loss(const LeastSquares& problem, const Eigen::VectorXd& x, const Eigen::VectorXd& r) {
  const double s = problem.robust_scale;
  double sum = 0;
  for (Eigen::Index i = 0; i < r.size(); ++i) {
    const double squared = r[i] * r[i];
    const double term = s > 0 ? 2 * s * s * (std::sqrt(1 + squared / (s * s)) - 1) : squared;
    sum += problem.weights.size() == r.size() ? problem.weights[i] * term : term;
  }
  if (problem.prior_width.size() == x.size()) {
    for (Eigen::Index j = 0; j < x.size(); ++j) {
      if (problem.prior_width[j] <= 0) continue;
      const double d = (x[j] - prior_of(problem, j)) / problem.prior_width[j];
      sum += s > 0 ? s * s * d * d : d * d;  // in units of the robust scale, so that widths mean standard deviations
    }
  }
  return std::isfinite(sum) ? sum : INFINITY;
}

// A parameter at a bound that the gradient would push beyond it stays there: it leaves the step of the others alone.
void hold_at_bounds(const LeastSquares& problem, const Eigen::VectorXd& x, Eigen::MatrixXd& normal,
                    Eigen::VectorXd& gradient) {
  for (Eigen::Index c = 0; c < x.size(); ++c) {
    const bool low = problem.lower.size() == x.size() && x[c] <= problem.lower[c] && gradient[c] > 0;
    const bool high = problem.upper.size() == x.size() && x[c] >= problem.upper[c] && gradient[c] < 0;
    if (!low && !high) continue;
    normal.row(c).setZero();
    normal.col(c).setZero();
    normal(c, c) = 1;
    gradient[c] = 0;
  }
}

Eigen::MatrixXd jacobian(const LeastSquares& problem, const Eigen::VectorXd& x, const Eigen::VectorXd& r) {
  Eigen::MatrixXd j(r.size(), x.size());
  for (Eigen::Index c = 0; c < x.size(); ++c) {
    Eigen::VectorXd moved = x;
    const bool at_upper = problem.upper.size() == x.size() && x[c] + step > problem.upper[c];
    const double h = at_upper ? -step : step;
    moved[c] += h;
    j.col(c) = (problem.residuals(moved) - r) / h;
  }
  return j;
}

}  // namespace

LeastSquaresSolution minimise(const LeastSquares& problem) {
  LeastSquaresSolution best;
  best.x = clamp(problem, problem.start);
  Eigen::VectorXd r = problem.residuals(best.x);
  best.cost = loss(problem, best.x, r);
  double damping = damping_start;
  const double s = problem.robust_scale;
  for (best.iterations = 0; best.iterations < problem.max_iterations; ++best.iterations) {
    const Eigen::MatrixXd j = problem.jacobian ? problem.jacobian(best.x, r) : jacobian(problem, best.x, r);
    // Soft-L1 by reweighting: the weight is rho'(r) / (2 r).
    Eigen::VectorXd w = Eigen::VectorXd::Ones(r.size());
    if (s > 0) w = (1 + (r.array() / s).square()).sqrt().inverse().matrix();
    if (problem.weights.size() == r.size()) w = w.cwiseProduct(problem.weights);
    Eigen::MatrixXd normal = j.transpose() * w.asDiagonal() * j;
    Eigen::VectorXd gradient = j.transpose() * w.asDiagonal() * r;
    if (problem.prior_width.size() == best.x.size()) {
      for (Eigen::Index c = 0; c < best.x.size(); ++c) {
        if (problem.prior_width[c] <= 0) continue;
        const double weight = (s > 0 ? s * s : 1.0) / (problem.prior_width[c] * problem.prior_width[c]);
        normal(c, c) += weight;
        gradient[c] += weight * (best.x[c] - prior_of(problem, c));
      }
    }
    hold_at_bounds(problem, best.x, normal, gradient);
    bool improved = false;
    while (!improved && damping < damping_max) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal() += damping * normal.diagonal().cwiseMax(1e-12);
      const Eigen::VectorXd x = clamp(problem, best.x - damped.ldlt().solve(gradient));
      const Eigen::VectorXd move = x - best.x;
      // What the quadratic model promises; below the tolerance a dear try is not worth it.
      const double promised = -2 * gradient.dot(move) - move.dot(normal * move);
      if (problem.jacobian && promised < problem.tolerance * best.cost) break;
      const Eigen::VectorXd next = problem.residuals(x);
      const double cost = loss(problem, x, next);
      if (cost < best.cost) {
        improved = true;
        best.converged = best.cost - cost < problem.tolerance * best.cost;
        best.x = x;
        best.cost = cost;
        r = next;
        damping = std::max(damping / 5, 1e-12);
      } else {
        damping *= 4;
      }
    }
    if (!improved) best.converged = true;
    if (best.converged) break;
  }
  return best;
}

}  // namespace stepcast::validation
