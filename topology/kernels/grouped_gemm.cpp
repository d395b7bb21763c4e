// Grouped GEMM: E products that share n and k and differ in rows.
//
// F3 is affine in the extent that varies. With R rows over E experts, forward
// and dgrad have m = R/E:
//
//   T = t0 + 2nk (R + E m0) / (P e S sat(n) sat(k)),  not below  t0 + (weights read) / (b W)
//
// and wgrad has k = R/E: the same with k0 for m0, plus the exposed share of the accumulation, not below its traffic.
// Imbalance inside the rank only moves rows between its own experts: the sum is the same.
#include <algorithm>

#include "topology/kernel_cost.h"
#include "topology/kernels/gemm_fit.h"

namespace stepcast::topology {

AffineTime grouped_gemm_time(const Device& device, Precision precision, GroupedKind kind, int local_experts, double n,
                             double k, double accumulate_bytes) {
  if (local_experts <= 0 || n <= 0 || k <= 0) return {};
  const GemmFit fit = gemm_fit(device, precision);
  const bool wgrad = kind == GroupedKind::wgrad;
  // dgrad multiplies rows x n by n x k: reduction over n, output extent k.
  const double output = kind == GroupedKind::dgrad ? k : n;
  const double reduced = kind == GroupedKind::dgrad ? n : k;
  const double fixed_saturation =
      wgrad ? saturation(n, fit.m0) * saturation(k, fit.n0) : saturation(output, fit.n0) * saturation(reduced, fit.k0);
  const double rate = peak_flops(device, precision) * fit.e * device.sustained_gemm * fixed_saturation *
                      alignment_factor(fit, n) * alignment_factor(fit, k);
  const double per_row = 2 * n * k / rate;
  const double idle_rows = local_experts * (wgrad ? fit.k0 : fit.m0);
  const double weights = local_experts * n * k;
  const double weight_bytes = wgrad ? 2.0 : element_bytes(precision);  // gradients are written in bf16 at least
  const double accumulation = wgrad ? accumulation_seconds(device, accumulate_bytes * weights) : 0;
  const double floor = weights * weight_bytes / (fit.b * device.hbm_bandwidth.value) + accumulation;
  AffineTime time;
  time.base = fit.t0 + Seconds(per_row * idle_rows + exposed_accumulation * accumulation);
  time.per_row = Seconds(per_row);
  time.floor = fit.t0 + Seconds(floor);
  return time;
}

}  // namespace stepcast::topology
