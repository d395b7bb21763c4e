// Which expert gets how many rows, sampled per layer, microbatch and expert group.
//
// Popularity of an expert = persistent part (hot experts of a layer, the same for all microbatches of a sampled step)
// and fresh part: in each microbatch and group an expert keeps its persistent popularity with probability
// `persistence` and is drawn again otherwise (Zipf: those drawn again change places among themselves), so that every
// microbatch has the whole skew. A histogram is taken as it stands: all of it persists. On top, rows are drawn as
// tokens' independent choices; only `balanced` is without chance. zipf:0 is uniform popularity with chance, what
// Megatron-Core's --moe-router-force-load-balancing does.
//
// Draws are keyed by (seed, step, layer, ordinal, expert), where the ordinal of a group's microbatch is
// microbatch x groups + group: the place of its tokens in the global batch in units of its own size. Layouts whose
// groups take equally many tokens a microbatch meet the same routing; others meet the same persistent part.
//
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/rng.h"
#include "sim/engine/conditions.h"

namespace stepcast::parallelism {

enum class SkewKind : unsigned char { balanced, zipf, dirichlet, histogram };
enum class DropPolicy : unsigned char { none, drop, pad };  // pad: drop above capacity and pad below

struct RoutingSpec {
  SkewKind kind = SkewKind::balanced;
  double parameter = 0;           // zipf exponent S, dirichlet concentration A
  std::vector<double> histogram;  // share of each expert (any positive scale); cycled over layers when several rows
  double persistence = 0.8;       // share of the skew that persists over microbatches, 0..1
  double capacity_factor = 0;     // 0: dropless
  DropPolicy drop = DropPolicy::none;
};

struct RoutingShape {
  int experts = 0, top_k = 0, layers = 0;
  int ep = 1, etp = 1;
  double tokens_per_rank = 0;  // tokens entering the router on one rank, per microbatch (after tp/cp split)
};

// Lanes of a cohort as routing sees them: expert group (a global data coordinate) and position in it.
struct ExpertLanes {
  std::vector<std::int32_t> group;     // global expert-group index of each lane (layout-independent data coordinate)
  std::vector<std::int32_t> position;  // 0 .. ep-1
};

struct ExpertLoad {
  double routed = 0, dropped = 0, padded = 0;  // rows
  double min = 0, median = 0, max = 0;         // kept rows per expert, of one group, layer and microbatch
  double imbalance = 1;                        // busiest rank over mean rank of its group; mean over the draws
  double capacity_use = 1;                     // kept rows over slots; 1 when dropless
};

namespace detail {
class Popularity;
struct Scratch;
}  // namespace detail

// Immutable once made: every call is a pure function of its arguments, from any thread.
class Routing final : public sim::LoadSource {
 public:
  Routing(RoutingSpec spec, RoutingShape shape, std::uint64_t seed, std::vector<ExpertLanes> cohorts,
          int microbatches_per_group);

  // Rows computed by each lane's rank: kept rows, or slots when padded. All etp ranks of a position see all its rows.
  void rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const override;

  // Draws the groups of these lanes only.
  void rows_of(std::uint64_t step, int load, int cohort, int instance, std::size_t all,
               std::span<const std::int32_t> lanes, std::span<float> rows) const override;

  // Kept rows of each expert of one group; adds up to tokens x top_k less the dropped.
  [[nodiscard]] std::vector<double> expert_rows(std::uint64_t step, int load, int group, int instance) const;

  // Over all layers, groups and up to `sample` microbatches of a step; of more than 8192 draws, as many evenly spaced
  // ones. `routed`, `dropped` and `padded` are scaled to the whole step.
  [[nodiscard]] ExpertLoad load_of_step(std::uint64_t step, int sample) const;

  // Slots of one expert in a group when capacity limits it, else 0. As in Megatron-Core and GShard every source rank
  // has ceil(its rows / experts x capacity_factor) slots at each expert.
  [[nodiscard]] std::int64_t slots_per_expert() const { return slots_per_source_ * shape_.ep * shape_.etp; }
  [[nodiscard]] std::int64_t tokens_per_group() const { return tokens_; }

 private:
  struct CohortGroups {
    std::vector<std::int32_t> groups;  // distinct, ascending
    std::vector<std::int32_t> at;      // lane -> index in `groups` x ep + position
  };

  void draw(RngKey microbatches, int group, int instance, detail::Scratch& scratch) const;
  void keep(detail::Scratch& scratch) const;

  RoutingSpec spec_;
  RoutingShape shape_;
  std::uint64_t seed_;
  std::vector<CohortGroups> cohorts_;
  int microbatches_per_group_;
  int groups_ = 1;
  std::int64_t tokens_ = 0;  // of a group's microbatch
  std::int64_t slots_per_source_ = 0;
  std::shared_ptr<const detail::Popularity> popularity_;
};

// "balanced", "zipf:S", "dirichlet:A", or a histogram file (one number a line or a JSON array; experts of them, or
// layers x experts). Errors of a file name its line.
[[nodiscard]] Result<RoutingSpec> parse_skew(const std::string& text, int experts);

}  // namespace stepcast::parallelism
