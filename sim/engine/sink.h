// What an engine tells while it runs with recording on. Implemented by sim/record.
#pragma once

#include <cstdint>
#include <span>

#include "sim/base/units.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// One instruction on all lanes of its cohort. Spans are by lane and valid during the call only.
struct InstructionEvent {
  std::uint64_t step = 0;
  int cohort = 0;
  std::int32_t call = 0;      // index into Cohort::calls
  std::int32_t pc = 0;        // index into the body's instructions
  std::uint64_t ordinal = 0;  // of the instruction in the rank's step, in issue order
  const Instruction* instruction = nullptr;
  const Work* work = nullptr;
  int instance = -1;             // the microbatch that the instruction belongs to
  std::span<const Ticks> host;   // host issue time (0 when not issued by the host)
  std::span<const Ticks> ready;  // this lane could start: stream, waits and host
  std::span<const Ticks> begin;  // work or transfer begins (collective: last member ready)
  std::span<const Ticks> end;
  std::span<const float> rows;  // of the instruction's load; empty when it has none
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_instruction(const InstructionEvent& event) = 0;
  // After the last instruction of a step on a cohort: when each lane finished its last op on any stream but dp.
  virtual void on_step_end(std::uint64_t step, int cohort, std::span<const Ticks> end) = 0;
};

}  // namespace stepcast::sim
