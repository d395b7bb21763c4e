// Forecasts of measured runs beside what was measured.
//
// Every row goes through the same loader and the same engine as `simulate`. Errors
// are fractions, (predicted - measured) / measured, of the step time.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "validation/runs.h"

namespace stepcast::validation {

struct RowResult {
  std::string id, family, device, kind, software, model;
  std::string sweep, layout;  // rows of a sweep differ in layout only; rows of one layout are repeats
  double measured_s = 0, predicted_s = 0, error = 0;
  double low_s = 0, high_s = 0;  // over the fields that the row leaves open
  double predicted_peak_memory_gb = 0;
  double measured_peak_memory_gb = 0;  // 0: not measured
  std::string memory_report;           // what the measurement counts: allocated, reserved, device
  bool fits = true;
  std::vector<std::string> assumed;
};

struct ErrorStats {
  int n = 0;
  double median_abs = 0, p90_abs = 0, bias = 0, max_abs = 0;
};

struct Validation {
  std::vector<RowResult> rows;
  std::vector<Refusal> refused;
  std::vector<std::string> warnings;  // what the file has and nobody reads
  ErrorStats all;
  std::map<std::string, ErrorStats> by_family, by_device, by_kind, by_software;
  // Kendall's tau of predicted against measured order, by sweep of five or more different layouts; repeats of a layout
  // are one, at their median.
  std::map<std::string, double> layout_rank_correlation;
  ErrorStats memory;  // of peak memory, rows that have it
  bool interrupted = false;
};

struct ValidateOptions {
  std::filesystem::path catalog_root;
  std::vector<std::string> only;       // ids; empty: all
  bool ranges = true;                  // forecast the alternatives of open fields too
  nlohmann::ordered_json calibration;  // a profile (scenarios/calibration.h) for every row; empty: none
  std::vector<std::string> sets;  // KEY=VALUE over every row's scenario, and over the alternatives of its open fields
  int threads = 0;
  std::function<void(int done, int total)> progress;
  std::function<bool()> cancelled;
};

[[nodiscard]] Validation validate(const RunsFile& runs, const ValidateOptions& options);

[[nodiscard]] ErrorStats error_stats(std::vector<double> errors);
// Kendall's tau-a of two equally long series; 1 for the same order.
[[nodiscard]] double kendall_tau(const std::vector<double>& a, const std::vector<double>& b);

[[nodiscard]] nlohmann::ordered_json to_json(const Validation& validation);
[[nodiscard]] std::string to_table(const Validation& validation, bool every_row);

}  // namespace stepcast::validation
