// One fit of a component: measured times, a prediction that depends on few constants, and its residuals.
//
// Constants are fitted in the logarithm by Levenberg-Marquardt on log(predicted / measured) with a soft-L1 loss.
// Residuals are relative, predicted / measured - 1. Cross-validation leaves out whole groups of rows (a shape family,
// a size, a model) in five folds, so that no row is judged by constants that saw its group.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace stepcast::validation {

struct Parameter {
  std::string name;  // as in the device's "fits" block: "e", "t0_us"
  double start = 1;
  double lower = 1e-6;
  double upper = 1e6;
  double prior_width = 0;  // of a prior at `start`, in the logarithm; 0: none
};

struct FitTask {
  std::string component;  // "gemm", "attention", "expert_layer", ...
  std::string device;     // catalogue name
  std::string variant;    // precision, kernel generation, operation
  std::string form;       // the equation in words
  std::string source;     // of the rows
  std::vector<Parameter> parameters;
  std::vector<double> measured;  // seconds
  std::vector<int> groups;       // of each row, for cross-validation
  // Seconds of a row under the constants, in the order of `parameters`.
  std::function<double(std::span<const double>, std::size_t)> predict;
  // The constants in the catalogue; empty where the product has none of its own (a nuisance of the measurement).
  std::vector<double> committed;
};

struct FittedConstant {
  std::string name;
  double fitted = 0;
  double committed = 0;
  bool has_committed = false;
};

struct Residuals {
  std::size_t n = 0;
  double median_abs = 0;
  double p90_abs = 0;
  double bias = 0;  // median signed
  double worst = 0;
};

struct FitReport {
  std::string component, device, variant, form, source;
  std::vector<FittedConstant> constants;
  Residuals fitted;           // in sample
  Residuals cross_validated;  // five folds by group; n = 0 when not asked for
  Residuals committed;        // with the catalogue's constants; n = 0 without
  bool converged = true;
};

enum class Refit : unsigned char { no, yes };

// Without refit only the committed constants are judged.
[[nodiscard]] FitReport run_fit(const FitTask& task, Refit refit);

[[nodiscard]] Residuals residuals(std::span<const double> relative_errors);

}  // namespace stepcast::validation
