// Scaling curves: the same job on more devices.
//
// Strong: the batch stays. Weak: the batch grows with the devices. The layout grows
// by data parallelism, the rest of it stays; or it is planned anew at every size (plan/).
// A point is compared with the baseline only where both do the same work
// (work_differences.h): a batch that had to be rounded, for one, gives a time and no
// efficiency. Sizes that cannot run are shown with the reason, and the smallest that
// can is the baseline unless one is named.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/forecast.h"
#include "scenarios/plan/space.h"
#include "scenarios/scenario.h"
#include "scenarios/work_differences.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

// How the layout follows the devices.
enum class LayoutRule : unsigned char {
  data_parallel,  // more replicas of the scenario's own layout
  replan,         // the best layout that plan() finds; recompute, dispatcher, overlap and precision stay
};

struct ScalePoint {
  int devices = 0;
  bool feasible = false;
  std::string why;  // when not feasible
  double global_batch = 0;
  std::string layout;                    // in words
  std::vector<std::string> settings;     // the planned layout as --set flags
  std::int64_t layouts_valid = 0;        // that it was chosen from
  std::vector<std::string> not_scaling;  // work that differs from the baseline's; empty: comparable
  double step_time_s = 0, tokens_per_s = 0;
  double speedup = 0, efficiency = 0;  // to the baseline; of comparable points only
  double mfu = 0;
  std::map<std::string, double> breakdown;  // category -> mean seconds over ranks
  std::vector<std::string> breaks;          // what changed since the size before

  [[nodiscard]] bool comparable() const { return feasible && not_scaling.empty(); }
};

struct ScaleCurve {
  ScalingKind kind = ScalingKind::strong;
  LayoutRule layout = LayoutRule::data_parallel;
  int baseline_devices = 0;
  std::vector<ScalePoint> points;
  std::vector<std::string> assumptions, warnings;
  bool interrupted = false;
};

struct ScaleOptions {
  ScalingKind kind = ScalingKind::strong;
  LayoutRule layout = LayoutRule::data_parallel;
  plan::SpaceRequest space;  // of replan: values that the layout's axes may take
  double headroom = 0;       // of replan: share of a device's memory that must stay free
  std::vector<int> devices;  // ascending
  int baseline_devices = 0;  // 0: the smallest feasible size that does the work asked for
  ForecastOptions forecast;
  std::function<void(const std::string& what, long long done, long long total)> progress;
};

// Fails when the scenario or an axis cannot be read, or no size can run (with the reason of each).
[[nodiscard]] Result<ScaleCurve> scale(const ScenarioRequest& request, const ScaleOptions& options);

// `low`, then twice as many each, up to `high`.
[[nodiscard]] std::vector<int> powers_of_two(int low, int high);

[[nodiscard]] std::string_view name(LayoutRule rule);
[[nodiscard]] nlohmann::ordered_json to_json(const ScaleCurve& curve);
[[nodiscard]] std::string to_table(const ScaleCurve& curve);
[[nodiscard]] std::string to_csv(const ScaleCurve& curve);

}  // namespace stepcast::scenarios
