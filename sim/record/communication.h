// Communication accounts of a step: calls, bytes, transfer and waiting time by collective and group.
//
// A message has two ends: calls, bytes and transfer are counted where it is
// sent, waiting (ready to begin of the sender's send) where it is received.
#pragma once

#include <span>
#include <vector>

#include "sim/engine/sink.h"
#include "sim/program/program.h"
#include "sim/record/labels.h"
#include "sim/record/partition.h"
#include "sim/record/report.h"

namespace stepcast::sim {

class CommunicationRecorder {
 public:
  CommunicationRecorder(const Program& program, const Labels& labels);

  // `message_begin`: for receives, by lane.
  void on_instruction(const InstructionEvent& event, std::span<const Ticks> message_begin);

  [[nodiscard]] std::vector<CommunicationStats> stats(const PartitionRecorder& partition) const;
  [[nodiscard]] double executed_flops() const { return executed_flops_; }

 private:
  struct Sums {  // over all lanes
    std::int64_t calls = 0;
    double payload = 0, wire = 0, nic = 0;
    Ticks raw = 0, waiting = 0;
    std::vector<bool> cohorts;  // that take part
  };

  const Program& program_;
  const Labels& labels_;
  std::vector<Sums> accounts_;
  double executed_flops_ = 0;
};

}  // namespace stepcast::sim
