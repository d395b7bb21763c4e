// Which communication each op of a timeline takes part in, by keys that are equal on all of its ranks.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sim/program/program.h"
#include "sim/record/recorder.h"

namespace stepcast::sim {

// One execution of a collective or a join by one group, or one message.
struct Meeting {
  enum class Kind : std::uint8_t { collective, join, message, none } kind = Kind::none;
  std::uint32_t cohort = 0;     // of a collective, else 0
  std::uint32_t target = 0;     // group class, join class or channel
  std::uint32_t group = 0;      // within the class; of a message the sending lane
  std::uint64_t execution = 0;  // collective: ordinal in the step; else the k-th of the target in the step
  friend auto operator<=>(const Meeting&, const Meeting&) = default;
};

// By op of the timeline; Kind::none where an op meets nobody.
[[nodiscard]] std::vector<Meeting> meetings(const Program& program, const Timeline& timeline);

// The ranks that meet: of a group in its own order, of a join by cohort and lane, of a message sender and receiver.
// Nothing for Kind::none.
[[nodiscard]] std::vector<RankId> members(const Program& program, const Meeting& meeting);

}  // namespace stepcast::sim
