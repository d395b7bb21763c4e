// Grouped GEMM: E products that share n and k and differ in rows.
//
// F3 is affine in the extent that varies. With R rows over E experts, forward
// and dgrad have m = R/E:
//
//   T = t0 + 2nk (R + E m0) / (P e S),  not below  t0 + (weights read) / (b W)
//
// wgrad has k = R/E: the same with the larger of m0 and k0, plus the exposed share of the accumulation, not below its
// traffic. Imbalance inside the rank only moves rows between its own experts: the sum is the same.
// Where the device has constants of its own for grouped kernels, e and m0 hold the effect of n and k as well; else they
// are the dense ones and e takes the factors sat(n) sat(k).
#include <algorithm>

#include "topology/kernel_cost.h"
#include "topology/kernels/gemm_fit.h"

namespace stepcast::topology {
namespace {

GroupedFit grouped_fit(const Device& device, Precision precision, const GemmFit& dense, GroupedKind kind, double n,
                       double k) {
  const auto own = device.grouped.find(precision);
  if (own != device.grouped.end()) return own->second;
  if (precision == Precision::fp16) {
    const auto bf16 = device.grouped.find(Precision::bf16);
    if (bf16 != device.grouped.end()) return bf16->second;
  }
  // Output extent and reduction of the product: dgrad multiplies rows x n by n x k, wgrad makes n x k.
  const double factors = kind == GroupedKind::wgrad   ? saturation(n, dense.m0) * saturation(k, dense.n0)
                         : kind == GroupedKind::dgrad ? saturation(k, dense.n0) * saturation(n, dense.k0)
                                                      : saturation(n, dense.n0) * saturation(k, dense.k0);
  return {dense.e * factors, dense.m0, dense.b};
}

}  // namespace

AffineTime grouped_gemm_time(const Device& device, Precision precision, GroupedKind kind, int local_experts, double n,
                             double k, double accumulate_bytes) {
  if (local_experts <= 0 || n <= 0 || k <= 0) return {};
  const GemmFit dense = gemm_fit(device, precision);
  const bool wgrad = kind == GroupedKind::wgrad;
  const GroupedFit fit = grouped_fit(device, precision, dense, kind, n, k);
  const double rate = peak_flops(device, precision) * fit.e * sustained_level(device, precision) *
                      alignment_factor(dense, n) * alignment_factor(dense, k);
  const double per_row = 2 * n * k / rate;
  const double idle_rows = local_experts * (wgrad ? std::max(fit.m0, dense.k0) : fit.m0);
  const double weights = local_experts * n * k;
  const double weight_bytes = wgrad ? 2.0 : element_bytes(precision);  // gradients are written in bf16 at least
  const double accumulation = wgrad ? accumulation_seconds(device, accumulate_bytes * weights) : 0;
  const double floor = weights * weight_bytes / (fit.b * device.hbm_bandwidth.value) + accumulation;
  AffineTime time;
  time.base = dense.t0 + Seconds(per_row * idle_rows + exposed_accumulation * accumulation);
  time.per_row = Seconds(per_row);
  time.floor = dense.t0 + Seconds(floor);
  return time;
}

}  // namespace stepcast::topology
