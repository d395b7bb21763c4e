// calibrate: from measured runs to a profile, a report, and forecasts with intervals.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "validation/calibrate/diagnosis.h"
#include "validation/calibrate/extrapolate.h"
#include "validation/calibrate/fit.h"
#include "validation/validate.h"

namespace stepcast::validation {

struct CalibrateOptions {
  std::filesystem::path catalog_root;
  std::filesystem::path constants;  // empty: the table of the product
  std::string name = "calibrated";  // of the profile
  int max_iterations = 10;
  double family_rows = 60;  // a family counts as at most this many rows
  bool breaks = true;       // name scaling breaks of predicted rows
  EvaluatorOptions evaluator;
};

struct FittedValue {
  CalibrationConstant constant;
  double value = 0, low = 0, high = 0;  // 90 % interval
  double told = 0;                      // share of the prior's variance that the data took away
  int rows = 0;                         // that feel it
  bool at_bound = false;
};

struct CalibratedRow {
  std::string id, family, device, software;
  std::size_t rows = 1;  // identical ones
  double measured_s = 0, plain_s = 0, fitted_s = 0, left_out_s = 0;
  double spread = 0;  // of identical rows
};

struct Calibration {
  std::vector<FittedValue> values;
  std::vector<CalibratedRow> rows;
  std::vector<Refusal> refused;
  std::vector<std::string> warnings;
  ErrorStats before, after, left_out;  // of steps
  Diagnosis diagnosis;
  Extrapolation predicted;
  ErrorStats predicted_errors;  // of predicted rows that have a measured time
  double sigma = 0, family_sigma = 0;
  int iterations = 0;
  long long forecasts = 0;
  bool converged = false, interrupted = false;
  nlohmann::ordered_json profile;  // "stepcast.profile/1"
};

// `targets` may be empty. Fails when no row can be fitted, with the reason of the first.
[[nodiscard]] Result<Calibration> calibrate(Observations fitted, Observations targets, const CalibrateOptions& options);

// What a fit says, without forecasts of other rows.
[[nodiscard]] Calibration summary_of(const Evaluator& evaluator, const Fit& fit, const std::string& name);

[[nodiscard]] nlohmann::ordered_json to_json(const Calibration& calibration);
[[nodiscard]] std::string to_table(const Calibration& calibration);
[[nodiscard]] std::string to_csv(const Calibration& calibration);  // the rows, fitted and predicted

}  // namespace stepcast::validation
