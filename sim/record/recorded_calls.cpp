#include "sim/record/recorded_calls.h"

#include <algorithm>

#include "sim/base/error.h"

namespace stepcast::sim {

class RecordedCalls::Capture : public Sink {
 public:
  explicit Capture(Kept& kept) : kept_(kept) {}

  void on_instruction(const InstructionEvent& event) override {
    RecordedOp& op = kept_.ops[static_cast<std::size_t>(event.pc)];
    op.instance = event.instance;
    op.ready.assign(event.ready.begin(), event.ready.end());
    op.end.assign(event.end.begin(), event.end.end());
    const bool grouped = event.instruction->op == Opcode::collective || event.instruction->op == Opcode::join;
    if (grouped) op.begin.assign(event.begin.begin(), event.begin.end());
    op.issued_last.assign(event.ready.size(), false);
    const bool issued = (event.instruction->flags & flag_no_launch) == 0 && event.instruction->op != Opcode::host_sync;
    for (std::size_t l = 0; issued && l < event.ready.size(); ++l) op.issued_last[l] = event.host[l] == event.ready[l];
    kept_.bytes += (2 + (grouped ? 1 : 0)) * sizeof(Ticks) * event.ready.size();
  }
  void on_step_end(std::uint64_t, int, std::span<const Ticks>) override {}

 private:
  Kept& kept_;
};

RecordedCalls::RecordedCalls(const Program& program, const Replay& replay, std::size_t budget)
    : program_(program), replay_(replay), budget_(budget) {}

const RecordedOp& RecordedCalls::at(const Replay::Place& place) {
  const auto same = [&](const Kept& k) { return k.cohort == place.cohort && k.call == place.call; };
  const auto found = std::find_if(kept_.begin(), kept_.end(), same);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
  } else {
    while (!kept_.empty() && bytes_ > budget_) {
      bytes_ -= kept_.back().bytes;
      kept_.pop_back();
    }
    const Cohort& cohort = program_.cohorts[static_cast<std::size_t>(place.cohort)];
    const Call& call = cohort.calls[static_cast<std::size_t>(place.call)];
    Kept& kept = kept_.emplace_front();
    kept.cohort = place.cohort;
    kept.call = place.call;
    kept.ops.resize(cohort.bodies[call.body].instructions.size());
    Capture capture(kept);
    const Status status = replay_.reevaluate(place.cohort, place.call, capture);
    STEPCAST_ASSERT(status.ok());
    bytes_ += kept.bytes;
  }
  return kept_.front().ops[static_cast<std::size_t>(place.pc)];
}

}  // namespace stepcast::sim
