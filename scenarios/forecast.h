// forecast(): from a scenario to everything that a scorecard shows.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/ledger.h"
#include "parallelism/lower.h"
#include "scenarios/scenario.h"
#include "sim/base/error.h"
#include "sim/base/stats.h"
#include "sim/engine/flows.h"
#include "sim/record/report.h"

namespace stepcast::scenarios {

struct ForecastOptions {
  int threads = 0;  // 0: the processors that the process is bound to
  bool ignore_memory = false;
  bool critical_path = true;
  // One lane a stage where nothing differs by rank (balanced routing, no noise): the same step time and peak, at the
  // cost of one rank a stage. The report's ranks are then the stages.
  bool representative = false;
  // Where the memory does not fit, the error names changes that would; they are loaded from this catalogue. Empty:
  // none.
  std::filesystem::path advice_catalog;
  std::function<void(int done, int total)> progress;  // called from one thread at a time
  std::function<bool()> cancelled;                    // polled between sampled steps
};

struct StepTimeStats {
  double mean_s = 0, p50_s = 0, min_s = 0, max_s = 0;
  double p95_s = -1, p99_s = -1;  // negative: too few samples (100 and 500)
  int samples = 0;
  // Order statistics that enclose the quantile with 95 % confidence, whatever the distribution; none: too few samples.
  std::optional<Interval> p95_interval = std::nullopt, p99_interval = std::nullopt;
};

struct Utilisation {
  double mfu = 0, hfu = 0;
  double model_flops = 0, executed_flops = 0;  // per step
  std::string convention;
  double peak_flops_per_device = 0;  // of the lowest precision in which GEMMs run
  std::string peak_precision;
  double bf16_peak_flops_per_device = 0;
  struct ByConvention {
    std::string name;
    double model_flops = 0, mfu = 0;
  };
  std::vector<ByConvention> by_convention;
};

struct EngineStats {
  int devices = 0;
  std::int64_t rank_ops = 0;  // of one step
  double wall_s = 0, cpu_s = 0, rank_ops_per_s = 0;
  int threads = 1;
  std::int64_t peak_rss_bytes = 0;
  std::map<std::string, double> tier_share;  // of rank-ops
  int flow_steps = 0;                        // simulated with contention; 0: none
  std::string flow_level = {};               // fabric.flow_level
  sim::FlowStats flows = {};                 // of all of them; its `flows` are operations on shared links
};

struct CommunicationRow {
  std::string kind, group, span;
  int domains = 1;            // NVLink domains of its widest group
  int leaf_groups = 1;        // that one of its groups touches, at most
  bool crosses_leaf = false;  // some of its traffic takes the uplinks of a leaf switch
  double calls = 0, payload_bytes = 0, wire_bytes = 0, raw_s = 0, exposed_s = 0, wait_s = 0;
  double algbw_gb_per_s = 0, busbw_gb_per_s = 0;
};

struct MemoryAccount {
  bool fits = true;
  double peak_bytes = 0, limit_bytes = 0;  // as the device counts: context included
  double allocated_bytes = 0;              // tensors, as torch.cuda.max_memory_allocated
  double reserved_bytes = 0;               // and what the allocator cannot use
  int peak_rank = 0;
  double peak_at_s = 0;
  std::map<std::string, double> by_part;
};

struct Forecast {
  Scenario scenario;
  StepTimeStats step_time;
  std::vector<double> samples_s;    // by sampled step
  double tokens_per_step = 0;       // effective
  double slots_per_step = 0;        // sequence slots, padding included
  double assignments_per_step = 0;  // tokens x top_k x MoE layers
  Utilisation utilisation;
  std::map<std::string, sim::CategoryStats> breakdown;
  std::vector<CommunicationRow> communication;
  double bubble_fraction = 0, ideal_bubble_fraction = -1;  // of the step; negative: no closed form
  MemoryAccount memory;
  bool moe = false;
  parallelism::ExpertLoad expert_load;
  std::string stage_split;
  sim::StepReport report;  // of the median sampled step
  EngineStats engine;
  std::vector<std::string> assumptions, warnings;
  bool interrupted = false;  // some sampled steps are missing
};

// Fails with `infeasible` when the memory does not fit and ignore_memory is off: the error names the largest parts.
[[nodiscard]] Result<Forecast> forecast(const Scenario& scenario, const ForecastOptions& options);

}  // namespace stepcast::scenarios
