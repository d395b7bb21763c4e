// Levenberg-Marquardt for small dense problems with a robust loss.
//
// Minimises sum rho(r_i(x)) + sum ((x_j - prior_j) / width_j)^2 with the soft-L1 loss
// rho(r) = 2 s^2 (sqrt(1 + (r/s)^2) - 1): quadratic for |r| << s, linear for outliers.
// The Jacobian is by forward differences or the caller's; a few parameters and a few thousand rows.
#pragma once

#include <Eigen/Dense>
#include <functional>

namespace stepcast::validation {

struct LeastSquares {
  std::function<Eigen::VectorXd(const Eigen::VectorXd&)> residuals;
  Eigen::VectorXd start;
  Eigen::VectorXd lower, upper;  // bounds, of start's size or empty
  Eigen::VectorXd prior_width;   // of start's size or empty; 0: no prior on that parameter (the prior is at `start`)
  Eigen::VectorXd prior;         // of start's size, where the priors are; empty: at `start`
  double robust_scale = 0.05;    // s; 0: plain squares
  int max_iterations = 200;
  Eigen::VectorXd weights;  // of the residuals' losses, or empty: all 1
  // Instead of forward differences, where a residual is dear: the matrix at (x, residuals(x)), exact or nearly so.
  std::function<Eigen::MatrixXd(const Eigen::VectorXd&, const Eigen::VectorXd&)> jacobian;
  // Ends when a step promises or brings less than this share of the cost.
  double tolerance = 1e-8;
};

struct LeastSquaresSolution {
  Eigen::VectorXd x;
  double cost = 0;
  int iterations = 0;
  bool converged = false;
};

[[nodiscard]] LeastSquaresSolution minimise(const LeastSquares& problem);

}  // namespace stepcast::validation
