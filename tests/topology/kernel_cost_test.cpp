#include "topology/kernel_cost.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace stepcast::topology {
namespace {

Device hopper() {
  Device device;
  device.name = "h100";
  device.peak_flops = {{Precision::bf16, 989e12}, {Precision::fp8, 1979e12}};
  device.hbm_bandwidth = gb_per_s(3350);
  device.sms = 132;
  device.membound_efficiency = 0.9;
  device.membound_t0 = microseconds(1.3);
  GemmFit fit;
  fit.e = 0.8;
  fit.m0 = 64;
  fit.n0 = 32;
  fit.k0 = 128;
  fit.b = 0.7;
  fit.t0 = microseconds(3);
  device.gemm[Precision::bf16] = fit;
  AttentionFit attention;
  attention.e_forward = 0.65;
  attention.s0_forward = 600;
  attention.e_backward = 0.5;
  attention.s0_backward = 900;
  attention.head_dim_64 = 0.8;
  attention.t0 = microseconds(10);
  device.attention["fa3"] = attention;
  device.default_attention = "fa3";
  return device;
}

GemmShape shape(double m, double n, double k) { return {m, n, k, 0}; }

TEST_CASE("a large GEMM takes F3's compute time and its floor") {
  const Device device = hopper();
  const double m = 4096, n = 8192, k = 2048;
  const double rate = 989e12 * 0.8 * m / (m + 64) * n / (n + 32) * k / (k + 128);
  CHECK(gemm_time(device, Precision::bf16, shape(m, n, k)).value == Approx(3e-6 + 2 * m * n * k / rate));
}

TEST_CASE("a thin GEMM is bound by its weights") {
  const Device device = hopper();
  const double n = 8192, k = 8192;
  const double bytes = 2 * (k + n * k + n);
  CHECK(gemm_time(device, Precision::bf16, shape(1, n, k)).value == Approx(3e-6 + bytes / (0.7 * 3.35e12)));
}

TEST_CASE("the sustained level slows compute and nothing else") {
  Device device = hopper();
  const GemmShape large = shape(8192, 8192, 8192);
  const double burst = gemm_time(device, Precision::bf16, large).value - 3e-6;
  const Seconds attention = attention_time(device, "fa3", {1e12, 4096});
  device.sustained_gemm = 0.8;
  CHECK((gemm_time(device, Precision::bf16, large).value - 3e-6) == Approx(burst / 0.8));
  CHECK(attention_time(device, "fa3", {1e12, 4096}) == attention);
  CHECK(membound_time(device, gigabytes(1), 1) == membound_time(hopper(), gigabytes(1), 1));
}

TEST_CASE("GEMM time grows with each extent and with accumulation") {
  const Device device = hopper();
  for (double extent : {1.0, 16.0, 100.0, 513.0, 4096.0, 65536.0}) {
    const Seconds base = gemm_time(device, Precision::bf16, shape(extent, 1024, 1024));
    CHECK(gemm_time(device, Precision::bf16, shape(extent * 2, 1024, 1024)) > base);
    CHECK(gemm_time(device, Precision::bf16, shape(1024, extent, 2048)) >
          gemm_time(device, Precision::bf16, shape(1024, extent, 1024)));
    GemmShape accumulated = shape(extent, 1024, 1024);
    accumulated.accumulate_bytes = 8;
    CHECK(gemm_time(device, Precision::bf16, accumulated) > base);
  }
}

TEST_CASE("extents off the tensor-core grid cost what the device's alignment factor says") {
  Device device = hopper();
  device.gemm[Precision::bf16].align8 = 0.4;
  device.gemm[Precision::bf16].align64 = 0.7;
  const auto compute = [&](double n) { return gemm_time(device, Precision::bf16, shape(8192, n, 8192)).value - 3e-6; };
  CHECK(compute(8200) / compute(8192) == Approx(1 / 0.7).epsilon(0.01));
  CHECK(compute(8190) / compute(8192) == Approx(1 / 0.4).epsilon(0.01));
}

TEST_CASE("a weight gradient's alignment is that of the rows in memory, not of their number") {
  Device device = hopper();
  device.gemm[Precision::bf16].align8 = 0.4;
  const auto compute = [&](double m, double rows) {
    GemmShape gradient = shape(m, 8192, rows);
    gradient.over_rows = true;
    return gemm_time(device, Precision::bf16, gradient).value - 3e-6;
  };
  CHECK(compute(8191, 8192) / compute(8192, 8192) == Approx(1 / 0.4).epsilon(0.01));
  CHECK(compute(8192, 8191) / compute(8192, 8192) == Approx(1).epsilon(0.01));
}

TEST_CASE("a precision without its own fit saturates later than bf16 and is never slower than half its peak gain") {
  const Device device = hopper();
  const Seconds bf16 = gemm_time(device, Precision::bf16, shape(16384, 16384, 16384));
  const Seconds fp8 = gemm_time(device, Precision::fp8, shape(16384, 16384, 16384));
  CHECK(fp8 < bf16);
  CHECK(fp8.value > bf16.value * 989 / 1979);
  CHECK(std::isfinite(gemm_time(device, Precision::nvfp4, shape(128, 128, 128)).value));
}

TEST_CASE("a grouped GEMM is the sum of its experts' F3 times when rows are equal") {
  const Device device = hopper();
  const double n = 4096, k = 7168, rows = 8 * 1000;
  for (const GroupedKind kind : {GroupedKind::forward, GroupedKind::dgrad}) {
    const AffineTime time = grouped_gemm_time(device, Precision::bf16, kind, 8, n, k, 0);
    const GemmShape one = kind == GroupedKind::forward ? shape(1000, n, k) : shape(1000, k, n);
    const double each = gemm_time(device, Precision::bf16, one).value - 3e-6;
    CHECK(time.at(rows).value == Approx(3e-6 + 8 * each).epsilon(1e-9));
  }
}

TEST_CASE("a grouped GEMM with few rows still reads its weights") {
  const Device device = hopper();
  const AffineTime time = grouped_gemm_time(device, Precision::bf16, GroupedKind::forward, 32, 4096, 7168, 0);
  const double weights = 2.0 * 32 * 4096 * 7168;
  CHECK(time.at(0).value >= weights / (0.7 * 3.35e12));
  CHECK(time.at(32 * 4096) > time.at(32 * 512));
  CHECK(time.at(100) <= time.at(101));
}

TEST_CASE("accumulating weight gradients costs their traffic") {
  const Device device = hopper();
  const AffineTime plain = grouped_gemm_time(device, Precision::bf16, GroupedKind::wgrad, 8, 4096, 7168, 0);
  const AffineTime accumulated = grouped_gemm_time(device, Precision::bf16, GroupedKind::wgrad, 8, 4096, 7168, 8);
  CHECK(accumulated.at(8000) > plain.at(8000));
  CHECK(accumulated.at(8) > plain.at(8));
  CHECK(grouped_gemm_time(device, Precision::bf16, GroupedKind::forward, 0, 4096, 7168, 0).at(10).value == 0);
}

TEST_CASE("attention saturates with the sequence") {
  const Device device = hopper();
  const double flops = 1e13;
  const double e = 989e12 * 0.65;
  CHECK(attention_time(device, "fa3", {flops, 4096}).value == Approx(10e-6 + flops * (4096 + 600) / 4096 / e));
  CHECK(attention_time(device, "fa3", {flops, 1024}) > attention_time(device, "fa3", {flops, 4096}));
  AttentionShape backward{flops, 4096};
  backward.backward = true;
  CHECK(attention_time(device, "fa3", backward).value ==
        Approx(10e-6 + 2.5 * flops * (4096 + 900) / 4096 / (989e12 * 0.5)));
  AttentionShape narrow{flops, 4096};
  narrow.head_dim = 64;
  CHECK(attention_time(device, "fa3", narrow) > attention_time(device, "fa3", {flops, 4096}));
}

TEST_CASE("attention of an unknown generation falls back to the device's default") {
  const Device device = hopper();
  CHECK(attention_time(device, "no-such-kernel", {1e12, 4096}) == attention_time(device, "fa3", {1e12, 4096}));
  CHECK(attention_time(device, "fa3", {0, 4096}).value == 0);
  CHECK(std::isfinite(attention_time(device, "fa3", {1e12, 0}).value));
}

TEST_CASE("the software profile scales the attention rate") {
  AttentionShape slow{1e13, 4096};
  slow.rate_scale = 0.5;
  const Device device = hopper();
  const double t0 = 10e-6;
  CHECK(attention_time(device, "fa3", slow).value - t0 ==
        Approx(2 * (attention_time(device, "fa3", {1e13, 4096}).value - t0)));
}

TEST_CASE("memory-bound kernels move their bytes at the device's level") {
  const Device device = hopper();
  CHECK(membound_time(device, gigabytes(3), 2).value == Approx(2 * 1.3e-6 + 3e9 / (0.9 * 3.35e12)));
  CHECK(membound_time(device, Bytes(0), 1).value == Approx(1.3e-6));
  CHECK(membound_time(device, Bytes(-5), 0).value == 0);
  const AffineTime rows = membound_per_row(device, Bytes(14336), Bytes(1e6), 3);
  CHECK(rows.at(0).value == Approx(membound_time(device, Bytes(1e6), 3).value));
  CHECK(rows.at(1000) > rows.at(10));
}

TEST_CASE("kernel times fall when the hardware gets faster") {
  Device fast = hopper();
  fast.hbm_bandwidth = gb_per_s(4800);
  const Device device = hopper();
  CHECK(membound_time(fast, gigabytes(1), 1) < membound_time(device, gigabytes(1), 1));
  CHECK(gemm_time(fast, Precision::bf16, shape(1, 8192, 8192)) <
        gemm_time(device, Precision::bf16, shape(1, 8192, 8192)));
  Device twice = hopper();
  twice.peak_flops[Precision::bf16] *= 2;
  CHECK(gemm_time(twice, Precision::bf16, shape(8192, 8192, 8192)) <
        gemm_time(device, Precision::bf16, shape(8192, 8192, 8192)));
  CHECK(attention_time(twice, "fa3", {1e13, 4096}) < attention_time(device, "fa3", {1e13, 4096}));
}

}  // namespace
}  // namespace stepcast::topology
