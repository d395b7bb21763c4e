// Expert dispatch and combine.
//
// A rank has t tokens of k copies, b bytes each; the group has E ranks in N domains, g in one domain.
//
//   all_to_all   every copy travels: an NCCL all-to-all of t k b
//   all_gather   every token reaches every rank: all-gather (reduce-scatter for combine) of t b E
//   deepep, hybridep
//                a token crosses to a domain once however many of its experts live there, and is forwarded inside to
//                each rank once: the form of collective_fits.h
//
// The part that grows with the tokens is given per routed row, so a rank with twice the rows takes twice as long.
#include <algorithm>
#include <cmath>

#include "topology/collectives/algorithms.h"
#include "topology/collectives/dispatch_model.h"

namespace stepcast::topology {
namespace {

// log C(a, b); -inf where there is no choice.
double log_choose(double a, double b) {
  if (b < 0 || b > a) return -INFINITY;
  return std::lgamma(a + 1) - std::lgamma(b + 1) - std::lgamma(a - b + 1);
}

// Chance that at least one of k experts lies in a set that holds `share` of `experts` (0: of many).
double hit(double share, int k, double experts) {
  if (share >= 1) return 1;
  const double held = share * experts;
  if (experts <= 0 || held < 1 || k > experts) return 1 - std::pow(1 - share, k);
  return 1 - std::exp(log_choose(experts - held, k) - log_choose(experts, k));
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
      by_row ? from_total(rows, collective.latency.value, variable) : from_total(rows, collective.time.value, 0);
  time.nic_per_rank = collective.nic_per_rank;
  time.nvlink_per_rank = collective.wire_per_rank - collective.nic_per_rank;
  return time;
}

DispatchTime deduplicated(const Cluster& cluster, const DispatchCall& call, const GroupSpan& span,
                          BytesPerSecond cross_domain) {
  const CollectiveCall link = make_call(cluster, Collective::all_to_all, Bytes(1), span, cross_domain);
  const DispatchFit& fit = call.dispatcher == Dispatcher::deepep ? link.fits->deepep : link.fits->hybridep;
  const auto reached = [&call](int parts) {
    return expected_domains(parts, call.top_k, call.node_limit, call.route_groups, call.experts);
  };
  // One group a domain means the same groups when the ranks are counted.
  DispatchCall by_rank = call;
  if (by_rank.node_limit > 0 && by_rank.route_groups == 0) by_rank.route_groups = span.domains;
  DispatchLoad load;
  load.tokens = call.tokens;
  load.payload = call.bytes_per_token;
  load.domains_reached = reached(span.domains);
  load.ranks_reached = expected_domains(span.ranks, call.top_k, call.node_limit, by_rank.route_groups, call.experts);
  load.domains = span.domains;
  load.inside = link.span.max_per_domain;
  load.sms = dispatch_sms(cluster.device, call.dispatcher, call.sms);
  load.nvlink_scale = link.nvlink_scale;
  load.member_nic = link.member_nic;
  const DispatchParts parts = dispatch_parts(call.phase == DispatchPhase::dispatch ? fit.dispatch : fit.combine, load);
  DispatchTime time = from_total(call.tokens * call.top_k, parts.fixed, parts.variable);
  time.nic_per_rank = Bytes(parts.nic_bytes);
  time.nvlink_per_rank = Bytes(parts.nvlink_bytes);
  return time;
}

}  // namespace

int dispatch_sms(const Device& device, Dispatcher dispatcher, int stated) {
  const CollectiveFits& fits = collective_fits(device);
  if (stated > 0) return stated;
  return dispatcher == Dispatcher::hybridep ? fits.hybridep.default_sms : fits.deepep.default_sms;
}

DispatchParts dispatch_parts(const DispatchPhaseFit& fit, const DispatchLoad& load) {
  const double kb = load.payload / 1e3;
  const bool across = load.domains > 1;
  const double work_us =
      fit.token_us + fit.copy_us * load.ranks_reached +
      kb * (fit.kb_us + fit.kb_copy_us * load.ranks_reached + (across ? fit.kb_forward_us * load.domains_reached : 0));
  DispatchParts parts;
  parts.nvlink_bytes = load.tokens * load.payload * load.ranks_reached * (load.inside - 1) / load.inside;
  parts.nic_bytes = load.tokens * load.payload * load.domains_reached * (load.domains - 1) / load.domains;
  const double sm = load.tokens * work_us * 1e-6 / load.sms;
  double link = parts.nvlink_bytes / (fit.nvlink_gb_per_s * 1e9 * load.nvlink_scale);
  if (across) link = std::max(link, parts.nic_bytes / (load.member_nic * fit.nic_share));
  const double larger = std::max(sm, link);
  // Scaled by the larger term: powers of tiny times would underflow.
  if (larger > 0) {
    const double smaller = std::min(sm, link) / larger;
    parts.variable = larger * std::pow(1 + std::pow(smaller, fit.join), 1 / fit.join);
  }
  parts.fixed = (fit.fixed_us + fit.hop_us * std::log2(load.domains)) * 1e-6;
  return parts;
}

double expected_domains(int domains, int top_k, int limit, int groups, int experts) {
  if (domains <= 0 || top_k <= 0) return 0;
  if (domains == 1) return 1;
  const double n = domains;
  const double total = groups > 0 ? groups : domains;
  if (limit <= 0 || limit >= total) return n * hit(1 / n, top_k, experts);
  // L of G equal groups are chosen, then k experts inside them: the chosen groups hold L/G of all experts.
  const double chosen = limit;
  const double candidates = experts * chosen / total;
  const double held = total / n;  // groups in a domain
  // A group that spans several domains: a chosen one has 1/held of them.
  if (held < 1) return n * (chosen / total) * hit(held / chosen, top_k, candidates);
  double expected = 0;
  for (double j = 1; j <= std::min(chosen, held); ++j) {
    const double p = std::exp(log_choose(held, j) + log_choose(total - held, chosen - j) - log_choose(total, chosen));
    expected += p * hit(j / chosen, top_k, candidates);
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
