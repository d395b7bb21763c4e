// All-to-all across domains: grouped sends in rounds.
//
// Of the n shards of a rank, g - 1 stay in its domain and n - g leave through its NIC. The rounds mix both, and the
// measured times are the sum of the two parts rather than the larger (H100, EP16 to EP64: NIC part at 45 to 48 GB/s
// in every case when the local part is taken off first).
#include <cmath>

#include "topology/collectives/algorithms.h"

namespace stepcast::topology {
namespace {

// Host proxy and connection work per remote peer, 8 operations of a channel at a time. Assumption.
constexpr double remote_peer_s = 0.5e-6;

}  // namespace

CollectiveTime all_to_all_across(const CollectiveCall& call) {
  const double n = call.span.ranks;
  // A member of the smallest share of a domain sends most through its NIC.
  const double inside = call.span.min_per_domain;
  const double remote_bytes = call.bytes * (n - inside) / n;
  const double local_bytes = call.bytes * inside / n;  // the buffer that an all-to-all inside the domain would have
  const int local_ranks = call.span.min_per_domain;
  double latency = call.hop_seconds + (n - inside) * remote_peer_s;
  double seconds = remote_bytes / call.member_nic;
  double wire = remote_bytes;
  if (local_ranks > 1) {
    latency += in_domain_alpha(call, Collective::all_to_all, local_ranks);
    seconds += in_domain_seconds(call, Collective::all_to_all, local_ranks, local_bytes);
    wire += local_bytes * (inside - 1) / inside;
  }
  CollectiveTime time;
  time.latency = Seconds(latency);
  time.time = Seconds(latency + seconds);
  time.wire_per_rank = Bytes(wire);
  time.nic_per_rank = Bytes(remote_bytes);
  time.algorithm = "pairwise";
  return time;
}

}  // namespace stepcast::topology
