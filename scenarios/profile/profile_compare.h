// A profile beside a forecast: which part of the step is off, by how much, and what would explain it.
//
// Parts that one rank's trace cannot tell apart are put together on both sides:
// transfer with waiting for peers, pipeline transfer with bubble, idle time of
// no known cause. What the forecast calls recompute is, in a profile, in the
// kernels' own classes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios {

struct ProfilePart {
  std::string name;
  double forecast_s = 0, measured_s = 0;
  std::string constant;             // key of the scenario that would explain it; empty: none
  std::optional<double> now, then;  // its value, and the one that would explain the difference to first order
  std::string remark;
};

struct ProfileComparison {
  std::string forecast, profile;
  double forecast_s = 0, measured_s = 0;
  std::vector<ProfilePart> parts;  // largest difference first
  std::vector<std::string> warnings;
};

// Current values of constants by key ("cluster.sustained_gemm"), as far as they are known.
using Constants = std::map<std::string, double>;

// `forecast` is a "stepcast.forecast/1" document, `profile` a "stepcast.profile/1" one.
[[nodiscard]] Result<ProfileComparison> compare_profile(const JsonDocument& forecast, const JsonDocument& profile,
                                                        const Constants& constants);
[[nodiscard]] bool is_profile(const JsonDocument& document);

inline constexpr const char* profile_compare_schema = "stepcast.profile-compare/1";
[[nodiscard]] nlohmann::ordered_json to_json(const ProfileComparison& comparison);
[[nodiscard]] std::string to_table(const ProfileComparison& comparison, bool colour);
[[nodiscard]] std::string to_csv(const ProfileComparison& comparison);

}  // namespace stepcast::scenarios
