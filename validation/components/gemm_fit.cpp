// Dense GEMM by form F3 (topology/kernels/gemm.cpp), training shapes: m >= 256, n and k >= 512.
//
// bf16 starts from the constants fitted to the larger collection of which the table is a sample (calibration 2.2) with
// a prior of 20 %. The fp8 and nvfp4 rows of TensorRT-LLM include the quantisation of A, which the product counts as a
// kernel of its own: a fixed time and a multiple of one read and one write of A are fitted beside F3 and not kept.
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "topology/kernel_cost.h"
#include "validation/components/component_data.h"

namespace stepcast::validation {
namespace {

using topology::GemmFit;
using topology::Precision;

struct Set {
  const char* device;  // catalogue name
  const char* rows;    // name in the table
  const char* dtype;
  Precision precision;
  GemmFit start;
  double passes = 0, quantise_us = 0;  // of quantisation in the rows, as fitted: not kept in the product
  bool kept = true;                    // whether the catalogue holds the fit of these rows
};

constexpr GemmFit f3(double e, double m0, double n0, double k0, double b, double t0_us) {
  GemmFit fit;
  fit.e = e;
  fit.m0 = m0;
  fit.n0 = n0;
  fit.k0 = k0;
  fit.b = b;
  fit.t0 = microseconds(t0_us);
  return fit;
}

// A level of .7 and extents of the order that DeepGEMM's kernels show (calibration 2.2).
constexpr GemmFit narrow_start = f3(0.75, 120, 600, 300, 0.7, 3);

constexpr std::array sets{
    Set{"h100", "H100-SXM-80GB", "bf16", Precision::bf16, f3(0.827, 69, 32, 123, 0.70, 3.2)},
    Set{"h200", "H200-SXM", "bf16", Precision::bf16, f3(0.820, 38, 14, 113, 0.55, 3.15)},
    Set{"b200", "B200-SXM", "bf16", Precision::bf16, f3(0.715, 119, 50, 18.5, 0.52, 2.8)},
    Set{"b300", "B300-SXM", "bf16", Precision::bf16, f3(0.715, 119, 50, 18.5, 0.52, 2.8)},
    Set{"gb200", "GB200", "bf16", Precision::bf16, f3(0.683, 112, 37, 17, 0.55, 2.6)},
    Set{"gb300", "GB300", "bf16", Precision::bf16, f3(0.683, 112, 37, 17, 0.55, 2.6)},
    Set{"a100-80gb", "A100-SXM4-80GB", "bf16", Precision::bf16, f3(0.918, 86, 169, 180, 0.445, 5.3)},
    Set{"h100", "H100-SXM-80GB", "fp8", Precision::fp8, narrow_start, 1.4, 5.69},
    Set{"h200", "H200-SXM", "fp8", Precision::fp8, narrow_start, 1.33, 5.82},
    Set{"b200", "B200-SXM", "fp8", Precision::fp8, narrow_start, 1.42, 11.5},
    Set{"b300", "B300-SXM", "fp8", Precision::fp8, narrow_start, 1.26, 11.5},
    Set{"gb200", "GB200", "fp8", Precision::fp8, narrow_start, 1.56, 11.3},
    Set{"gb300", "GB300", "fp8", Precision::fp8, narrow_start, 1.71, 11.5},
    Set{"h100", "H100-SXM-80GB", "fp8_block", Precision::fp8_blockwise, narrow_start, 0, 0, false},
    Set{"h200", "H200-SXM", "fp8_block", Precision::fp8_blockwise, narrow_start, 0, 0, false},
    Set{"b200", "B200-SXM", "fp8_block", Precision::fp8_blockwise, narrow_start, 0.457, 3.47},
    Set{"b300", "B300-SXM", "fp8_block", Precision::fp8_blockwise, narrow_start, 0.392, 3.49},
    Set{"gb200", "GB200", "fp8_block", Precision::fp8_blockwise, narrow_start, 0.653, 3.02},
    Set{"gb300", "GB300", "fp8_block", Precision::fp8_blockwise, narrow_start, 0.491, 3.67},
    Set{"h800", "H800-SXM", "fp8_e4m3 (1x128/128x128 scales)", Precision::fp8_blockwise,
        f3(0.962, 121, 1116, 644, 0.843, 2.35)},
    Set{"b200", "B200-SXM", "nvfp4", Precision::nvfp4, narrow_start, 0.85, 4.58},
    Set{"b300", "B300-SXM", "nvfp4", Precision::nvfp4, narrow_start, 1.03, 5.18},
    Set{"gb200", "GB200", "nvfp4", Precision::nvfp4, narrow_start, 1.06, 4.02},
    Set{"gb300", "GB300", "nvfp4", Precision::nvfp4, narrow_start, 1.12, 5.17},
};

constexpr double least_m = 256;
constexpr double least_nk = 512;

enum Index : std::size_t { e, m0, n0, k0, b, t0_us, wave, passes = wave, quantise_us };

std::vector<Parameter> parameters(const Set& set, bool narrow, bool waves) {
  const double wide = narrow ? 0.7 : 0.2;
  const double level = narrow ? 0.2 : 0.1;
  std::vector<Parameter> list{
      {"e", set.start.e, 0.3, 1.1, level}, {"m0", set.start.m0, 1, 2000, wide},
      {"n0", set.start.n0, 1, 4000, wide}, {"k0", set.start.k0, 1, 4000, wide},
      {"b", set.start.b, 0.2, 1.0, 0.2},   {"t0_us", set.start.t0.value * 1e6, 0.5, 50, narrow ? 0.1 : 0.2},
  };
  if (waves) list.push_back({"wave", 0.4, 0.01, 1, 0});
  if (narrow) {
    list.push_back({"quantise_passes", 1, 0.05, 10, 0.7});
    list.push_back({"quantise_us", 4, 0.1, 30, 0.7});
  }
  return list;
}

FitTask make_task(const ComponentData& data, const Set& set) {
  const topology::Device& source = data.devices.at(set.device);
  const bool narrow = set.precision != Precision::bf16 && std::string_view(set.device) != "h800";
  const bool deepgemm = source.name == "h800";  // its grouped rows give m a group and follow the same form
  const bool waves = source.name.starts_with("a100");
  FitTask task;
  task.component = "gemm";
  task.device = set.device;
  task.variant = std::string(topology::name(set.precision));
  task.form = narrow ? "F3 + quantise passes over A" : waves ? "F3 with waves" : "F3";
  task.source = fmt::format("gemm.csv, {} {} dense, burst", set.rows, set.dtype);
  task.parameters = parameters(set, narrow, waves);
  auto rows = std::make_shared<std::vector<topology::GemmShape>>();
  GroupIds ids;
  for (std::size_t i = 0; i < data.gemm.rows(); ++i) {
    if (data.gemm.text(i, "device") != set.rows || data.gemm.text(i, "dtype") != set.dtype ||
        (data.gemm.text(i, "kind") != "dense" && !deepgemm) ||
        data.gemm.text(i, "source").find("SimuMax") != std::string_view::npos) {
      continue;
    }
    const topology::GemmShape shape{data.gemm.number(i, "m"), data.gemm.number(i, "n"), data.gemm.number(i, "k"), 0};
    const double seconds = 2 * shape.m * shape.n * shape.k / (data.gemm.number(i, "tflops") * 1e12);
    if (!(shape.m >= least_m && shape.n >= least_nk && shape.k >= least_nk && seconds > 0)) continue;
    rows->push_back(shape);
    task.measured.push_back(seconds);
    task.groups.push_back(ids(fmt::format("{} {}", shape.n, shape.k)));
  }
  topology::Device device = burst_device(source);
  task.predict = [device, rows, narrow, waves, precision = set.precision](std::span<const double> x,
                                                                          std::size_t i) mutable {
    GemmFit& fit = device.gemm[precision];
    fit = f3(x[e], x[m0], x[n0], x[k0], x[b], x[t0_us]);
    if (waves) fit.wave = x[wave];
    const topology::GemmShape& shape = (*rows)[i];
    double seconds = topology::gemm_time(device, precision, shape).value;
    if (narrow) {
      const Bytes pass(shape.m * shape.k * (2 + topology::element_bytes(precision)));
      seconds += x[quantise_us] * 1e-6 + x[passes] * topology::membound_time(device, pass, 0).value;
    }
    return seconds;
  };
  const auto kept = source.gemm.find(set.precision);
  if (set.kept && kept != source.gemm.end()) {
    const GemmFit& fit = kept->second;
    task.committed = {fit.e, fit.m0, fit.n0, fit.k0, fit.b, fit.t0.value * 1e6};
    if (waves) task.committed.push_back(fit.wave);
    if (narrow) task.committed.insert(task.committed.end(), {set.passes, set.quantise_us});
  }
  return task;
}

}  // namespace

std::vector<FitTask> gemm_tasks(const ComponentData& data) {
  std::vector<FitTask> tasks;
  for (const Set& set : sets) tasks.push_back(make_task(data, set));
  return tasks;
}

}  // namespace stepcast::validation
