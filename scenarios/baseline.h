// A scorecard kept in version control, and what has moved since.
//
// A baseline is a small JSON file with one value a line: what was forecast or
// measured, the tolerance of each value, the configuration, versions and
// environment. Values that are parts of a step are judged against the whole
// step (a wait of 1 ms that doubles in a step of 10 s has not moved), all
// others against themselves.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios {

inline constexpr const char* baseline_schema = "stepcast.baseline/1";
inline constexpr double default_tolerance = 0.01;

struct Baseline {
  std::string name;
  std::string kind;  // "forecast", "profile", "run", or "measured" where only values were given
  std::map<std::string, std::string> versions, environment;
  double tolerance = default_tolerance;      // relative
  std::map<std::string, double> tolerances;  // of single values or of groups ("breakdown")
  std::map<std::string, double> values;      // "step_time_s.mean", "breakdown.gemm", ...
  nlohmann::ordered_json scenario;           // resolved; null where none is known

  // The tolerance of a value: its own, that of the longest group it belongs to, or the general one.
  [[nodiscard]] double tolerance_of(const std::string& value) const;
};

// The values that a result of simulate, run or import kineto is judged by. Errors: another schema, no values.
[[nodiscard]] Result<Baseline> baseline_of(const JsonDocument& result);
[[nodiscard]] bool is_result(const JsonDocument& document);

[[nodiscard]] Result<Baseline> read_baseline(const JsonDocument& document);
[[nodiscard]] std::string baseline_text(const Baseline& baseline);

struct Drift {
  std::string name;
  double recorded = 0, now = 0;
  double change = 0;     // relative to the recorded value, or for parts of the step to the step
  double tolerance = 0;  // of `change`
  [[nodiscard]] bool moved() const;
};

struct BaselineCheck {
  std::string name;
  std::vector<Drift> values;             // largest change over tolerance first
  std::vector<std::string> missing;      // recorded, not in the result
  std::vector<std::string> differences;  // of configuration, versions and environment
  bool same_kind = true;
  [[nodiscard]] bool passed() const;
};

// What is missing counts as moved where both are of the same kind; a measured run need not have all of a forecast.
[[nodiscard]] BaselineCheck check_baseline(const Baseline& recorded, const Baseline& now);

inline constexpr const char* baseline_check_schema = "stepcast.baseline-check/1";
[[nodiscard]] nlohmann::ordered_json to_json(const BaselineCheck& check);
[[nodiscard]] std::string to_table(const BaselineCheck& check, bool colour);
[[nodiscard]] std::string to_csv(const BaselineCheck& check);

}  // namespace stepcast::scenarios
