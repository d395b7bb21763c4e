// What one block of the model (an embedding, a layer, a head, an MTP module) does on one rank, as a max-plus matrix.
//
// The kernel lists of parallelism/kernels are lowered once for each kind of block
// and pass, with the rows that routing gives on average, and evaluated from each
// input alone:
//
//   out[i] = max over j of (in[j] + path[i][j])
//
// Inputs: the compute stream, the host, a message received, and for paired bodies a
// second message. Outputs: the compute stream, the host, the moment a message may
// be sent, and the second one. Blocks in a row are a product of matrices.
//
// Why this never exceeds the simulation: the end of a step is the largest sum of
// durations along any path of its program. Take a path and one lane of each stage
// along it (messages and groups join a lane to itself): over the lanes of a stage the
// rows average to the mean, durations are convex in rows, so the mean of the lanes'
// sums is not below the sum at mean rows, and the largest lane is not below the mean.
// Leaving inputs out (streams that a body does not wait for) only lowers it.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "parallelism/kernels/context.h"
#include "parallelism/step_spec.h"

namespace stepcast::scenarios::plan {

inline constexpr double never = -std::numeric_limits<double>::infinity();

enum Port : std::size_t { compute_port, host_port, message_port, second_message_port };
inline constexpr std::size_t ports = 4;

struct Paths {
  std::array<std::array<double, ports>, ports> at;  // [output][input], seconds
  Paths();
  [[nodiscard]] double of(std::size_t out, std::size_t in) const { return at[out][in]; }
};

// `second` after `first`: its compute and host inputs are those that `first` leaves, its messages are not.
[[nodiscard]] Paths then(const Paths& first, const Paths& second);

struct Outline {
  Paths paths;
  double busy = 0;                   // kernels on the compute stream, slowed by nothing, seconds
  double net = 0, peak = 0;          // bytes kept at the end, and most held on the way
  void follow(const Outline& next);  // appends
};

// Blocks are numbered: 0 embedding, 1 head, 2 MTP module, 3 and on the kinds of layers.
inline constexpr int embedding_block = 0, head_block = 1, mtp_block = 2, first_layer_block = 3;

// Groups of one stage's ranks as the kernels see them.
struct StageGroups {
  parallelism::CommGroup tp, cp, etp, ep, dp, edp, shard, replica;
  friend bool operator==(const StageGroups& a, const StageGroups& b);
};

// Outlines of all blocks for one choice of degrees, microbatch, recompute, dispatcher. Lowered on demand; one thread.
class Outliner {
 public:
  // `spec` as apply() left it; `speed` the smallest factor that noise can put on a kernel's duration.
  Outliner(const parallelism::StepSpec& spec, const parallelism::Layout& layout, const StageGroups& groups,
           double speed);
  ~Outliner();

  // Its second message out is the moment at which its gradients may leave.
  [[nodiscard]] const Outline& block(int block, parallelism::Pass pass);
  // A forward through the blocks beside a backward through the others, as paired schedules run them.
  [[nodiscard]] Outline pair(const std::vector<int>& forward, const std::vector<int>& backward);
  [[nodiscard]] const models::Documents& documents() const;

 private:
  struct Lists;
  std::unique_ptr<Lists> lists_;
  std::map<std::pair<int, parallelism::Pass>, Outline> outlines_;
};

// Outliners by what kernels depend on: the groups inside a stage, the microbatch and a number for the other choices.
// Families that differ in pipeline ranks share them. Not for several threads.
class OutlinerCache {
 public:
  Outliner& get(const parallelism::StepSpec& spec, const parallelism::Layout& layout, const StageGroups& groups,
                double speed, int choices);

 private:
  std::vector<StageGroups> groups_;
  std::map<std::tuple<std::size_t, int, int>, std::unique_ptr<Outliner>> outliners_;
};

// Number of the block of each decoder layer.
[[nodiscard]] std::vector<int> layer_blocks(const models::Model& model);

// Rows of an expert rank that its group's ranks have on average at least, in the way the routing rounds them.
[[nodiscard]] double mean_rows(const parallelism::StepSpec& spec, const parallelism::Layout& layout,
                               double tokens_per_rank);

}  // namespace stepcast::scenarios::plan
