// What a sampled step meets beside its work: slow devices, node epochs, degraded links, stalls.
//
// Each is a named distribution of Noise, drawn under keys of the sampled step and
// of the device, node or NIC: configurations that are compared meet the same
// ones (common random numbers), whatever their layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallelism/step_spec.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "sim/engine/conditions.h"

namespace stepcast::parallelism {

struct StepTails {
  std::vector<float> slow;       // by rank, on kernels; empty: all 1
  std::vector<float> link_slow;  // by rank, on transfers over the NIC; empty: all 1
  std::vector<Ticks> stalls;     // by rank, host time at the step's begin; empty: none
};

// placement: rank -> device.
[[nodiscard]] StepTails draw_tails(const StepSpec& spec, std::span<const DeviceId> placement, std::uint64_t sample);

// The engine's conditions for a step that meets these tails, `reported` being the step that stalls strike. Borrows.
[[nodiscard]] sim::Conditions conditions_of(const StepSpec& spec, const StepTails& tails,
                                            const sim::LoadSource* routing, std::uint64_t reported);

// One line a distribution that is on, in words.
[[nodiscard]] std::vector<std::string> describe_tails(const Noise& noise);

}  // namespace stepcast::parallelism
