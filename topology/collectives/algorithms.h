// The algorithm families that collective_time chooses from. Each returns the time it would take alone.
#pragma once

#include "topology/collective_cost.h"
#include "topology/collective_fits.h"

namespace stepcast::topology {

// What the families need to know about one call.
struct CollectiveCall {
  Collective kind = Collective::all_reduce;
  double bytes = 0;  // as nccl-tests counts `size`
  GroupSpan span;
  double member_nic = 0;    // bytes/s one member reaches on leaving its domain
  double hop_seconds = 0;   // one message from domain to domain: the network's latency and the proxy's work
  double nvlink_scale = 1;  // the cluster's NVLink rate over that of the measured box
  const CollectiveFits* fits = nullptr;
};

[[nodiscard]] CollectiveTime in_domain(const CollectiveCall& call);
[[nodiscard]] CollectiveTime ring_across(const CollectiveCall& call);
[[nodiscard]] CollectiveTime tree_across(const CollectiveCall& call);
[[nodiscard]] CollectiveTime all_to_all_across(const CollectiveCall& call);

// Seconds that `bytes` in the busbw count of (kind, n) take inside a domain: bandwidth and ramp, without alpha.
[[nodiscard]] double in_domain_seconds(const CollectiveCall& call, Collective kind, int ranks, double bytes);
[[nodiscard]] double in_domain_alpha(const CollectiveCall& call, Collective kind, int ranks);

[[nodiscard]] CollectiveCall make_call(const Cluster& cluster, Collective kind, Bytes buffer, const GroupSpan& span,
                                       BytesPerSecond cross_domain);

}  // namespace stepcast::topology
