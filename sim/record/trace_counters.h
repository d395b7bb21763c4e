// What a trace draws as curves: memory, use of links and experts' rows of each rank of a timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program.h"
#include "sim/record/recorder.h"

namespace stepcast::sim {

struct CounterPoint {
  enum class Kind : std::uint8_t {
    memory,  // bytes in issue order, as sim/record/memory.h counts them, at times that never fall
    links,   // bytes a second that the rank's transfers put on NVLink and on its NIC, each at its mean rate
    rows,    // of the expert GEMM that begins
  } kind = Kind::memory;
  std::uint32_t op = 0;  // index into Timeline::ops
  Ticks at = 0;
  double value = 0;   // bytes; bytes a second over NVLink; rows
  double second = 0;  // links: bytes a second over the NIC
};

// Rank by rank and kind by kind, each in order of time; memory begins at `origin`.
[[nodiscard]] std::vector<CounterPoint> trace_counters(const Program& program, const Timeline& timeline, Ticks origin);

}  // namespace stepcast::sim
