// One pipeline rank while it is lowered: its pieces of the model, its groups, its bodies.
//
// Internal to parallelism: lower() is the way in.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "parallelism/kernels/builder.h"
#include "parallelism/kernels/context.h"
#include "parallelism/lower.h"
#include "topology/fabric.h"

namespace stepcast::parallelism {

// Shared by all stages of one lowering.
struct Lowering {
  const StepSpec& spec;
  const topology::Fabric& fabric;
  LoweredStep& step;
  models::Documents documents;     // of one microbatch
  std::vector<int> load_of_layer;  // decoder layer -> routing load, -1 for dense layers
  int mtp_first_load = -1;
  double padded_vocab = 0;
  // (from rank, from chunk, to rank, to chunk, backward) -> channel of the program
  std::map<std::tuple<int, int, int, int, bool>, int> channels;
  std::map<std::pair<int, int>, int> pair_joins;  // DualPipe: ranks that hold the same piece -> join class
  int step_join = -1;                             // all cohorts, once a step
  int embedding_join = -1;                        // first and last stage, tied embeddings

  [[nodiscard]] int channel(int from_rank, int from_chunk, int to_rank, int to_chunk, bool backward);
};

// Parameters of one piece on one rank.
struct PieceParameters {
  double dense = 0;    // reduced over dp x cp
  double experts = 0;  // reduced over edp
  [[nodiscard]] double total() const { return dense + experts; }
};

struct ParameterBlock {  // a layer, an embedding or a head: what one gather or one reduction moves
  PieceParameters parameters;
  int slot = -1;           // its gathered parameters are there
  bool quantised = false;  // its GEMMs run in the recipe's precision: layers, not embedding and head
};

struct PieceState {
  int piece = 0;
  StageContent content;
  std::vector<ParameterBlock> blocks;  // embedding (if any), layers in order, then MTP and head (if any)
  int embedding_block = -1, head_block = -1, first_layer_block = 0;
};

// Where a piece's neighbours live, seen from one of its owners; rank -1: none.
struct Neighbour {
  int rank = -1;
  int chunk = -1;
};

class Stage {
 public:
  Stage(Lowering& lowering, int rank);

  // Writes all bodies and calls of the cohort.
  void lower_all();

 private:
  struct BodyKey {
    SlotKind kind;
    int chunk, second_chunk;
    bool first, last;  // first forward / last backward of the chunk in the step
    auto operator<=>(const BodyKey&) const = default;
  };

  void make_groups();
  [[nodiscard]] CommGroup make_group(const std::string& name, const std::vector<std::vector<RankId>>& groups);
  void make_pieces();
  [[nodiscard]] Neighbour neighbour(int chunk, int offset) const;
  void lower_calls();
  [[nodiscard]] int body(const BodyKey& key);

  // stage_bodies.cpp
  void forward(int chunk, bool first);
  void backward(int chunk, Pass pass, bool last);
  void forward_backward(const BodyKey& key);
  void receive_activation(int chunk, bool backward);
  void send_activation(int chunk, bool backward);
  [[nodiscard]] double stage_output_bytes() const;
  void set_layer(int layer);
  [[nodiscard]] bool repeats(int layer_of_piece) const;

  // stage_offload.cpp
  void offload_layer(int chunk, int block, std::size_t first_work);  // after its forward
  void reload_layer(int chunk, int block);                           // ahead of its backward
  void await_layer(int chunk, int block);

  // stage_state.cpp
  void step_begin();
  void step_end();
  void gather_parameters(const ParameterBlock& block, const std::string& name);
  void reduce_gradients(const PieceParameters& parameters, const std::string& name);
  void reduce_block(const ParameterBlock& block, bool flush);  // collects into buckets
  void prefetch_block(const PieceState& piece, int block);     // ZeRO-3: gathers it if the piece has it
  void optimizer(double owned);
  [[nodiscard]] double owned_parameters() const;
  [[nodiscard]] double exposed_share() const;  // of a gather or reduction that cannot run beside compute
  [[nodiscard]] double quantised_parameters() const;
  [[nodiscard]] bool fully_sharded() const {
    return low_.spec.sharding == Sharding::zero3 || low_.spec.sharding == Sharding::hsdp;
  }
  // Else parameters are gathered once a step and gradients reduced once, at its end.
  [[nodiscard]] bool gathers_every_pass() const { return fully_sharded() && low_.spec.reshard_after_forward; }
  [[nodiscard]] bool reduces_every_microbatch() const {
    return gathers_every_pass() || low_.spec.sharding == Sharding::zero2;
  }
  [[nodiscard]] bool shards_optimizer() const { return low_.spec.sharding != Sharding::none; }

  // stage_memory.cpp
  void static_memory();
  // Weights of the stage, those of one shape once: what Transformer Engine's placeholder gradients are as large as.
  [[nodiscard]] double placeholder_parameters() const;

  Lowering& low_;
  int rank_;
  sim::Cohort& cohort_;
  CohortBuilder out_;
  StageContext ctx_;
  CommGroup shard_, replica_;       // hsdp; else shard_ is dp
  std::vector<PieceState> pieces_;  // by chunk
  std::map<BodyKey, int> bodies_;
  struct Offloaded {
    std::map<std::uint16_t, CohortBuilder::Held> held;
    int load = -1;
    int slot = -1;
  };
  std::map<std::pair<int, int>, Offloaded> offloaded_;  // (chunk, layer of the piece)
  PieceParameters bucket_;
};

// Interleaves a forward and a backward instruction list at their expert exchanges, so that each exchange runs beside
// the other list's kernels.
[[nodiscard]] std::vector<sim::Instruction> interleave(const std::vector<sim::Instruction>& forward,
                                                       const std::vector<sim::Instruction>& backward);

}  // namespace stepcast::parallelism
