// Who computes what with whom: degrees of parallelism and the rank groups they make.
//
// Attention ranks factor as tp x cp x dp x pp, expert ranks as etp x ep x edp x pp
// over the same devices (expert folding). Ranks are numbered by the order string,
// fastest first; default tp-cp-ep-dp-pp, as Megatron-Core does
// (megatron/training/initialize.py): ep takes no part in the attention numbering,
// cp none in the expert numbering.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/ids.h"

namespace stepcast::parallelism {

struct Degrees {
  int tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1;
  std::optional<int> etp = std::nullopt;  // absent: 1
  std::optional<int> dp = std::nullopt;   // absent: derived; present: checked
  std::string order = "tp-cp-ep-dp-pp";
};

// What the degrees must divide, as far as it is known.
struct Divisibility {
  int devices = 0;
  int heads = 0, kv_heads = 0, hidden = 0, ffn = 0, experts = 0, expert_ffn = 0;  // 0: not checked
  int sequence_length = 0;
  int layers = 0;                 // against pp x vpp; 0 where an explicit split may leave pieces without layers
  bool sequence_parallel = true;  // tp splits the sequence too
};

enum class Axis : unsigned char { tp, cp, dp, pp, etp, ep, edp };
inline constexpr std::size_t axis_count = 7;

// No degree and no number of devices is larger: every product of four of them that the checks form fits 64 bits.
inline constexpr int largest_degree = 1 << 15;
inline constexpr int most_devices = 1 << 20;

class Layout {
 public:
  int tp = 1, cp = 1, pp = 1, vpp = 1, dp = 1, etp = 1, ep = 1, edp = 1;
  std::string order;

  [[nodiscard]] int ranks() const { return tp * cp * dp * pp; }
  [[nodiscard]] int ranks_per_stage() const { return tp * cp * dp; }

  [[nodiscard]] int degree(Axis axis) const;
  // Coordinate of a rank on an axis.
  [[nodiscard]] int coordinate(RankId rank, Axis axis) const;
  // Members of the rank's group along an axis, ascending. dp: same tp, cp, pp. edp: same etp, ep, pp.
  [[nodiscard]] std::vector<RankId> group(RankId rank, Axis axis) const;
  // dp x cp together: the group that shards optimizer state and reduces dense gradients.
  [[nodiscard]] std::vector<RankId> dp_cp_group(RankId rank) const;
  // etp x ep together: the ranks that hold one copy of a stage's experts and share a routing draw, ascending.
  [[nodiscard]] std::vector<RankId> expert_group(RankId rank) const;
  // All ranks of a pipeline stage, ascending: lanes of its cohort.
  [[nodiscard]] std::vector<RankId> stage_ranks(StageId stage) const;

 private:
  friend Result<Layout> make_layout(const Degrees& degrees, const Divisibility& limits);
  [[nodiscard]] std::vector<RankId> plane(RankId rank, Axis first, Axis second) const;
  std::array<int, axis_count> stride_{1, 1, 1, 1, 1, 1, 1};  // ranks between neighbours on an axis
};

// A dense model in an order that would part expert ranks from their stage gets edp 1: its expert axes mean nothing.
//
// Checks everything and reports all faults in words ("ep 48 must divide the 256 experts"), each with a JSON pointer
// into the scenario's `parallelism` block as `where`.
[[nodiscard]] Result<Layout> make_layout(const Degrees& degrees, const Divisibility& limits);

}  // namespace stepcast::parallelism
