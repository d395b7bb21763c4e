// One accelerator: what it can do, and where each number came from.
//
// A device is one JSON file of catalog/devices. "constants" hold what is known
// of the chip and its usual box, "fits" what was fitted to kernel measurements
// (replaceable as a block). Every number carries its provenance and its source
// in words; the reader is strict and reports all errors of a file.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/units.h"

namespace stepcast::topology {

inline constexpr int max_domain = 1024;  // devices of one NVLink domain or host

enum class Precision : unsigned char { bf16, fp16, fp8, mxfp8, fp8_blockwise, nvfp4 };

// Width of an element in bytes, scales included (fp8 block scales: 1 + 4/128; mxfp8: 1 + 1/32; nvfp4: 0.5 + 1/16).
[[nodiscard]] double element_bytes(Precision precision);
[[nodiscard]] std::string_view name(Precision precision);
[[nodiscard]] std::optional<Precision> precision_named(std::string_view name);

enum class Provenance : unsigned char {
  measured_fit,
  specification,
  secondary,   // published by a third party, not checked
  assumption,  // carried over from a related device, or from memory
  given,       // set by the scenario or a calibration profile
};
[[nodiscard]] std::string_view name(Provenance provenance);

// One number and its origin: printed by `explain`, listed in `assumptions` when it is not measured or specified.
struct Constant {
  double value = 0;
  Provenance provenance = Provenance::specification;
  std::string source;
};

// A line of `explain`. The unit is the suffix of the key in words ("GB/s"), empty for counts and ratios.
struct Fact {
  std::string key;
  double value = 0;
  std::string unit;
  Provenance provenance = Provenance::specification;
  std::string source;
};

// Matrix-product efficiency, form F3 (calibration):
// time = max(2mnk / (peak e sustained m/(m+m0) n/(n+n0) k/(k+k0)), bytes/(b W)) + t0.
struct GemmFit {
  double e = 0, m0 = 0, n0 = 0, k0 = 0, b = 0;
  Seconds t0;
  double align8 = 1, align64 = 1;  // factor when n or k is no multiple of 8 / of 64 (A100)
  double wave = 0;                 // share of a last, partly filled wave of 128 x 256 tiles that is lost (A100)
};

// Expert products of one call, form F3 in the rows an expert gets: e and m0 hold n, k and the kernel's own losses.
struct GroupedFit {
  double e = 0, m0 = 0, b = 0;
};

// Attention: time = t0 + F (s+s0)/s / (peak e); backward has 2.5 F at its own level.
// "unfused": two batched products over the full square; e and s0 then describe those products.
struct AttentionFit {
  double e_forward = 0, s0_forward = 0;
  double e_backward = 0, s0_backward = 0;
  double head_dim_64 = 1;  // factor on the rate at head dimension 64 and below
  Seconds t0;
  double tail = 0;  // idle tiles a multiprocessor at the end of a call: a factor 1 + tail SMs 128 / query rows
};

// How the devices of a domain are joined.
enum class ScaleUp : unsigned char {
  switched,  // NVSwitch: any pair at the full rate
  mesh,      // a direct link to each peer: one peer gets bandwidth / (domain - 1)
};

struct Device {
  std::string name;  // catalogue name: "h100"
  std::string vendor;
  std::map<Precision, double> peak_flops;  // dense; a precision that is absent is not supported
  Bytes hbm;                               // usable capacity
  BytesPerSecond hbm_bandwidth;
  int sms = 0;
  int nvlink_domain = 8;  // default of the boxes it is sold in
  int devices_per_node = 8;
  BytesPerSecond nvlink_bandwidth;  // per direction, nominal
  BytesPerSecond nic_bandwidth;     // per direction and device, default
  Bytes host_memory_per_device;
  BytesPerSecond host_link_bandwidth;  // per direction
  double sustained_gemm = 1;           // long-run clocks over the burst level of the fits, 16-bit products
  double sustained_fp8 = 1;            // the same for 8-bit and narrower products
  double membound_efficiency = 0.8;    // of HBM bandwidth, large elementwise kernels
  Seconds membound_t0;                 // fixed time of a small memory-bound kernel
  std::map<Precision, GemmFit> gemm;
  std::map<Precision, GroupedFit> grouped;        // absent: as `gemm`
  std::map<std::string, AttentionFit> attention;  // by kernel generation: "fa2", "fa3", "cudnn", "triton", "unfused"
  std::string default_attention;
  ScaleUp scale_up = ScaleUp::switched;
  bool secondary = false;                      // figures from secondary sources (Ascend): every forecast says so
  bool low_confidence = false;                 // kernel levels carried over from another device (V100, MI3xx)
  std::map<std::string, Constant> provenance;  // by key of the JSON file: "hbm_bandwidth_gb_per_s", "gemm.bf16.e", ...
};

// `catalog_root`: the folder that holds topology/catalog.
[[nodiscard]] Result<std::vector<std::string>> list_devices(const std::filesystem::path& catalog_root);
// Errors: unknown name (nearest named); a file that is missing, malformed, or has an unknown, missing or
// out-of-range key, each with file:line:column.
[[nodiscard]] Result<Device> load_device(const std::filesystem::path& catalog_root, const std::string& name);

[[nodiscard]] std::vector<Fact> describe(const Device& device);

// One line for each origin that is neither a measurement nor a specification: "device h20: secondary: ...".
[[nodiscard]] std::vector<std::string> assumptions_of(const Device& device);

}  // namespace stepcast::topology
