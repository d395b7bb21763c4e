// A whole expert MLP on one device: both grouped products by grouped_gemm_time, the traffic of permuting, activating
// and restoring the rows, and a fixed time.
//
//   T = t_layer + FC1 + FC2 + R 2 B (4 h + 3 i) / (share W)
//
// R routed rows, h hidden, i expert width. Level and activation traffic trade off (only their sum is identified), so
// the level is bounded by the best dense matmul published for the device (calibration 2.2). t_layer and the share
// belong to the inference engine that was measured. Sets without them are reported and not kept: a fused Triton kernel
// (A100, slower than Transformer Engine's grouped products there) and engines' own fp8.
#include <array>

#include <fmt/format.h>

#include "topology/kernel_cost.h"
#include "validation/components/component_data.h"

namespace stepcast::validation {
namespace {

using topology::GroupedKind;
using topology::Precision;

struct Set {
  const char* device;
  const char* rows;
  const char* dtype;
  Precision precision;
  double best_level;                       // of the best dense matmul published for the device
  double layer_us = 0, traffic_share = 0;  // as fitted: of the measured engine, not of the product
};

constexpr std::array sets{
    Set{"a100-80gb", "A100-SXM4-80GB", "bfloat16", Precision::bf16, 0.869},
    Set{"h100", "H100-SXM-80GB", "bfloat16", Precision::bf16, 0.803, 29.8, 0.642},
    Set{"h200", "H200-SXM", "bfloat16", Precision::bf16, 0.803, 55.2, 0.772},
    Set{"b200", "B200-SXM", "bfloat16", Precision::bf16, 0.776, 45.5, 0.527},
    Set{"gb200", "GB200", "bfloat16", Precision::bf16, 0.729, 48.5, 0.556},
    Set{"gb300", "GB300", "bfloat16", Precision::bf16, 0.786, 43.6, 0.532},
    Set{"h100", "H100-SXM-80GB", "fp8_block", Precision::fp8_blockwise, 0.709},
    Set{"h200", "H200-SXM", "fp8_block", Precision::fp8_blockwise, 0.734},
    Set{"b200", "B200-SXM", "fp8_block", Precision::fp8_blockwise, 0.763, 58.6, 0.474},
    Set{"gb200", "GB200", "fp8_block", Precision::fp8_blockwise, 0.723, 61.2, 0.493},
    Set{"gb300", "GB300", "fp8_block", Precision::fp8_blockwise, 0.745, 59.5, 0.486},
    Set{"b200", "B200-SXM", "fp8", Precision::fp8, 0.763},
    Set{"gb200", "GB200", "fp8", Precision::fp8, 0.723},
};

constexpr double least_rows = 16;  // an expert: below it is decoding

struct Row {
  int experts = 1;
  double rows = 0, hidden = 0, inter = 0;
};

enum Index : std::size_t { e, m0, b, layer_us, traffic_share };

FitTask make_task(const ComponentData& data, const Set& set) {
  const topology::Device& source = data.devices.at(set.device);
  const Table& table = data.expert_layer;
  FitTask task;
  task.component = "expert_layer";
  task.device = set.device;
  task.variant = std::string(topology::name(set.precision));
  task.form = "t + FC1 + FC2 + row traffic";
  // A100 has power-law routing only, the flattest of it.
  const std::string_view routing = source.name.starts_with("a100") ? "power_law_1.01" : "balanced";
  task.source = fmt::format("moe_layer.csv, {} {}, {} routing", set.rows, set.dtype, routing);
  task.parameters = {{"e", 0.7, 0.3, set.best_level, 0},
                     {"m0", 60, 1, 600, 0.5},
                     {"b", 0.85, 0.3, 1, 0.3},
                     {"layer_us", 40, 1, 300, 1},
                     {"traffic_share", 0.5, 0.05, 1.2, 0.7}};
  auto rows = std::make_shared<std::vector<Row>>();
  GroupIds ids;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (table.text(i, "device") != set.rows || table.text(i, "dtype") != set.dtype ||
        table.text(i, "routing") != routing) {
      continue;
    }
    const double experts = table.number(i, "experts");
    const Row row{static_cast<int>(experts), table.number(i, "tokens") * table.number(i, "topk"),
                  table.number(i, "hidden"), table.number(i, "inter")};
    if (row.rows / experts < least_rows) continue;
    rows->push_back(row);
    task.measured.push_back(table.number(i, "latency_us") * 1e-6);
    task.groups.push_back(ids(fmt::format("{} {} {}", row.hidden, row.inter, experts)));  // a model
  }
  topology::Device device = burst_device(source);
  task.predict = [device, rows, precision = set.precision](std::span<const double> x, std::size_t i) mutable {
    device.grouped[precision] = {x[e], x[m0], x[b]};
    const Row& row = (*rows)[i];
    const auto product = [&](double n, double k) {
      return topology::grouped_gemm_time(device, precision, GroupedKind::forward, row.experts, n, k, 0)
          .at(row.rows)
          .value;
    };
    const double traffic = row.rows * 2 * (4 * row.hidden + 3 * row.inter);
    return x[layer_us] * 1e-6 + product(2 * row.inter, row.hidden) + product(row.hidden, row.inter) +
           traffic / (x[traffic_share] * device.hbm_bandwidth.value);
  };
  const auto kept = source.grouped.find(set.precision);
  if (set.layer_us > 0 && kept != source.grouped.end()) {
    task.committed = {kept->second.e, kept->second.m0, kept->second.b, set.layer_us, set.traffic_share};
  }
  return task;
}

}  // namespace

std::vector<FitTask> expert_layer_tasks(const ComponentData& data) {
  std::vector<FitTask> tasks;
  for (const Set& set : sets) tasks.push_back(make_task(data, set));
  return tasks;
}

}  // namespace stepcast::validation
