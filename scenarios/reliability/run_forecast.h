// A whole run: goodput, days, lost time by cause, cost and energy, over sampled runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/reliability/run_plan.h"
#include "scenarios/reliability/simulate_run.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

struct Spread {  // over sampled runs
  double mean = 0, p10 = 0, p50 = 0, p90 = 0;
};

struct RunForecast {
  std::string name;
  nlohmann::ordered_json scenario;  // resolved
  RunPlan plan;
  int replicas = 0;
  Spread days, goodput, tokens, tokens_per_day, interruptions;
  std::array<std::array<double, part_count>, cause_count> lost_s{};  // mean of a run
  std::array<double, cause_count> events{};                          // mean of a run
  double mtbf_s = never;                                             // without planned stops
  // Checkpoint interval: what each rule gives, and the sampled optimum where it was looked for.
  double young_s = 0, daly_s = 0;  // 0: nothing fails
  double sampled_s = 0;            // 0: not looked for
  double penalty = 0;              // of the interval in use over the sampled optimum, share of wall time
  // Money and energy; negative: no price or no power known.
  double device_hours = 0, cost = -1, energy_kwh = -1;
  std::vector<std::string> assumptions, warnings;

  [[nodiscard]] double lost_by_cause_s(Cause cause) const;
  [[nodiscard]] double lost_by_part_s(Part part) const;
};

struct RunOptions {
  int replicas = 1000;
  bool check_interval = true;  // simulate other intervals too
};

// Errors: infeasible, when the run does not get anywhere or would take too many failures to simulate.
[[nodiscard]] Result<RunForecast> forecast_run(RunPlan plan, const RunOptions& options);

inline constexpr const char* run_schema = "stepcast.run/1";
[[nodiscard]] nlohmann::ordered_json to_json(const RunForecast& run);
[[nodiscard]] std::string to_table(const RunForecast& run, bool colour);
[[nodiscard]] std::string to_csv(const RunForecast& run);

}  // namespace stepcast::scenarios
