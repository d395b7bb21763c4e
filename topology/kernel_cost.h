// How long one kernel takes when it has the device to itself.
//
// Pure arithmetic over a device's fitted constants (see topology/README.md for
// the forms and their residuals). No clock, no state, no routing: the duration
// of an expert kernel is returned as a function of its rows.
#pragma once

#include <string>

#include "sim/base/units.h"
#include "topology/device.h"

namespace stepcast::topology {

struct GemmShape {
  double m = 0, n = 0, k = 0;   // C[m,n] = A[m,k] B[k,n]
  double accumulate_bytes = 0;  // extra traffic per element of C (fp32 gradient accumulation: 8)
  bool over_rows = false;       // a weight gradient: k runs over rows of both operands, whose rows are m and n long
};

// Seconds of one dense GEMM at the sustained level. The device must support the precision.
[[nodiscard]] Seconds gemm_time(const Device& device, Precision precision, const GemmShape& shape);

// A duration that is affine in the rows a rank receives, with a floor: max(floor, base + per_row * rows).
// F3 is affine in m while compute-bound: m / (m / (m + m0)) = m + m0.
struct AffineTime {
  Seconds base;
  Seconds per_row;
  Seconds floor;
  [[nodiscard]] Seconds at(double rows) const {
    const Seconds t = base + per_row * rows;
    return t < floor ? floor : t;
  }
};

// Which matrix of the grouped product varies: rows x n x k (forward, dgrad), or n x k accumulated over rows (wgrad).
enum class GroupedKind : unsigned char { forward, dgrad, wgrad };

// Grouped GEMM over `local_experts` experts with weights n x k each; `rows` are summed over the local experts.
[[nodiscard]] AffineTime grouped_gemm_time(const Device& device, Precision precision, GroupedKind kind,
                                           int local_experts, double n, double k, double accumulate_bytes);

struct AttentionShape {
  double flops_forward = 0;  // executed score and value FLOPs (causal halved), all heads and sequences of the call
  double sequence = 0;       // keys a query sees at most: for the saturation term
  int head_dim = 128;
  bool backward = false;
  bool mla = false;       // 192/128 heads
  double query_rows = 0;  // heads x query tokens of the call, for the tail of the last tiles; 0: no tail
  double rate_scale = 1;  // of the software profile, on the generation's rate
};

// `generation`: a key of device.attention; the scale of the software profile multiplies the rate.
[[nodiscard]] Seconds attention_time(const Device& device, const std::string& generation, const AttentionShape& shape);

// `kernels` launches that move `bytes` of HBM traffic together.
[[nodiscard]] Seconds membound_time(const Device& device, Bytes bytes, double kernels);

// The same, affine in rows (permute, expert activation, quantise of routed rows).
[[nodiscard]] AffineTime membound_per_row(const Device& device, Bytes per_row, Bytes fixed, double kernels);

}  // namespace stepcast::topology
