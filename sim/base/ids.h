// Distinct integer ids, so that a rank is never passed for a stage.
#pragma once

#include <compare>
#include <cstdint>

namespace stepcast {

template <class Tag>
struct Id {
  std::int32_t value = -1;
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  friend constexpr auto operator<=>(Id, Id) = default;
  [[nodiscard]] constexpr bool valid() const { return value >= 0; }
};

using RankId = Id<struct RankTag>;      // 0 .. ranks-1, in the order of the layout
using DeviceId = Id<struct DeviceTag>;  // 0 .. devices-1, in the order of the fabric
using StageId = Id<struct StageTag>;    // pipeline coordinate

}  // namespace stepcast
