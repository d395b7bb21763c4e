// Attention by kernel generation (topology/kernels/attention.cpp).
//
// The prefill rows of inference engines may append keys and values to a cache: a multiple of that traffic is fitted
// beside the kernel's own constants and not kept. FLOPs follow FlashAttention: causal counts half of the square.
#include <array>

#include <fmt/format.h>

#include "topology/kernel_cost.h"
#include "validation/components/component_data.h"

namespace stepcast::validation {
namespace {

using topology::AttentionFit;

struct Set {
  const char* device;
  const char* rows;
  const char* kernel;  // a part of the table's kernel name
  const char* generation;
  double e, s0;
  double cache = 0;  // appends of the measured engine, as fitted
};

constexpr std::array sets{
    Set{"a100-80gb", "A100-SXM4-80GB", "vllm_flash_attn", "fa2", 0.57, 500, 1.14},
    Set{"h100", "H100-SXM-80GB", "SGLang 0.5.14 fa3", "fa3", 0.63, 800, 1.11},
    Set{"h200", "H200-SXM", "SGLang 0.5.14 fa3", "fa3", 0.61, 700, 1.32},
    Set{"b200", "B200-SXM", "torch_flow", "trtllm", 0.60, 1500, 1.25},
    Set{"gb200", "GB200", "trtllm_mha", "trtllm", 0.58, 1000, 1.24},
    Set{"gb300", "GB300", "torch_flow", "trtllm", 0.77, 3000, 1.13},
};

struct Row {
  topology::AttentionShape shape;
  double cache_bytes = 0;  // keys and values read and written once
};

enum Index : std::size_t { e_forward, s0_forward, head_dim_64, t0_us, tail, cache };

FitTask make_task(const ComponentData& data, const Set& set) {
  const topology::Device& source = data.devices.at(set.device);
  const Table& table = data.attention;
  FitTask task;
  task.component = "attention";
  task.device = set.device;
  task.variant = set.generation;
  task.form = "t0 + F (s + s0)/s (1 + tail/tiles) / (P e) + cache append";
  task.source = fmt::format("attention.csv, {} {}, causal forward", set.rows, set.kernel);
  task.parameters = {
      {"e_forward", set.e, 0.1, 1, 0}, {"s0_forward", set.s0, 10, 1e4, 0}, {"head_dim_64", 0.8, 0.3, 1.2, 0.5},
      {"t0_us", 8, 0.3, 100, 1},       {"tail", 1, 0.02, 20, 1},           {"cache_append", 1, 0.05, 5, 0.7}};
  auto rows = std::make_shared<std::vector<Row>>();
  GroupIds ids;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (table.text(i, "device") != set.rows || table.text(i, "kernel").find(set.kernel) == std::string_view::npos ||
        table.text(i, "dir") != "fwd" || table.text(i, "causal") != "1") {
      continue;
    }
    const double sequence = table.number(i, "seq"), batch = table.number(i, "batch"), heads = table.number(i, "heads");
    const double width = table.number(i, "head_dim"), kv_heads = table.number(i, "kv_heads");
    Row row;
    row.shape.flops_forward = 2 * batch * heads * sequence * sequence * width;
    row.shape.sequence = sequence;
    row.shape.head_dim = static_cast<int>(width);
    row.shape.query_rows = batch * heads * sequence;
    row.cache_bytes = 2 * 2 * 2 * batch * sequence * kv_heads * width;  // two tensors, read and written, two bytes
    const double seconds = row.shape.flops_forward / (table.number(i, "tflops") * 1e12);
    if (!(seconds > 0) || !(row.cache_bytes > 0)) continue;
    rows->push_back(row);
    task.measured.push_back(seconds);
    task.groups.push_back(ids(fmt::format("{} {} {}", heads, kv_heads, sequence)));
  }
  topology::Device device = burst_device(source);
  const std::string generation = set.generation;
  task.predict = [device, rows, generation](std::span<const double> x, std::size_t i) mutable {
    AttentionFit& fit = device.attention[generation];
    fit.e_forward = x[e_forward];
    fit.s0_forward = x[s0_forward];
    fit.head_dim_64 = x[head_dim_64];
    fit.t0 = microseconds(x[t0_us]);
    fit.tail = x[tail];
    const Row& row = (*rows)[i];
    return topology::attention_time(device, generation, row.shape).value +
           x[cache] * row.cache_bytes / device.hbm_bandwidth.value;
  };
  const auto kept = source.attention.find(set.generation);
  if (kept != source.attention.end()) {
    const AttentionFit& fit = kept->second;
    task.committed = {fit.e_forward, fit.s0_forward, fit.head_dim_64, fit.t0.value * 1e6, fit.tail, set.cache};
  }
  return task;
}

// Training kernels, forward and backward, from the few published points: two constants each, two lengths each.
FitTask published_task(const ComponentData& data, const char* device_name, const char* rows_name, bool backward) {
  const topology::Device& source = data.devices.at(device_name);
  const Table& table = data.attention_published;
  FitTask task;
  task.component = "attention";
  task.device = device_name;
  task.variant = backward ? "cudnn backward" : "cudnn forward";
  task.form = "F (s + s0)/s / (P e)";
  task.source = "attention_published.csv, DeepSeek-V3 heads";
  task.parameters = {{"e", 0.6, 0.1, 1, 0}, {"s0", 1000, 10, 1e4, 0}};
  auto rows = std::make_shared<std::vector<topology::AttentionShape>>();
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (table.text(i, "device") != rows_name || (table.text(i, "dir") == "bwd") != backward) continue;
    topology::AttentionShape shape;
    shape.flops_forward = 1e15;  // long enough for the fixed time to vanish
    shape.sequence = table.number(i, "seq");
    shape.backward = backward;
    shape.mla = true;
    rows->push_back(shape);
    task.measured.push_back(shape.flops_forward * (backward ? 2.5 : 1) / (table.number(i, "tflops") * 1e12));
    task.groups.push_back(static_cast<int>(i));
  }
  topology::Device device = burst_device(source);
  task.predict = [device, rows, backward](std::span<const double> x, std::size_t i) mutable {
    AttentionFit& fit = device.attention["cudnn"];
    (backward ? fit.e_backward : fit.e_forward) = x[0];
    (backward ? fit.s0_backward : fit.s0_forward) = x[1];
    return topology::attention_time(device, "cudnn", (*rows)[i]).value;
  };
  const AttentionFit& kept = source.attention.at("cudnn");
  task.committed =
      backward ? std::vector{kept.e_backward, kept.s0_backward} : std::vector{kept.e_forward, kept.s0_forward};
  return task;
}

}  // namespace

std::vector<FitTask> attention_tasks(const ComponentData& data) {
  std::vector<FitTask> tasks;
  for (const Set& set : sets) tasks.push_back(make_task(data, set));
  for (const bool backward : {false, true}) {
    tasks.push_back(published_task(data, "h100", "Hopper", backward));
    tasks.push_back(published_task(data, "gb200", "Blackwell", backward));
  }
  return tasks;
}

}  // namespace stepcast::validation
