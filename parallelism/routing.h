// Which expert gets how many rows, sampled per layer, microbatch and expert group.
//
// Popularity of an expert = persistent part (hot experts of a layer, the same for
// all microbatches of a sampled step) and fresh noise (per microbatch and data
// group). Counts are integers that add up to tokens x top_k exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/engine/conditions.h"

namespace stepcast::parallelism {

enum class SkewKind : unsigned char { balanced, zipf, dirichlet, histogram };
enum class DropPolicy : unsigned char { none, drop, pad };  // pad: drop above capacity and pad below

struct RoutingSpec {
  SkewKind kind = SkewKind::balanced;
  double parameter = 0;              // zipf exponent S, dirichlet concentration A
  std::vector<double> histogram;     // share of each expert (any positive scale); cycled over layers when several rows
  double persistence = 0.8;          // share of the skew that persists over microbatches, 0..1
  double capacity_factor = 0;        // 0: dropless
  DropPolicy drop = DropPolicy::none;
};

struct RoutingShape {
  int experts = 0, top_k = 0, layers = 0;
  int ep = 1, etp = 1;
  double tokens_per_rank = 0;        // tokens entering the router on one rank, per microbatch (after tp/cp split)
};

// Lanes of a cohort as routing sees them: expert group (a global data coordinate) and position in it.
struct ExpertLanes {
  std::vector<std::int32_t> group;     // global expert-group index of each lane (layout-independent data coordinate)
  std::vector<std::int32_t> position;  // 0 .. ep-1
};

struct ExpertLoad {
  double routed = 0, dropped = 0, padded = 0;  // rows
  double min = 0, median = 0, max = 0;         // rows per expert
  double imbalance = 1;                        // busiest rank over mean rank
  double capacity_use = 1;                     // kept rows over slots; 1 when dropless
};

class Routing final : public sim::LoadSource {
 public:
  Routing(RoutingSpec spec, RoutingShape shape, std::uint64_t seed, std::vector<ExpertLanes> cohorts,
          int microbatches_per_group);

  // Rows computed by each lane's rank: kept rows, or slots when padded.
  void rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const override;

  // Kept rows of each expert of one group; adds up to tokens x top_k less the dropped.
  [[nodiscard]] std::vector<double> expert_rows(std::uint64_t step, int load, int group, int instance) const;

  // Over all layers, groups and up to `sample` microbatches of a step.
  [[nodiscard]] ExpertLoad load_of_step(std::uint64_t step, int sample) const;

 private:
  RoutingSpec spec_;
  RoutingShape shape_;
  std::uint64_t seed_;
  std::vector<ExpertLanes> cohorts_;
  int microbatches_per_group_;
};

// "balanced", "zipf:S", "dirichlet:A", or a histogram file (one number a line or a JSON array; experts of them, or
// layers x experts).
[[nodiscard]] Result<RoutingSpec> parse_skew(const std::string& text, int experts);

}  // namespace stepcast::parallelism
