// How long one collective takes when it has the fabric to itself.
//
// Pure arithmetic over a calibrated fabric: no clock, no queue, no state.
// Contention between collectives is decided later, by sim/engine.
// Definitions of algbw and busbw: nccl-tests (worked_cases D).
#pragma once

#include <span>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "topology/fabric.h"

namespace stepcast::topology {

enum class Collective : unsigned char { all_reduce, all_gather, reduce_scatter, all_to_all, send_receive, broadcast };

[[nodiscard]] std::string_view name(Collective kind);

// 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter, all_to_all, 1 for the others.
[[nodiscard]] double busbw_factor(Collective kind, int ranks);

struct CollectiveTime {
  Seconds time;                // of the slowest rank, started together
  Seconds latency;             // the part that does not grow with the size
  Bytes wire_per_rank;         // bytes one rank puts on NVLink or NIC
  Bytes nic_per_rank;          // of these, on the NIC
  std::string_view algorithm;  // "ring", "nvls", "hierarchical", ...
};

// `buffer` as nccl-tests counts `size`: per rank for all_reduce, the whole (n x shard) buffer for all_gather and
// reduce_scatter, all that one rank sends for all_to_all.
// The span comes from fabric.span(members); `cross_domain` from fabric.cross_domain_rate(members).
[[nodiscard]] CollectiveTime collective_time(const Cluster& cluster, Collective kind, Bytes buffer,
                                             const GroupSpan& span, BytesPerSecond cross_domain);

// Point to point between two devices in the same domain or not.
[[nodiscard]] CollectiveTime send_receive_time(const Cluster& cluster, Bytes bytes, bool same_domain);

// Expert dispatch or combine for one rank, as a function of the copies it sends or receives.
enum class Dispatcher : unsigned char { all_gather, all_to_all, deepep, hybridep };
enum class DispatchPhase : unsigned char { dispatch, combine };

struct DispatchCall {
  Dispatcher dispatcher = Dispatcher::all_to_all;
  DispatchPhase phase = DispatchPhase::dispatch;
  double tokens = 0;           // this rank's tokens
  double bytes_per_token = 0;  // payload of one copy
  int top_k = 1;
  int expert_parallel = 1;
  int node_limit = 0;    // most domains that a token may reach, 0: no limit
  int sms = 0;           // given to the dispatcher, 0: its default
  int route_groups = 0;  // groups that the router chooses `node_limit` of (8 in DeepSeek-V3), 0: one a domain
  int experts = 0;       // in all; 0: many (a token's experts are then drawn with replacement)
};

// Duration = fixed + per_copy x copies that this rank exchanges (routing decides them; `mean_copies` when balanced),
// with the NIC part from the expected distinct domains of a token.
struct DispatchTime {
  Seconds fixed;
  Seconds per_row;       // per routed row received (or sent), so that skew acts on the rank that has it
  double mean_rows = 0;  // rows a rank exchanges under balance: tokens x top_k
  Bytes nic_per_rank;    // under balance
  Bytes nvlink_per_rank;
  [[nodiscard]] Seconds balanced() const { return fixed + per_row * mean_rows; }
};
[[nodiscard]] DispatchTime dispatch_time(const Cluster& cluster, const DispatchCall& call, const GroupSpan& span,
                                         BytesPerSecond cross_domain);

// Expected number of distinct domains, of n, that hold at least one of a token's k experts. Balanced routing.
// With a limit L the router first chooses L of `groups` equal groups (0: one group a domain), then k experts inside
// them. `experts`: k distinct ones of so many; 0: of many.
[[nodiscard]] double expected_domains(int domains, int top_k, int limit, int groups = 0, int experts = 0);

}  // namespace stepcast::topology
