// Where to look first, from a step's symptoms. Rules of thumb with the evidence beside each; nothing is computed anew.
#pragma once

#include <string>
#include <vector>

#include "scenarios/forecast.h"

namespace stepcast::scenarios {

// Shares are of the step's time, mean over ranks, waiting for peers included. Negative: not known.
struct Symptoms {
  double mfu = 0, hfu = 0;
  double goodput = -1;  // productive share of wall time
  double exposed_ep = 0, exposed_tp = 0, exposed_cp = 0, exposed_pp = 0, exposed_dp = 0;
  double bubble = 0;
  double host = 0;
  int stages = 1, microbatches = 1;
  double p95_over_mean = -1;  // of the step time over sampled steps
  double imbalance = 1;       // rows of the busiest rank over the mean
};

struct Hint {
  std::string symptom;  // with its figures
  std::string look_at;  // likely causes, in order
};

[[nodiscard]] std::vector<Hint> diagnose(const Symptoms& symptoms);
[[nodiscard]] Symptoms symptoms_of(const Forecast& forecast);

}  // namespace stepcast::scenarios
