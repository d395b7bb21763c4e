// The constants that `calibrate` may fit, as a table with meaning, prior and source.
//
// Data, not code: validation/calibrate/constants.json, or a file of the user's in the same form. Each constant is
// one number that changes catalogue constants by their keys (scenarios/calibration.h) for the devices and software
// profiles that it names. None can name a row or a family.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/calibration.h"
#include "sim/base/error.h"

namespace stepcast::validation {

struct CalibrationConstant {
  // factor: multiplies what the catalogue has; share: replaces it, between 0 and 1.
  enum class Form : unsigned char { factor, share };

  std::string name, meaning, source;
  std::string measurement;       // what would pin it
  scenarios::Adjustment target;  // keys, devices, software, kind, bounds
  Form form = Form::factor;
  double prior = 1;    // in the constant's own units
  double sigma = 0.1;  // of the prior: in the logarithm of a factor, in the logit of a share
  double lower = 0.2, upper = 5;

  // Fitted in the logarithm (factor) or the logit (share).
  [[nodiscard]] double to_internal(double value) const;
  [[nodiscard]] double to_value(double internal) const;
  [[nodiscard]] double difference_step() const { return form == Form::factor ? 0.02 : 0.1; }
  // As a profile holds it.
  [[nodiscard]] scenarios::Adjustment adjustment(double value) const;
};

// Errors: unreadable, an unknown or missing key, a name that stands twice, a prior out of its bounds, and what the
// catalogues of `catalog_root` do not know: a device, a software profile, a key of them.
[[nodiscard]] Result<std::vector<CalibrationConstant>> read_constants(const std::filesystem::path& file,
                                                                      const std::filesystem::path& catalog_root);
[[nodiscard]] std::filesystem::path default_constants(const std::filesystem::path& catalog_root);

// The inline calibration block of a scenario at these values.
[[nodiscard]] nlohmann::ordered_json calibration_at(const std::vector<CalibrationConstant>& constants,
                                                    std::span<const double> values);

}  // namespace stepcast::validation
