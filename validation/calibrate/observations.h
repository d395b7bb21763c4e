// What a calibration looks at: measured times, each with the forecast that stands for it.
//
// A training step is forecast by the loader and the engine of `simulate`. Rows of one release whose columns are
// identical are one observation with the median of their times; their spread is noise, not information. A collective
// or a kernel is priced by the same cost functions that the lowering uses.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/forecast.h"
#include "sim/base/error.h"
#include "validation/mapping.h"
#include "validation/runs.h"

namespace stepcast::validation {

struct Observation {
  std::string id;                // of the first row
  std::vector<std::string> ids;  // of all rows that are this case
  std::string family, kind, model;
  std::string device, software;  // catalogue names, after aliases
  bool software_assumed = false;
  int devices = 1;
  bool component = false;  // a kernel or a collective: no share in the errors of steps
  double measured_s = 0;
  double spread = 0;  // of identical rows, largest over smallest, less 1
  double weight = 1;
  nlohmann::ordered_json scenario;        // of a step, without a calibration
  std::vector<Alternative> alternatives;  // values of fields that the row leaves open
  std::vector<std::string> assumed;
  // Seconds under a calibration block (calibration_at), with further overrides as --set takes them.
  std::function<Result<double>(const nlohmann::ordered_json& calibration, const std::vector<std::string>& sets)>
      forecast;
  // The whole forecast of a step, for what changes between two sizes.
  std::function<Result<scenarios::Forecast>(const nlohmann::ordered_json& calibration)> account;
};

struct Observations {
  std::vector<Observation> rows;
  std::vector<Refusal> refused;
  std::vector<std::string> warnings;
};

// One for each distinct row of the runs that has a scenario; the others are refused with the reason. Rows of which
// the file does not tell the recomputation are forecast for it, so this can take a while: it stops early, with the rows
// seen so far, once `cancelled` says so.
[[nodiscard]] Observations observe_runs(const RunsFile& runs, const std::filesystem::path& catalog_root,
                                        const std::vector<std::string>& only,
                                        const std::function<bool()>& cancelled = {});

// A family of more rows than `most` counts as `most` rows: its rows share what the model lacks.
void weigh_families(std::vector<Observation>& rows, double most);

}  // namespace stepcast::validation
