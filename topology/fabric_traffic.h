// What a fabric carries when many devices send at once: cuts by maximum flow,
// and the rates of all-to-all and ring traffic. Internal to topology's fabric files.
#pragma once

#include <span>

#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "topology/fabric_layout.h"

namespace stepcast::topology {

// See Fabric::cut_capacity. Boxes that hold the same pattern of senders, receivers and others, under leaf groups that
// hold the same boxes, are merged with summed capacities: exact, since a maximum flow averaged over a symmetry of the
// network is one too.
[[nodiscard]] BytesPerSecond cut_capacity(const FabricLayout& fabric, std::span<const DeviceId> from,
                                          std::span<const DeviceId> to);

// See Fabric::cross_domain_rate.
[[nodiscard]] BytesPerSecond uniform_rate(const FabricLayout& fabric, std::span<const DeviceId> members, bool everyone);
[[nodiscard]] BytesPerSecond ring_rate(const FabricLayout& fabric, std::span<const DeviceId> members, bool everyone);

}  // namespace stepcast::topology
