// The cheapest single changes of a scenario that would make it fit, each with its own forecast step time.
#pragma once

#include <string>
#include <vector>

#include "scenarios/forecast.h"
#include "scenarios/scenario.h"

namespace stepcast::scenarios {

struct MemoryChange {
  std::vector<std::string> sets;  // overrides that make it, as `--set` takes them
  std::string words;
  double step_time_s = 0;
  double peak_bytes = 0;
};

struct MemoryAdvice {
  std::vector<MemoryChange> changes;  // those that fit, fastest first; at most `most`
  int tried = 0;                      // forecast
  int refused = 0;                    // not a layout of this model and cluster
  bool too_large = false;             // one step has too many operations to try changes on; nothing was tried
};

// Tries recomputation by module, smaller microbatches, more sharding, narrower state, offload, and the next degrees of
// parallelism, one change at a time, one sampled step each. The global batch stays.
[[nodiscard]] MemoryAdvice memory_advice(const Scenario& scenario, const std::filesystem::path& catalog_root,
                                         const ForecastOptions& options, int most = 6);

// " changes that fit: recompute=full 12.3 s (70.1 GiB); ..." for the error's message.
[[nodiscard]] std::string advice_text(const MemoryAdvice& advice);

}  // namespace stepcast::scenarios
