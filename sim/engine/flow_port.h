// How operations on shared links are handed from a cohort's evaluation to the contention tier.
//
// An operation of a unit begins when its last lane does and carries W = (latest end
// alone) - (latest begin) of work, as one flow or several (flows.h); when it ends
// later than alone by some delay, all its lanes end later by that delay. So it is
// exact where lanes begin together and move alike, and changes nothing where links
// do not bind; otherwise lanes that begin early or have less to move are held as
// long as the slowest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sim/base/units.h"
#include "sim/program/program.h"

namespace stepcast::sim {

struct Issued;

// What the busiest lane's ports need at full rate.
struct PortTicks {
  double nic = 0, nvlink = 0;
  void raise(const PortTicks& other) {
    nic = std::max(nic, other.nic);
    nvlink = std::max(nvlink, other.nvlink);
  }
  [[nodiscard]] bool any() const { return nic > 0 || nvlink > 0; }
};

// `rows` null without a load.
[[nodiscard]] inline PortTicks port_ticks(const LinkUse& use, const float* rows, std::size_t lanes) {
  double most = 0;
  for (std::size_t i = 0; rows != nullptr && i < lanes; ++i) most = std::max(most, static_cast<double>(rows[i]));
  return {use.nic_ticks + use.nic_ticks_per_row * most, use.nvlink_ticks + use.nvlink_ticks_per_row * most};
}

// Orders flows; the same in every engine. `step` counts from the run's first; `unit` is whole_cohort where a group
// class spans units, and for joins `cohort` and `ordinal` are those of the first member.
inline constexpr std::uint64_t whole_cohort = 0xffff;
[[nodiscard]] constexpr std::uint64_t flow_key(std::uint64_t step, int cohort, std::uint64_t unit,
                                               std::uint64_t ordinal) {
  return step << 56 | ordinal << 32 | static_cast<std::uint64_t>(cohort) << 16 | unit;
}

struct FlowRequest {
  Ticks begin = 0, end = 0;  // latest of its lanes, alone
  PortTicks ports;
  std::int32_t pattern = -1;
  std::uint64_t key = 0;
  // What its lanes move; null for joins, whose lanes count as alike. Borrowed for the call.
  const LinkUse* use = nullptr;
  const float* rows = nullptr;
  std::size_t lanes = 0;
};

class FlowPort {
 public:
  virtual ~FlowPort() = default;
  // Key of an operation of the cohort's current step; `spans`: of a group class that spans units.
  [[nodiscard]] virtual std::uint64_t key(int cohort, std::uint64_t ordinal, bool spans) const = 0;
  // The node of the cohort's backlog ends by Backlog::end_flow.
  virtual void post(int cohort, std::size_t node, const Issued& issued, const FlowRequest& request) = 0;
  // Meeting k of the join ends by Mail::release.
  virtual void post_join(std::size_t join, std::size_t k, const FlowRequest& request) = 0;
  // An operation of the cohort ended later than alone.
  virtual void note_delay(int cohort, std::uint64_t ordinal, Ticks delay) = 0;
};

}  // namespace stepcast::sim
