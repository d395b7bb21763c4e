// The pieces of form F3 that dense and grouped products share.
#pragma once

#include "topology/device.h"

namespace stepcast::topology {

// The device's constants for a precision, or the nearest it has: fp16 as bf16; scaled fp8 as fp8; fp8 and nvfp4
// without measurement from bf16 with wider half-speed extents.
[[nodiscard]] GemmFit gemm_fit(const Device& device, Precision precision);

// Dense peak in FLOP/s of the units that run `precision`.
[[nodiscard]] double peak_flops(const Device& device, Precision precision);

// Long-run level of products in this precision over the burst level of the fits.
[[nodiscard]] double sustained_level(const Device& device, Precision precision);

// extent / (extent + half): one half at extent == half.
[[nodiscard]] double saturation(double extent, double half);

// Factor on the rate when an extent is no multiple of 8, or of 64.
[[nodiscard]] double alignment_factor(const GemmFit& fit, double extent);

// At least 1: what the last wave of tiles loses.
[[nodiscard]] double wave_factor(const GemmFit& fit, int sms, double m, double n);

// Time of the extra traffic of an accumulation (fp32 weight gradients: read and write), and the share of it that shows
// when compute is the bound: Transformer Engine weight-gradient GEMMs on B200 and A100 take .45 of traffic / W longer
// than their forward, grouped ones .4 to .6.
inline constexpr double exposed_accumulation = 0.4;
[[nodiscard]] double accumulation_seconds(const Device& device, double bytes);

}  // namespace stepcast::topology
