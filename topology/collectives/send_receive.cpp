// One message between two devices: NVLink inside a domain, else one NIC of each side.
//
// With PXN a message to another rail first crosses NVLink to the device that owns the NIC; it is pipelined with
// the send, so only its latency shows, and that is inside the hop.
#include <algorithm>

#include "topology/collectives/algorithms.h"

namespace stepcast::topology {

CollectiveTime send_receive_time(const Cluster& cluster, Bytes bytes, bool same_domain) {
  CollectiveTime time;
  time.algorithm = "none";
  if (bytes.value <= 0) return time;
  GroupSpan pair;
  pair.ranks = 2;
  pair.domains = same_domain ? 1 : 2;
  const CollectiveCall call = make_call(cluster, Collective::send_receive, bytes, pair, cluster.nic_bandwidth);
  // A two-rank all-to-all of twice the size has the same messages, in both directions.
  const double alpha = in_domain_alpha(call, Collective::all_to_all, 2);
  time.wire_per_rank = bytes;
  if (same_domain) {
    time.latency = Seconds(alpha);
    time.time = Seconds(alpha + in_domain_seconds(call, Collective::all_to_all, 2, 2 * bytes.value));
    time.algorithm = "nvlink";
    return time;
  }
  time.latency = Seconds(alpha + call.hop_seconds);
  time.time = time.latency + Seconds(bytes.value / call.member_nic);
  time.nic_per_rank = bytes;
  time.algorithm = "network";
  return time;
}

}  // namespace stepcast::topology
