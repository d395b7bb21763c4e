// headroom: what each thing would give if it were ideal, the scenario simulated again with it.
//
// The same seed throughout, so all variants meet the same routing, devices and
// stalls where they still exist (common random numbers). Gains do not add up:
// what one ideal uncovers another may have hidden.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/forecast.h"

namespace stepcast::scenarios {

struct HeadroomRow {
  std::string ideal;    // "balanced_routing"
  std::string meaning;  // in words
  double step_time_s = 0;
  double saved_s = 0;  // against the scenario as it is
  double speedup = 1;
};

struct Headroom {
  std::string name;
  double step_time_s = 0;  // mean of the sampled steps, as it is
  int samples = 0;
  std::vector<HeadroomRow> rows;      // largest saving first
  std::vector<std::string> left_out;  // ideals that do not apply, with the reason
  std::vector<std::string> assumptions;
  bool interrupted = false;
};

// Memory is not checked: a variant without recomputation may not fit. options.critical_path is not used.
[[nodiscard]] Result<Headroom> headroom(const Scenario& scenario, const ForecastOptions& options);

[[nodiscard]] nlohmann::ordered_json to_json(const Headroom& headroom);
[[nodiscard]] std::string to_table(const Headroom& headroom);
[[nodiscard]] std::string to_csv(const Headroom& headroom);

}  // namespace stepcast::scenarios
