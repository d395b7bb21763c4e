// Forecasts of runs that were not fitted, with 90 % intervals.
//
// The interval adds, in the logarithm: the covariance of the constants; the spread of the fitted rows, within and
// between families; a software profile that the fit has not seen; and, on each side, the range over the fields that
// the row leaves open.
#pragma once

#include <string>
#include <vector>

#include <Eigen/Dense>

#include "validation/calibrate/fit.h"

namespace stepcast::validation {

struct Prediction {
  std::string id;
  double measured_s = 0;  // 0: not known
  double plain_s = 0;     // with the catalogue's constants
  double predicted_s = 0;
  double low_s = 0, high_s = 0;  // 90 %
  // Parts of the interval, each as a 90 % half width in the logarithm.
  double from_constants = 0, from_residuals = 0, from_software = 0;
  double open_low_s = 0, open_high_s = 0;  // over the fields that the row leaves open
  std::vector<std::string> open_fields;
  std::vector<std::string> breaks;  // what the nearest fitted run does not have
  std::string nearest;              // its id
};

// `targets` holds the runs to predict with the fit's constants. Rows whose forecast fails are left out.
struct Extrapolation {
  std::vector<Prediction> rows;
  std::vector<Refusal> refused;
  Eigen::MatrixXd jacobian;      // of the rows
  int inside = 0, measured = 0;  // how many measured times lie in their interval
};
// `breaks`: name the scaling breaks too, at the price of whole forecasts of each row and of its nearest fitted run.
[[nodiscard]] Extrapolation extrapolate(Evaluator& targets, const Evaluator& fitted, const Fit& fit, bool breaks);

}  // namespace stepcast::validation
