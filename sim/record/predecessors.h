// The op before a place on a stream, or the last that recorded a slot, in a cohort's step.
//
// Tables of calls x (streams + slots), so that a look-up reads one body only.
// The place {cohort, number of calls, 0} is the step's end.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/replay.h"
#include "sim/program/program.h"

namespace stepcast::sim {

class Predecessors {
 public:
  explicit Predecessors(const Program& program);

  // The last instruction before `place` on the stream; host_sync is on none. call -1: none in this step.
  [[nodiscard]] Replay::Place on_stream(const Replay::Place& place, Stream stream) const;
  // The last instruction before `place` that records the slot.
  [[nodiscard]] Replay::Place of_slot(const Replay::Place& place, std::uint16_t slot) const;
  // The stream of the instructions that record the slot, for a record of the step before.
  [[nodiscard]] Stream stream_of_slot(int cohort, std::uint16_t slot) const;
  // The instruction before, whatever it is.
  [[nodiscard]] Replay::Place before(Replay::Place place) const;

 private:
  struct Table {
    std::vector<std::vector<std::int32_t>> last_pc;  // by body, then key: -1 none
    std::vector<std::vector<std::int32_t>>
        last_call;  // by key, then call (and the end): the last call before with the key
    std::vector<Stream> slot_stream;
  };
  [[nodiscard]] Replay::Place find(const Replay::Place& place, std::size_t key) const;

  const Program& program_;
  std::vector<Table> tables_;  // by cohort
};

}  // namespace stepcast::sim
