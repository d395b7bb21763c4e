// One accelerator: what it can do, and where each number came from.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/units.h"

namespace stepcast::topology {

enum class Precision : unsigned char { bf16, fp16, fp8, mxfp8, fp8_blockwise, nvfp4 };

// Width of an element in bytes, scales included (fp8 block scales: 1 + 4/128; nvfp4: 0.5 + 1/16).
[[nodiscard]] double element_bytes(Precision precision);
[[nodiscard]] std::string_view name(Precision precision);

enum class Provenance : unsigned char { measured_fit, specification, secondary, assumption };

// One number and its origin: printed by `explain`, listed in `assumptions` when it is not measured or specified.
struct Constant {
  double value = 0;
  Provenance provenance = Provenance::specification;
  std::string source;
};

// Matrix-product efficiency, form F3 (calibration): time = max(2mnk / (peak e sustained m/(m+m0) n/(n+n0) k/(k+k0)), bytes/(b W)) + t0.
struct GemmFit {
  double e = 0, m0 = 0, n0 = 0, k0 = 0, b = 0;
  Seconds t0;
  double align8 = 1, align64 = 1;  // factor when n or k is no multiple of 8 / of 64 (A100)
};

// Attention: time = t0 + F (s+s0)/s / (peak e); backward has 2.5 F at its own level.
struct AttentionFit {
  double e_forward = 0, s0_forward = 0;
  double e_backward = 0, s0_backward = 0;
  double head_dim_64 = 1;  // factor on the rate at head dimension 64 and below
  Seconds t0;
};

struct Device {
  std::string name;     // catalogue name: "h100"
  std::string vendor;
  std::map<Precision, double> peak_flops;  // dense; a precision that is absent is not supported
  Bytes hbm;                               // usable capacity
  BytesPerSecond hbm_bandwidth;
  int sms = 0;
  int nvlink_domain = 8;                   // default of the boxes it is sold in
  int devices_per_node = 8;
  BytesPerSecond nvlink_bandwidth;         // per direction, nominal
  BytesPerSecond nic_bandwidth;            // per direction and device, default
  Bytes host_memory_per_device;
  BytesPerSecond host_link_bandwidth;      // per direction
  double sustained_gemm = 1;               // long-run clocks over the burst level of the fits
  double membound_efficiency = 0.8;        // of HBM bandwidth, large elementwise kernels
  Seconds membound_t0;                     // fixed time of a small memory-bound kernel
  std::map<Precision, GemmFit> gemm;
  std::map<std::string, AttentionFit> attention;  // by kernel generation: "fa2", "fa3", "cudnn", "unfused"
  std::string default_attention;
  bool secondary = false;                  // figures from secondary sources (Ascend): every forecast says so
  std::map<std::string, Constant> provenance;  // by key of the JSON file: "hbm_bandwidth_gb_per_s", ...
};

[[nodiscard]] Result<std::vector<std::string>> list_devices(const std::filesystem::path& catalog_root);
[[nodiscard]] Result<Device> load_device(const std::filesystem::path& catalog_root, const std::string& name);

}  // namespace stepcast::topology
