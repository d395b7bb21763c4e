// Expert dispatch and combine.
//
// A rank has t tokens of k copies, b bytes each; the group has E ranks in N domains, g in one domain.
//
//   all_to_all   every copy travels: an NCCL all-to-all of t k b
//   all_gather   every token reaches every rank: all-gather (reduce-scatter for combine) of t b E
//   deepep, hybridep
//                a token crosses to a domain once however many of its experts live there, and is forwarded inside:
//                NIC      t b D(N) (N-1)/N      D(n) expected distinct domains of a token
//                NVLink   t b D'(E) (g-1)/g     D' expected distinct ranks
//                T = fixed + max(NIC / r, NVLink / local rate(SMs))
//
// The slower part sets the time per routed row, so a rank with twice the rows takes twice as long.
#include <algorithm>
#include <cmath>

#include "topology/collectives/algorithms.h"

namespace stepcast::topology {
namespace {

constexpr int default_sms = 24;  // of both libraries' training setups; the fits were made at 20 to 24
// A NIC needs about this many SMs to fill it (DeepEP on H100 at 4 nodes: 12 to 20).
constexpr double sms_per_full_nic = 16;

// log C(a, b); -inf when b > a.
double log_choose(double a, double b) {
  if (b < 0 || b > a) return -INFINITY;
  return std::lgamma(a + 1) - std::lgamma(b + 1) - std::lgamma(a - b + 1);
}

DispatchTime from_total(double rows, double fixed, double variable) {
  DispatchTime time;
  time.fixed = Seconds(fixed);
  time.mean_rows = rows;
  time.per_row = rows > 0 ? Seconds(variable / rows) : Seconds(0);
  return time;
}

DispatchTime from_collective(const CollectiveTime& collective, double rows, bool by_row) {
  const double variable = (collective.time - collective.latency).value;
  DispatchTime time =
      from_total(rows, by_row ? collective.latency.value : collective.time.value, by_row ? variable : 0);
  time.nic_per_rank = collective.nic_per_rank;
  time.nvlink_per_rank = collective.wire_per_rank - collective.nic_per_rank;
  return time;
}

DispatchTime deduplicated(const Cluster& cluster, const DispatchCall& call, const GroupSpan& span,
                          BytesPerSecond cross_domain) {
  const CollectiveCall link = make_call(cluster, Collective::all_to_all, Bytes(1), span, cross_domain);
  const DispatchFit& fit = call.dispatcher == Dispatcher::deepep ? link.fits->deepep : link.fits->hybridep;
  const bool dispatch = call.phase == DispatchPhase::dispatch;
  const double sms = call.sms > 0 ? call.sms : default_sms;
  const double payload = call.tokens * call.bytes_per_token;
  const double domains = span.domains;
  const double inside = std::max(span.max_per_domain, 1);
  const double reached = expected_domains(span.domains, call.top_k, call.node_limit, call.route_groups);
  const double nic_bytes = payload * reached * (domains - 1) / domains;
  const double ranks = expected_domains(span.ranks, call.top_k, call.node_limit, call.route_groups);
  const double local_bytes = payload * ranks * (inside - 1) / inside;
  const double local_rate =
      (dispatch ? fit.dispatch_gb_per_s : fit.combine_gb_per_s) * 1e9 * link.nvlink_scale * std::min(1.0, sms / 20);
  const double nic_rate = link.member_nic * fit.nic_share * std::min(1.0, sms / sms_per_full_nic);
  const double seconds = std::max(nic_bytes / nic_rate, local_bytes / local_rate);
  double fixed = (dispatch ? fit.fixed_dispatch_us : fit.fixed_combine_us) * 1e-6;
  if (span.domains > 1) fixed += cluster.nic_latency.value;
  DispatchTime time = from_total(call.tokens * call.top_k, fixed, seconds);
  time.nic_per_rank = Bytes(nic_bytes);
  time.nvlink_per_rank = Bytes(local_bytes);
  return time;
}

}  // namespace

double expected_domains(int domains, int top_k, int limit, int groups) {
  if (domains <= 0 || top_k <= 0) return 0;
  const double n = domains;
  if (domains == 1) return 1;
  const auto hit = [](double share, double k) { return 1 - std::pow(1 - share, k); };
  if (limit <= 0 || (groups <= 0 && limit >= domains)) return n * hit(1 / n, top_k);
  // L of G equal groups are chosen; a domain holds G/n of them, or a group spans n/G domains.
  const double total = groups > 0 ? groups : domains;
  const double chosen = std::min<double>(limit, total);
  const double held = total / n;
  if (held < 1) return n * (chosen / total) * hit(1 / (chosen / held), top_k);
  double expected = 0;
  for (double j = 1; j <= std::min(chosen, held); ++j) {
    const double p = std::exp(log_choose(held, j) + log_choose(total - held, chosen - j) - log_choose(total, chosen));
    expected += p * hit(j / chosen, top_k);
  }
  return n * expected;
}

DispatchTime dispatch_time(const Cluster& cluster, const DispatchCall& call, const GroupSpan& span,
                           BytesPerSecond cross_domain) {
  if (span.ranks <= 1 || call.tokens <= 0 || call.bytes_per_token <= 0) return {};
  const double rows = call.tokens * call.top_k;
  switch (call.dispatcher) {
    case Dispatcher::all_to_all: {
      const Bytes buffer(rows * call.bytes_per_token);
      return from_collective(collective_time(cluster, Collective::all_to_all, buffer, span, cross_domain), rows, true);
    }
    case Dispatcher::all_gather: {
      const Bytes buffer(call.tokens * call.bytes_per_token * span.ranks);
      const Collective kind =
          call.phase == DispatchPhase::dispatch ? Collective::all_gather : Collective::reduce_scatter;
      return from_collective(collective_time(cluster, kind, buffer, span, cross_domain), rows, false);
    }
    case Dispatcher::deepep:
    case Dispatcher::hybridep:
      break;
  }
  return deduplicated(cluster, call, span, cross_domain);
}

}  // namespace stepcast::topology
