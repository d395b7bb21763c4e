// Kernels that only move memory: T = kernels t0 + bytes / (b W).
//
// b is the level that large tensors reach; the fixed time of a launch in a graph
// replay or a full queue is t0. Host launch cost is not here: the engine issues kernels.
#include <algorithm>

#include "topology/kernel_cost.h"

namespace stepcast::topology {
namespace {

double seconds_per_byte(const Device& device) {
  return 1.0 / (device.membound_efficiency * device.hbm_bandwidth.value);
}

}  // namespace

Seconds membound_time(const Device& device, Bytes bytes, double kernels) {
  const double moved = std::max(bytes.value, 0.0);
  return device.membound_t0 * std::max(kernels, 0.0) + Seconds(moved * seconds_per_byte(device));
}

AffineTime membound_per_row(const Device& device, Bytes per_row, Bytes fixed, double kernels) {
  AffineTime time;
  time.base = membound_time(device, fixed, kernels);
  time.per_row = Seconds(std::max(per_row.value, 0.0) * seconds_per_byte(device));
  return time;
}

}  // namespace stepcast::topology
