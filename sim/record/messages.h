// When each message of a step began to be sent, collected in a pass before the recording.
//
// Engines tell a step cohort after cohort, so that a receive may come before its send.
// Memory: a Ticks a message.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/engine/sink.h"
#include "sim/program/program.h"

namespace stepcast::sim {

class MessageLog : public Sink {
 public:
  explicit MessageLog(const Program& program) : program_(program), sent_(program.channels.size()) {}

  void on_instruction(const InstructionEvent& event) override {
    if (event.instruction->op != Opcode::send) return;
    sent_[event.instruction->target].emplace_back(event.begin.begin(), event.begin.end());
  }
  void on_step_end(std::uint64_t, int, std::span<const Ticks>) override {}

  // When the k-th message of the channel to a receiving lane began to be sent.
  [[nodiscard]] Ticks begin(std::uint16_t channel, std::size_t k, std::size_t lane) const {
    const std::vector<std::int32_t>& from = program_.channels[channel].from_lane;
    return sent_[channel][k][from.empty() ? lane : static_cast<std::size_t>(from[lane])];
  }

 private:
  const Program& program_;
  std::vector<std::vector<std::vector<Ticks>>> sent_;  // by channel, message and sending lane
};

}  // namespace stepcast::sim
