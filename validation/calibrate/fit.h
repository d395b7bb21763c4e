// Fit of few constants with priors to many measured times.
//
// Minimises  sum_i w_i rho(log predicted_i - log measured_i) + s^2 sum_c ((x_c - prior_c) / sigma_c)^2  with the
// soft-L1 loss rho at the scale s, by Levenberg-Marquardt (components/levenberg_marquardt.h). The matrix of
// derivatives comes from repeated forecasts; between steps it is updated row by row (Schubert's form of Broyden's
// update), and taken anew when it no longer tells what a step did.
#pragma once

#include <vector>

#include <Eigen/Dense>

#include "validation/calibrate/evaluator.h"

namespace stepcast::validation {

struct FitOptions {
  double scale = 0.05;  // s of the first pass; the second takes the spread of the residuals
  int max_iterations = 10;
  Eigen::VectorXd start;     // internal units; empty: the priors
  Eigen::MatrixXd jacobian;  // of all rows, from another fit: then none is computed; empty: computed
  std::vector<char> used;    // by row: 0 leaves it out; empty: all
};

struct Fit {
  Eigen::VectorXd x, prior, prior_sigma;  // internal units
  Eigen::VectorXd start_residuals;        // log(predicted / measured) at the priors; NaN: no forecast
  Eigen::VectorXd residuals;              // at x
  Eigen::VectorXd weights;                // of the rows in the covariance: robust, family, left out = 0
  Eigen::VectorXd left_out_residuals;     // r / (1 - leverage): what the row would show had it not been fitted
  Eigen::MatrixXd jacobian;
  Eigen::MatrixXd covariance;   // of x; families are clusters of residuals that move together
  Eigen::MatrixXd information;  // J^T W J / sigma^2, without the priors
  double sigma = 0;             // spread of left-out residuals about their family's middle
  double family_sigma = 0;      // spread of the families' middles
  double scale = 0;             // s of the last pass
  int iterations = 0;
  bool converged = false;
};

[[nodiscard]] Fit fit_constants(Evaluator& evaluator, const FitOptions& options);

// The fit to other rows of the same set (0 leaves a row out), on the matrix of derivatives of `full` and so without a
// forecast: logarithms of times are close to linear in those of the constants. Residuals of the result are the linear
// ones; those of rows left out want forecasts at its x.
[[nodiscard]] Fit refit_linearly(const Evaluator& evaluator, const Fit& full, const std::vector<char>& used);

}  // namespace stepcast::validation
