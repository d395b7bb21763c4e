// plan(): which layout is the fastest that fits.
//
// Searches the product of the axes (space.h) exactly: layouts are dropped only by
// bounds that are never above the simulated step (outline.h), survivors are
// simulated exactly on the same seed. During the search a layout is
// simulated for one sampled step; the ranking that comes out is then simulated for
// as many as the scenario asks.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/compare.h"
#include "scenarios/megatron/export.h"
#include "scenarios/plan/search.h"
#include "scenarios/plan/space.h"
#include "scenarios/scenario.h"
#include "sim/base/error.h"

namespace stepcast::scenarios::plan {

struct PlanOptions {
  SpaceRequest space;
  int top = 10;
  double headroom = 0;               // share of a device's memory that must stay free
  double price_per_device_hour = 0;  // 0: the scenario's reliability.price_per_device_hour, if it has one
  bool fronts = true;                // also the fastest layouts at more headroom
  bool explain = true;               // also the winner against the runner-up, as scenario and as arguments
  int threads = 1;
  std::function<void(const char* what, long long done, long long total)> progress;
  std::function<bool()> cancelled;
};

struct PlannedLayout {
  Point point;
  std::string words;
  std::string recompute, overlap;     // names of the point's choices
  std::vector<std::string> settings;  // the layout as --set flags
  double step_time_s = 0;             // mean of the asked samples
  double bound_s = 0;                 // what the search knew before simulating it
  double tokens_per_s = 0;
  double mfu = 0;  // causal attention, as `simulate` has it
  double peak_bytes = 0, free_share = 0;
  double cost_per_million_tokens = 0;  // 0: no price
};

struct PlanResult {
  std::string scenario, model, cluster;
  std::vector<PlannedLayout> layouts;         // best first
  std::vector<PlannedLayout> memory_front;    // throughput against free memory, none beaten in both
  std::vector<PlannedLayout> devices_front;   // throughput against devices; when several counts were asked for
  std::vector<double> headroom_levels;        // at which the memory front was searched
  std::vector<Comparison> against_runner_up;  // one, or none when one layout ran: a the runner-up, b the winner
  nlohmann::ordered_json winner;              // complete scenario
  megatron::MegatronExport winner_arguments;  // the same for Megatron-LM
  Counts counts;
  SearchCost cost;
  double memory_limit = 0, price = 0;
  int samples = 1, threads = 1;
  std::vector<std::string> assumptions, warnings;
  bool interrupted = false;  // before a layout was simulated: counts and no layout
};

// Fails when the scenario or an axis cannot be read, or no layout can run (with what was refused and why).
[[nodiscard]] Result<PlanResult> plan(const ScenarioRequest& request, const PlanOptions& options);

inline constexpr const char* plan_schema = "stepcast.plan/1";
[[nodiscard]] nlohmann::ordered_json to_json(const PlanResult& result);
[[nodiscard]] std::string to_table(const PlanResult& result, bool colour);
[[nodiscard]] std::string to_csv(const PlanResult& result);

}  // namespace stepcast::scenarios::plan
