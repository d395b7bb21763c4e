// Scaling curves: the same job on more devices.
//
// Strong: the batch stays. Weak: the batch grows with the devices. Data parallelism
// grows, the rest of the layout stays. Nothing else changes, so every pair of points
// is a scaling comparison (worked_cases C); sizes that cannot run are shown with the
// reason, and the smallest that can is the baseline unless one is named.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/forecast.h"
#include "scenarios/scenario.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

enum class ScaleKind : unsigned char { strong, weak };

struct ScalePoint {
  int devices = 0;
  bool feasible = false;
  std::string why;  // when not feasible
  double global_batch = 0;
  double step_time_s = 0, tokens_per_s = 0;
  double speedup = 0, efficiency = 0;  // to the baseline
  double mfu = 0;
  std::map<std::string, double> breakdown;  // category -> mean seconds over ranks
  std::vector<std::string> breaks;          // what changed since the size before
};

struct ScaleCurve {
  ScaleKind kind = ScaleKind::strong;
  int baseline_devices = 0;
  std::vector<ScalePoint> points;
  std::vector<std::string> assumptions, warnings;
  bool interrupted = false;
};

struct ScaleOptions {
  ScaleKind kind = ScaleKind::strong;
  std::vector<int> devices;  // ascending
  int baseline_devices = 0;  // 0: the smallest feasible size
  ForecastOptions forecast;
  std::function<void(int done, int total)> progress;
};

// Fails when the scenario itself cannot be read, or no size can run (with the reason of each).
[[nodiscard]] Result<ScaleCurve> scale(const ScenarioRequest& request, const ScaleOptions& options);

// Powers of two from `low` to `high`, both taken in.
[[nodiscard]] std::vector<int> powers_of_two(int low, int high);

[[nodiscard]] nlohmann::ordered_json to_json(const ScaleCurve& curve);
[[nodiscard]] std::string to_table(const ScaleCurve& curve);
[[nodiscard]] std::string to_csv(const ScaleCurve& curve);

}  // namespace stepcast::scenarios
