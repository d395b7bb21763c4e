// Dense GEMM, form F3 of the calibration note:
//
//   T = t0 + max( C + x A, Q / (b W) + A )     C = 2mnk / (P e S a m/(m+m0) n/(n+n0) k/(k+k0))
//
// P dense peak, W HBM bandwidth, S the sustained level, a the alignment factors of
// the lengths of rows in memory (n and k, of weight gradients n and m),
// Q the bytes of A, B and C moved once, A the time of an accumulation's extra
// traffic, of which a share x shows beside compute. On A100 a partly filled last
// wave of 128 x 256 tiles shows: with w = tiles / SMs above one, C grows by
// 1 + c (ceil(w) - w) / w. Hopper and Blackwell kernels hide it.
#include <algorithm>
#include <cmath>

#include "topology/kernel_cost.h"
#include "topology/kernels/gemm_fit.h"

namespace stepcast::topology {
namespace {

constexpr double streaming_share = 0.85;  // of HBM bandwidth, read-modify-write of large tensors
constexpr double output_bytes = 2;        // C is written in bf16 whatever the inputs are

// fp8 and narrower formats halve and quarter the time of a k step, so the extents at half speed grow.
// Factors on (m0, n0, k0) against bf16: DeepGEMM's own constants and the dense pilot (c = 8, 16).
GemmFit widened(const GemmFit& bf16, double extent, double level) {
  GemmFit fit = bf16;
  fit.e *= level;
  fit.m0 *= extent;
  fit.n0 *= extent;
  fit.k0 *= extent;
  return fit;
}

}  // namespace

double alignment_factor(const GemmFit& fit, double extent) {
  const auto multiple_of = [extent](double step) { return std::fmod(extent, step) == 0.0; };
  if (!multiple_of(8)) return fit.align8;
  return multiple_of(64) ? 1.0 : fit.align64;
}

double wave_factor(const GemmFit& fit, int sms, double m, double n) {
  constexpr double tile_m = 128, tile_n = 256;
  if (fit.wave <= 0 || sms <= 0) return 1;
  const double waves = std::ceil(m / tile_m) * std::ceil(n / tile_n) / sms;
  return waves <= 1 ? 1 : 1 + fit.wave * (std::ceil(waves) - waves) / waves;
}

double saturation(double extent, double half) { return extent / (extent + half); }

GemmFit gemm_fit(const Device& device, Precision precision) {
  const auto found = [&device](Precision p) {
    const auto it = device.gemm.find(p);
    return it == device.gemm.end() ? nullptr : &it->second;
  };
  if (const GemmFit* own = found(precision)) return *own;
  if (precision == Precision::fp16) {
    if (const GemmFit* bf16 = found(Precision::bf16)) return *bf16;
  }
  if (precision == Precision::mxfp8 || precision == Precision::fp8_blockwise || precision == Precision::nvfp4) {
    if (const GemmFit* fp8 = found(Precision::fp8)) {
      return precision == Precision::nvfp4 ? widened(*fp8, 2, 1) : *fp8;
    }
  }
  if (const GemmFit* bf16 = found(Precision::bf16)) {
    if (precision == Precision::bf16 || precision == Precision::fp16) return *bf16;
    return widened(*bf16, precision == Precision::nvfp4 ? 16 : 8, 1);
  }
  // A device whose catalogue entry has no fit: Hopper's, whose F3 is the best measured.
  GemmFit hopper;
  hopper.e = 0.827;
  hopper.m0 = 69;
  hopper.n0 = 32;
  hopper.k0 = 123;
  hopper.b = 0.70;
  hopper.t0 = microseconds(3.2);
  return hopper;
}

double peak_flops(const Device& device, Precision precision) {
  const auto it = device.peak_flops.find(precision);
  if (it != device.peak_flops.end()) return it->second;
  // Block-scaled and micro-scaled fp8 run on the fp8 units; fp16 on those of bf16.
  const Precision base = precision == Precision::fp16 ? Precision::bf16 : Precision::fp8;
  const auto same_units = device.peak_flops.find(base);
  if (same_units != device.peak_flops.end() && precision != Precision::nvfp4) return same_units->second;
  const auto bf16 = device.peak_flops.find(Precision::bf16);
  const auto half = bf16 != device.peak_flops.end() ? bf16 : device.peak_flops.find(Precision::fp16);
  STEPCAST_ASSERT(half != device.peak_flops.end());
  return half->second;
}

double sustained_level(const Device& device, Precision precision) {
  const bool wide = precision == Precision::bf16 || precision == Precision::fp16;
  return wide ? device.sustained_gemm : device.sustained_fp8;
}

double accumulation_seconds(const Device& device, double bytes) {
  return bytes / (streaming_share * device.hbm_bandwidth.value);
}

Seconds gemm_time(const Device& device, Precision precision, const GemmShape& shape) {
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0) return Seconds(0);
  const GemmFit fit = gemm_fit(device, precision);
  const double efficiency = fit.e * sustained_level(device, precision) * saturation(shape.m, fit.m0) *
                            saturation(shape.n, fit.n0) * saturation(shape.k, fit.k0) * alignment_factor(fit, shape.n) *
                            alignment_factor(fit, shape.over_rows ? shape.m : shape.k);
  const double compute = 2 * shape.m * shape.n * shape.k / (peak_flops(device, precision) * efficiency) *
                         wave_factor(fit, device.sms, shape.m, shape.n);
  const double width = element_bytes(precision);
  const double bytes = width * (shape.m * shape.k + shape.k * shape.n) + output_bytes * shape.m * shape.n;
  const double memory = bytes / (fit.b * device.hbm_bandwidth.value);
  const double accumulation = accumulation_seconds(device, shape.accumulate_bytes * shape.m * shape.n);
  return fit.t0 + Seconds(std::max(compute + exposed_accumulation * accumulation, memory + accumulation));
}

}  // namespace stepcast::topology
