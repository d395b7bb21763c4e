// Dependencies between the ops of a timeline, found again from what the instructions say.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program.h"
#include "sim/record/recorder.h"

namespace stepcast::sim {

struct Dependency {
  enum class Kind : std::uint8_t {
    stream,   // the op before on the same stream
    wait,     // a waited stream's last op, or the op that recorded the waited slot
    host,     // the host went on after a synchronisation
    message,  // send to receive
    group,    // the member of a collective that was ready last to each other member
  } kind = Kind::stream;
  std::uint32_t from = 0, to = 0;  // indexes into Timeline::ops
};
[[nodiscard]] const char* name(Dependency::Kind kind);

// Only pairs of which both ops are in the timeline. Sorted by (to, from, kind).
[[nodiscard]] std::vector<Dependency> dependencies(const Program& program, const Timeline& timeline);

// The instruction that an op of the timeline executed, and what it was.
[[nodiscard]] const Instruction& instruction_of(const Program& program, const TimelineOp& op);
[[nodiscard]] const Work& work_of(const Program& program, const TimelineOp& op);

}  // namespace stepcast::sim
