// One NVLink domain: the measured sqrt form. NCCL's choice of ring, LL protocols and NVLS is inside the fit.
#include <algorithm>
#include <cmath>

#include "topology/collectives/algorithms.h"

namespace stepcast::topology {
namespace {

// Broadcast was not measured; it pipelines down a ring like one all-gather shard after the other.
Collective measured_as(Collective kind) { return kind == Collective::broadcast ? Collective::all_gather : kind; }

// NCCL takes NVLS for all-reduce from five devices on; below that its ring is as fast.
constexpr int nvls_from = 5;

}  // namespace

double in_domain_seconds(const CollectiveCall& call, Collective kind, int ranks, double bytes) {
  const InDomainFit fit = in_domain_fit(*call.fits, measured_as(kind), ranks);
  const double rate = fit.busbw_gb_per_s * 1e9 * call.nvlink_scale;
  return bytes * busbw_factor(kind, ranks) / rate + fit.gamma_us * 1e-6 * std::sqrt(bytes / 1e6 / call.nvlink_scale);
}

double in_domain_alpha(const CollectiveCall& call, Collective kind, int ranks) {
  return in_domain_fit(*call.fits, measured_as(kind), ranks).alpha_us * 1e-6;
}

CollectiveTime in_domain(const CollectiveCall& call) {
  const int n = call.span.ranks;
  const double alpha = in_domain_alpha(call, call.kind, n);
  const bool nvls = call.kind == Collective::all_reduce && call.fits->in_switch_reduction && n >= nvls_from;
  CollectiveTime time;
  time.latency = Seconds(alpha);
  time.time = Seconds(alpha + in_domain_seconds(call, call.kind, n, call.bytes));
  // With in-switch reduction a rank sends its buffer once and the multicast of its share.
  const double factor = nvls ? 1 + 1.0 / n : busbw_factor(call.kind, n);
  time.wire_per_rank = Bytes(call.bytes * factor);
  time.algorithm = nvls ? "nvls" : call.kind == Collective::all_to_all ? "pairwise" : "ring";
  return time;
}

}  // namespace stepcast::topology
