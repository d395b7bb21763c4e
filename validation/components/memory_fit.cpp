// Memory-bound kernels (topology/kernels/membound.cpp), on a cast that reads two bytes and writes one.
#include <array>

#include <fmt/format.h>

#include "topology/kernel_cost.h"
#include "validation/components/component_data.h"

namespace stepcast::validation {
namespace {

struct Set {
  const char* device;
  const char* rows;
};

constexpr std::array sets{Set{"h100", "H100-SXM-80GB"}, Set{"h200", "H200-SXM"}, Set{"b200", "B200-SXM"},
                          Set{"b300", "B300-SXM"},      Set{"gb200", "GB200"},   Set{"gb300", "GB300"}};

// Small tensors live in the cache of a repeated benchmark; training tensors do not.
constexpr double least_bytes = 64e6;

FitTask make_task(const ComponentData& data, const Set& set) {
  const topology::Device& source = data.devices.at(set.device);
  FitTask task;
  task.component = "memory";
  task.device = set.device;
  task.variant = "elementwise";
  task.form = "t0 + bytes / (b W)";
  task.source = fmt::format("membound.csv, {}, 64 MB and more", set.rows);
  task.parameters = {{"efficiency", 0.85, 0.2, 1.1, 0}, {"t0_us", 2, 0.2, 50, 0.3}};
  auto bytes = std::make_shared<std::vector<double>>();
  for (std::size_t i = 0; i < data.memory.rows(); ++i) {
    if (data.memory.text(i, "device") != set.rows || data.memory.number(i, "bytes") < least_bytes) continue;
    bytes->push_back(data.memory.number(i, "bytes"));
    task.measured.push_back(data.memory.number(i, "time_us") * 1e-6);
    task.groups.push_back(static_cast<int>(i));
  }
  topology::Device device = burst_device(source);
  task.predict = [device, bytes](std::span<const double> x, std::size_t i) mutable {
    device.membound_efficiency = x[0];
    device.membound_t0 = microseconds(x[1]);
    return topology::membound_time(device, Bytes((*bytes)[i]), 1).value;
  };
  task.committed = {source.membound_efficiency, source.membound_t0.value * 1e6};
  return task;
}

}  // namespace

std::vector<FitTask> memory_tasks(const ComponentData& data) {
  std::vector<FitTask> tasks;
  for (const Set& set : sets) tasks.push_back(make_task(data, set));
  return tasks;
}

}  // namespace stepcast::validation
