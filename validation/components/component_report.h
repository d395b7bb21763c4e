// Component checks: what `validate --components` and `explain --fits` print.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "validation/components/fit_task.h"

namespace stepcast::validation {

// One report a component, device and variant, in a fixed order. With Refit::no the residuals of the committed constants
// (fast); with Refit::yes the constants are fitted anew and cross-validated as well (some tens of seconds).
// `root` holds validation/data/calibration and topology/catalog.
[[nodiscard]] Result<std::vector<FitReport>> component_report(const std::filesystem::path& root, Refit refit);

// Pooled over the variants and devices of a component: median of the cross-validated (or committed) medians.
struct ComponentSummary {
  std::string component;
  std::size_t sets = 0;
  std::size_t rows = 0;
  double median_abs = 0;        // median over the sets
  double worst_median_abs = 0;  // largest over the sets
  double p90_abs = 0;           // median over the sets
};
[[nodiscard]] std::vector<ComponentSummary> summarise(const std::vector<FitReport>& reports);

// The fitted constants as the "fits" blocks of topology/catalog/devices, by device: {"h100": {"gemm": {"bf16":
// {...}}}}. Collective and dispatch constants come under "collective" and "dispatch" for the tables in
// topology/collectives.
[[nodiscard]] std::string fitted_constants_json(const std::vector<FitReport>& reports);

}  // namespace stepcast::validation
