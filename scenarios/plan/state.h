// Parameters of every pipeline rank: what they weigh, what moving and updating them costs.
//
// Follows parallelism/lowering/stage_state.cpp, as numbers instead of instructions.
#pragma once

#include <vector>

#include "parallelism/schedule.h"
#include "parallelism/stage_split.h"
#include "scenarios/plan/groups.h"

namespace stepcast::scenarios::plan {

// One piece of the model, in the order of its forward pass.
struct PieceBlocks {
  struct Item {
    int block = 0;       // as outlines number them
    int parameters = 0;  // place in the order in which parameters are gathered
  };
  std::vector<Item> items;
  std::vector<int> blocks;             // the items' blocks
  std::vector<double> dense, experts;  // parameters on one rank, in gather order
  std::vector<bool> quantised, root;   // root: embedding and head
};

[[nodiscard]] std::vector<PieceBlocks> piece_blocks(const parallelism::StepSpec& spec,
                                                    const parallelism::Layout& layout,
                                                    const parallelism::StageSplit& split);

// Seconds of one piece's parameters on one rank.
struct PieceState {
  std::vector<double> gather;  // one block each, in gather order
  double gather_all = 0;
  double reduce_all = 0;   // buckets of one microbatch, together
  double reduce_last = 0;  // the last bucket
};

struct RankState {
  double update = 0;       // optimizer, and gathers that the next step waits for
  double quantise = 0;     // weights cast once a step
  double late_reduce = 0;  // gradients reduced after the last backward
  double static_bytes = 0;
  std::vector<PieceState> pieces;  // by chunk
};

struct State {
  std::vector<RankState> ranks;
  double norm = 0;                // the gradient norm's barrier
  double embedding = 0;           // tied embeddings, between the first and the last rank
  double slack = 0;               // by which the host may be late between the norm and the update
  bool every_pass = false;        // zero3, hsdp: parameters are gathered before each pass
  bool every_microbatch = false;  // gradients are reduced each microbatch
  bool gathers_ahead = false;     // parameters are gathered beside the first forward
  bool reduces_beside = false;    // gradients are reduced beside the last backward
};

struct StateRequest {
  const parallelism::StepSpec& spec;  // as apply() left it
  const parallelism::Layout& layout;
  const Groups& groups;
  const std::vector<PieceBlocks>& pieces;
  const std::vector<std::vector<int>>& pieces_of_rank;  // by chunk
  int parameter_copies = 1;
  double speed = 1;
};
[[nodiscard]] State make_state(const StateRequest& request);

// Seconds of a bucket of gradients: `dense` and `experts` parameters.
[[nodiscard]] double reduce_seconds(const StateRequest& request, const StageGroups& groups, double dense,
                                    double experts);
// Parameters after which a bucket is full.
[[nodiscard]] double bucket_parameters(const parallelism::StepSpec& spec);

}  // namespace stepcast::scenarios::plan
