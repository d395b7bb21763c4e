// Times of single ops, evaluated again call by call when asked for; the calls used last are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "sim/engine/replay.h"
#include "sim/engine/sink.h"
#include "sim/program/program.h"

namespace stepcast::sim {

struct RecordedOp {
  int instance = -1;
  std::vector<Ticks> ready, end;  // by lane
  std::vector<Ticks> begin;       // empty: ready
  std::vector<bool> issued_last;  // the host's issue was not before any other input

  [[nodiscard]] Ticks begin_of(std::size_t lane) const { return begin.empty() ? ready[lane] : begin[lane]; }
};

class RecordedCalls {
 public:
  // Borrows both. Keeps calls up to `budget` bytes, and one at least.
  RecordedCalls(const Program& program, const Replay& replay, std::size_t budget = std::size_t{96} << 20);

  // Valid until the next call of at().
  [[nodiscard]] const RecordedOp& at(const Replay::Place& place);

 private:
  struct Kept {
    std::int32_t cohort = -1, call = -1;
    std::size_t bytes = 0;
    std::vector<RecordedOp> ops;  // by pc
  };
  class Capture;

  const Program& program_;
  const Replay& replay_;
  std::size_t budget_;
  std::size_t bytes_ = 0;
  std::list<Kept> kept_;  // the one used last in front
};

}  // namespace stepcast::sim
