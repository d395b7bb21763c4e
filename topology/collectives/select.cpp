// Which algorithm runs: inside a domain the measured box; across domains the cheapest of those that NCCL has for the
// operation, as its own tuner does.
#include <algorithm>
#include <array>
#include <cmath>

#include "topology/collectives/algorithms.h"

namespace stepcast::topology {
namespace {

// NCCL's proxy thread and the NIC's doorbell on each network hop, beside the wire: NET hops of its tuning table are 5
// us (LL) to 14 us (Simple), of which the fabric itself is about 4.
constexpr double proxy_hop_s = 10e-6;

using Family = CollectiveTime (*)(const CollectiveCall&);

struct Candidate {
  Collective kind;
  Family family;
};

constexpr std::array across{
    Candidate{Collective::all_reduce, ring_across}, Candidate{Collective::all_reduce, tree_across},
    Candidate{Collective::all_gather, ring_across}, Candidate{Collective::reduce_scatter, ring_across},
    Candidate{Collective::broadcast, ring_across},  Candidate{Collective::all_to_all, all_to_all_across},
};

}  // namespace

std::string_view name(Collective kind) {
  switch (kind) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::send_receive:
      return "send_receive";
    case Collective::broadcast:
      return "broadcast";
  }
  return "unknown";
}

double busbw_factor(Collective kind, int ranks) {
  const double n = std::max(ranks, 1);
  switch (kind) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return (n - 1) / n;
    case Collective::send_receive:
    case Collective::broadcast:
      break;
  }
  return 1;
}

CollectiveCall make_call(const Cluster& cluster, Collective kind, Bytes buffer, const GroupSpan& span,
                         BytesPerSecond cross_domain) {
  CollectiveCall call;
  call.kind = kind;
  call.bytes = std::max(buffer.value, 0.0);
  call.span = span;
  call.span.min_per_domain = std::max(span.min_per_domain, 1);
  call.span.max_per_domain = std::max(span.max_per_domain, 1);
  call.fits = &collective_fits(cluster.device);
  const double nic = cross_domain.value > 0 ? cross_domain.value : cluster.nic_bandwidth.value;
  call.member_nic = nic * cluster.nic_efficiency;
  call.hop_seconds = cluster.nic_latency.value + proxy_hop_s;
  if (span.leaves > 1) call.hop_seconds += 2 * cluster.switch_latency.value;  // leaf to spine to leaf
  call.nvlink_scale = cluster.nvlink_bandwidth.value / (call.fits->nvlink_gb_per_s * 1e9);
  return call;
}

CollectiveTime collective_time(const Cluster& cluster, Collective kind, Bytes buffer, const GroupSpan& span,
                               BytesPerSecond cross_domain) {
  if (span.ranks <= 1 || buffer.value <= 0) {
    CollectiveTime none;
    none.algorithm = "none";
    return none;
  }
  if (kind == Collective::send_receive) return send_receive_time(cluster, buffer, span.inside_domain());
  const CollectiveCall call = make_call(cluster, kind, buffer, span, cross_domain);
  if (span.inside_domain()) return in_domain(call);
  CollectiveTime best;
  bool found = false;
  for (const Candidate& candidate : across) {
    if (candidate.kind != kind) continue;
    const CollectiveTime time = candidate.family(call);
    if (!found || time.time < best.time) best = time;
    found = true;
  }
  return best;
}

}  // namespace stepcast::topology
