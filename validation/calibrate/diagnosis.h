// What a fit can and cannot tell: constants that the data do not separate, rows that disagree, the next measurement.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <Eigen/Dense>

#include "validation/calibrate/fit.h"

namespace stepcast::validation {

// A direction in which the constants can move together while the forecasts of the data hardly do.
struct Ridge {
  double told = 0;  // share of the prior's variance in this direction that the data took away
  // Constants with a large part in it and by which factor (share: difference) each moves, one prior sigma along it.
  std::vector<std::pair<std::string, double>> parts;
};

struct Correlation {
  std::string first, second;
  double value = 0;
};

struct Outlier {
  std::string id;
  double error = 0;   // predicted / measured - 1, as if the row had not been fitted
  double sigmas = 0;  // in spreads of its family
};

// What would help most: knowing one constant exactly.
struct NextMeasurement {
  std::string constant, measurement;
  double interval_before = 0, interval_after = 0;  // mean half width of the 90 % interval from constants alone
};

struct Diagnosis {
  std::vector<std::string> blind;         // constants that no row feels, or whose interval is the prior's
  std::vector<Ridge> ridges;              // of what the data feel but do not separate
  std::vector<Correlation> correlations;  // |r| of 0.8 and more, after the fit
  std::vector<Outlier> outliers;
  std::vector<NextMeasurement> next;  // best first
};

// `targets`: derivatives of what is to be predicted (rows by constants); empty: of the fitted rows themselves.
[[nodiscard]] Diagnosis diagnose(const Evaluator& evaluator, const Fit& fit, const Eigen::MatrixXd& targets);

}  // namespace stepcast::validation
