// Forecasts of all observations at given constants, and their derivatives, in parallel.
//
// A forecast costs about 0.1 processor-seconds, so nothing is evaluated twice: a row is forecast again only when a
// constant that concerns it has moved, and a derivative is taken only where the constant names the row's device and
// software and was not found to leave it alone. Values are logarithms of seconds. Not for use from several threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <Eigen/Dense>

#include "validation/calibrate/constants.h"
#include "validation/calibrate/observations.h"

namespace stepcast::validation {

struct EvaluatorOptions {
  int threads = 0;
  std::function<void(const char* what, int done, int total)> progress;
  std::function<bool()> cancelled;
};

class Evaluator {
 public:
  Evaluator(const std::vector<CalibrationConstant>& constants, const std::vector<Observation>& rows,
            EvaluatorOptions options);

  // log(seconds) at the constants in internal units; NaN for rows whose forecast fails.
  [[nodiscard]] Eigen::VectorXd predict(const Eigen::VectorXd& x);
  // Forward differences at x, where predict gave `at`. Rows by constants; zero where a constant does not reach.
  // `all`: also constants that left a row alone at the last matrix.
  [[nodiscard]] Eigen::MatrixXd jacobian(const Eigen::VectorXd& x, const Eigen::VectorXd& at, bool all = false);
  // Whether the constant names the row's device, software and kind.
  [[nodiscard]] bool concerns(Eigen::Index row, Eigen::Index constant) const { return concerns_(row, constant); }
  // One row with overrides (another value of an open field); NaN if it cannot be.
  [[nodiscard]] double predict_row(std::size_t row, const Eigen::VectorXd& x,
                                   const std::vector<std::string>& sets) const;

  // The calibration block that a row gets at x: only what concerns it.
  [[nodiscard]] nlohmann::ordered_json calibration_of(std::size_t row, const Eigen::VectorXd& x) const;

  [[nodiscard]] const std::vector<CalibrationConstant>& constants() const { return constants_; }
  [[nodiscard]] const std::vector<Observation>& rows() const { return rows_; }
  [[nodiscard]] const EvaluatorOptions& options() const { return options_; }
  [[nodiscard]] long long forecasts() const { return forecasts_; }
  [[nodiscard]] bool cancelled() const { return options_.cancelled && options_.cancelled(); }
  // The first words of the reason why the row's last forecast failed.
  [[nodiscard]] const std::string& failure(std::size_t row) const { return failures_[row]; }

 private:
  struct Task {
    std::size_t row;
    Eigen::Index constant;  // -1: the value itself
  };
  [[nodiscard]] double forecast(std::size_t row, const Eigen::VectorXd& x, const std::vector<std::string>& sets,
                                std::string* failure) const;
  [[nodiscard]] std::vector<double> run(const std::vector<Task>& tasks, const Eigen::VectorXd& x, const char* what);
  [[nodiscard]] bool same_for(std::size_t row, const Eigen::VectorXd& a, const Eigen::VectorXd& b) const;

  const std::vector<CalibrationConstant>& constants_;
  const std::vector<Observation>& rows_;
  EvaluatorOptions options_;
  Eigen::Array<bool, Eigen::Dynamic, Eigen::Dynamic> concerns_, inert_;
  Eigen::VectorXd last_x_, last_;
  std::vector<std::string> failures_;
  long long forecasts_ = 0;
};

}  // namespace stepcast::validation
