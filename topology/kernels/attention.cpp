// Fused attention by kernel generation:
//
//   forward   T = t0 + F (s + s0) / s / (P e)
//   backward  T = t0 + 2.5 F (s + s0') / s / (P e')    (five products instead of two)
//
// times 1 + tail SMs 128 / rows, where the call's query rows (heads x tokens) are given: causal tiles differ in length
// and the last ones of a call run alone. F counts executed FLOPs (causal halved), s the keys a query sees at most, P
// the bf16 peak. Published curves are hyperbolic in s to within 5 %. The sustained GEMM level is not applied: these
// kernels are bound by the softmax units and by latency as much as by the tensor cores.
#include <algorithm>

#include "topology/kernel_cost.h"
#include "topology/kernels/gemm_fit.h"

namespace stepcast::topology {
namespace {

constexpr double tile_rows = 128;       // query rows a thread block takes
constexpr double backward_flops = 2.5;  // dQ, dK, dV, dP and the recomputed S, against S and O

// FlashAttention-2 on A100, the oldest generation with a fit: for a device without any.
constexpr AttentionFit fallback{.e_forward = 0.564,
                                .s0_forward = 513,
                                .e_backward = 0.50,
                                .s0_backward = 513,
                                .head_dim_64 = 0.82,
                                .t0 = Seconds(10e-6)};

const AttentionFit& fit_of(const Device& device, const std::string& generation) {
  const auto it = device.attention.find(generation);
  if (it != device.attention.end()) return it->second;
  const auto usual = device.attention.find(device.default_attention);
  return usual != device.attention.end() ? usual->second : fallback;
}

}  // namespace

Seconds attention_time(const Device& device, const std::string& generation, const AttentionShape& shape) {
  if (shape.flops_forward <= 0) return Seconds(0);
  const AttentionFit& fit = fit_of(device, generation);
  const double sequence = std::max(shape.sequence, 1.0);
  const double flops = shape.flops_forward * (shape.backward ? backward_flops : 1.0);
  const double half = shape.backward ? fit.s0_backward : fit.s0_forward;
  double efficiency = shape.backward ? fit.e_backward : fit.e_forward;
  if (!shape.mla && shape.head_dim <= 64) efficiency *= fit.head_dim_64;
  double tail = 1;
  if (shape.query_rows > 0) tail += fit.tail * device.sms * tile_rows / shape.query_rows;
  const double rate = peak_flops(device, Precision::bf16) * efficiency * shape.rate_scale * saturation(sequence, half);
  return fit.t0 + Seconds(flops / rate * tail);
}

}  // namespace stepcast::topology
