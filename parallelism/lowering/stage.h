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
  // DualPipe: stages that hold the same pieces -> join classes of their data-parallel groups, dense and of experts.
  struct PairJoins {
    int dense = -1, experts = -1;
  };
  std::map<std::pair<int, int>, PairJoins> pair_joins;
  int step_join = -1;       // all cohorts, once a step
  int embedding_join = -1;  // first and last stage, tied embeddings

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
  int pair_slot = -1;      // the same for the second list of a co-scheduled pair, where each pass gathers
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
    bool first, last;         // first forward / last backward of the chunk in the step
    bool holds_send = false;  // the next kernel waits for what it sends
    int gradient_chunk = -1;  // forward: also receives the gradient of the next slot, a backward of this chunk
    bool received = false;    // backward: the slot before did
    bool send_alone = true;   // what it sends is no part of the batch that the next slot receives with
    auto operator<=>(const BodyKey&) const = default;
  };

  void make_groups();
  [[nodiscard]] CommGroup make_group(const std::string& name, const std::vector<std::vector<RankId>>& groups);
  [[nodiscard]] CommGroup pair_group(int join) const;
  void make_pieces();
  [[nodiscard]] Neighbour neighbour(int chunk, int offset) const;
  void lower_calls();
  [[nodiscard]] int body(const BodyKey& key);

  // stage_bodies.cpp
  void forward(const BodyKey& key);
  void backward(const BodyKey& key, int chunk, Pass pass);
  void forward_backward(const BodyKey& key);
  void await_messages();
  bool receive_activation(int chunk, bool backward);  // false: nothing to receive
  void send_activation(int chunk, bool backward, const BodyKey& key);
  void plan_messages(const std::vector<Slot>& slots, std::size_t at, BodyKey& key) const;
  [[nodiscard]] double stage_output_bytes() const;
  void set_layer(int layer);
  [[nodiscard]] bool repeats(int layer_of_piece) const;
  [[nodiscard]] int gathered(const ParameterBlock& block) const;  // slot of its parameters for the list being written

  // stage_offload.cpp
  void offload_layer(int chunk, int block, std::size_t first_work);  // after its forward
  void reload_layer(int chunk, int block);                           // ahead of its backward
  void await_layer(int chunk, int block);
  [[nodiscard]] bool offloads(const PieceState& piece, int block) const;

  // stage_state.cpp
  void step_begin();
  void step_end();
  void gather_parameters(const ParameterBlock& block, const std::string& name);
  void gather_piece(const PieceState& piece);
  void reduce_gradients(const PieceParameters& parameters, const std::string& name);
  void join_barrier(int join, const char* name, double bytes, int ranks);
  [[nodiscard]] std::vector<const PieceState*> pieces_in_order() const;  // of the model: alike on ranks that share them
  void reduce_block(const ParameterBlock& block, bool flush);            // collects into buckets
  void prefetch_block(const PieceState& piece, int block);               // ZeRO-3: gathers it if the piece has it
  void update();  // optimizer, and gathers that follow it within the step
  void optimizer(const char* name, double owned, std::uint8_t waits);
  [[nodiscard]] double owned_parameters(const std::vector<const PieceState*>& pieces) const;
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
  // Once a step, beside the next forward.
  [[nodiscard]] bool gathers_ahead() const {
    return shards_optimizer() && low_.spec.overlap.parameters && !gathers_every_pass();
  }

  // stage_memory.cpp
  void static_memory();
  // Weights of the stage, those of one shape once: what Transformer Engine's placeholder gradients are as large as.
  [[nodiscard]] double placeholder_parameters() const;

  Lowering& low_;
  int rank_;
  sim::Cohort& cohort_;
  CohortBuilder out_;
  StageContext ctx_;
  // Over which parameters and gradients are spread: dp, with hsdp a part of it, both ranks' where two copies exist.
  CommGroup shard_, expert_shard_, replica_;
  std::vector<PieceState> pieces_;  // by chunk
  std::map<BodyKey, int> bodies_;
  struct Offloaded {
    std::map<std::uint16_t, CohortBuilder::Held> held;
    int load = -1;
    int slot = -1;
  };
  std::map<std::pair<int, int>, Offloaded> offloaded_;  // (chunk, layer of the piece)
  PieceParameters bucket_;
  bool first_gather_ = true;  // of the step, being written
};

// Interleaves a forward and a backward instruction list at their expert exchanges, so that each exchange runs beside
// the other list's kernels. The backward comes first: the exchange that it opens with runs beside the forward's
// attention (Megatron-Core's combined 1F1B, DualPipe's overlapped pair). What is marked to stay beside an exchange
// follows it at once.
[[nodiscard]] std::vector<sim::Instruction> interleave(const std::vector<sim::Instruction>& forward,
                                                       const std::vector<sim::Instruction>& backward);

// Waits for a stream's tail mean what the own list put there: where the other list has written on the stream since, the
// wait goes through a slot.
[[nodiscard]] std::vector<sim::Instruction> separate_waits(std::vector<sim::Instruction> merged, CohortBuilder& out);

}  // namespace stepcast::parallelism
