// Across NVLink domains.
//
// N domains, g members in the one with the fewest, r what a member's NIC gives:
//
//   ring         busbw = min(B_ring, g r): every byte passes each domain's NICs once per trip
//   tree (NVLS in the domain, tree between)
//                busbw = min(B, g r), doubled on the network side for N = 2, where neither side forwards
//
// and a ramp: the network's gamma sqrt(S) that stops growing at S_1, or the domain's own where that is larger. Latency:
// a ring pays a hop for each of its steps, a tree log2 N.
#include <algorithm>
#include <cmath>

#include "topology/collectives/algorithms.h"

namespace stepcast::topology {
namespace {

// Ring step inside a domain (NCCL's Simple and LL128 hops on NVLink, 0.6 to 3.4 us; 20 racks of NVL72 show 1.4).
constexpr double inner_step_s = 1.4e-6;
// Ramp of the network path, us per sqrt(MB): two-node all-reduce on three fabrics gives 32 to 41 below 64 MB, and
// the asymptotes above 1 GB show none of it.
constexpr double network_gamma_us = 30;
constexpr double ramp_end_mb = 64;

double steps_per_rank(Collective kind) { return kind == Collective::all_reduce ? 2 : 1; }

struct Rates {
  double inner;     // bytes/s of busbw inside a domain
  double gamma_us;  // ramp inside a domain, per sqrt(MB)
  double network;   // bytes/s of busbw that the NICs of one domain carry
};

Rates rates(const CollectiveCall& call, Collective kind) {
  const InDomainFit fit = in_domain_fit(*call.fits, kind, std::max(call.span.max_per_domain, 2));
  Rates r;
  r.gamma_us = call.span.max_per_domain > 1 ? fit.gamma_us : 0;
  r.inner = fit.busbw_gb_per_s * 1e9 * call.nvlink_scale;
  r.network = call.span.min_per_domain * call.member_nic;
  if (call.fits->across_gb_per_s > 0) r.network = std::min(r.network, call.fits->across_gb_per_s * 1e9);
  return r;
}

// A ring's rate inside a domain is that of all-gather; all-reduce there may be NVLS. Reduce-scatter has its own.
Collective ring_rate(Collective kind) {
  return kind == Collective::reduce_scatter ? Collective::reduce_scatter : Collective::all_gather;
}

CollectiveTime finish(const CollectiveCall& call, double latency, const Rates& rate, std::string_view algorithm) {
  const int n = call.span.ranks;
  const double factor = busbw_factor(call.kind, n);
  const double mb = call.bytes / 1e6;
  const double ramp =
      1e-6 * std::max(network_gamma_us * std::sqrt(mb / (1 + mb / ramp_end_mb)), rate.gamma_us * std::sqrt(mb));
  const double busbw = std::min(rate.inner, rate.network);
  CollectiveTime time;
  time.latency = Seconds(latency);
  time.time = Seconds(latency + call.bytes * factor / busbw + ramp);
  time.wire_per_rank = Bytes(call.bytes * factor);
  time.nic_per_rank = Bytes(call.bytes * factor / call.span.min_per_domain);
  time.algorithm = algorithm;
  return time;
}

}  // namespace

CollectiveTime ring_across(const CollectiveCall& call) {
  const int n = call.span.ranks;
  const int domains = call.span.domains;
  const Collective kind = ring_rate(call.kind);
  Rates rate = rates(call, kind);
  if (call.span.max_per_domain == 1) rate.inner = rate.network;
  const double trips = steps_per_rank(call.kind);
  const double alpha = in_domain_alpha(call, kind, 2);
  const double latency = alpha + trips * (domains - 1) * call.hop_seconds + trips * (n - domains) * inner_step_s;
  return finish(call, latency, rate, "ring");
}

CollectiveTime tree_across(const CollectiveCall& call) {
  const int domains = call.span.domains;
  const int inside = call.span.max_per_domain;
  Rates rate = rates(call, Collective::all_reduce);
  if (inside == 1) rate.inner = rate.network;
  if (domains == 2 && inside > 1) rate.network *= 2;
  const double alpha = in_domain_alpha(call, Collective::all_reduce, std::max(inside, 2));
  const double depth = std::ceil(std::log2(static_cast<double>(domains)));
  const double latency = alpha + 2 * depth * call.hop_seconds;
  CollectiveTime time = finish(call, latency, rate, "tree");
  if (inside > 1) time.algorithm = call.fits->in_switch_reduction ? "nvls_tree" : "hierarchical";
  return time;
}

}  // namespace stepcast::topology
