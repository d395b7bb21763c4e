// Instructions of a cohort that were passed over while they wait for others.
//
// A receive or join whose peers are not there yet stops only what follows on its
// stream or waits for it. When every cohort is stopped, the machine goes past
// the obstacle: instructions that depend on an open one are put here with the
// maximum of what they could already read, the others are evaluated at once.
// Completing one hands its end to those that wait for it. So the result is that
// of the dependencies alone, whatever the order of the list.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "sim/engine/cohort_state.h"
#include "sim/engine/evaluate.h"
#include "sim/engine/mail.h"

namespace stepcast::sim {

// An instruction in its place: what evaluating it needs besides the state.
struct Issued {
  const Instruction* instruction = nullptr;
  std::int32_t call = 0, pc = 0;
  std::int32_t instance = -1;  // of its load
  std::uint64_t ordinal = 0;
  std::size_t k = 0;     // send, receive: message; join: meeting
  bool arrived = false;  // join: this cohort's part has been handed in
};

class Backlog {
 public:
  // With `flows`, operations on shared links end when it says so.
  Backlog(CohortState& state, Mail& mail, const Kernels& kernels, FlowPort* flows = nullptr);

  [[nodiscard]] bool empty() const { return open_ == 0; }
  // Evaluates the instruction, or keeps it until what it waits for is there.
  void issue(const Issued& issued);
  // Completes what has become possible.
  void pump();
  // The flow posted for this node has ended, `delay` later than alone.
  void end_flow(std::size_t node, Ticks delay);
  // Whether the instruction reads or overwrites what an open one will write: it has to be issued here. Others may be
  // evaluated beside the backlog.
  [[nodiscard]] bool blocks(const Instruction& in) const;
  // Whether the compute stream waits for an open instruction.
  [[nodiscard]] bool compute_open() const {
    return stream_writer_[static_cast<std::size_t>(Stream::compute)] != nobody;
  }
  // Sends and joins handed in since the last call; the machine wakes their receivers.
  [[nodiscard]] std::vector<const Instruction*> take_emitted();
  // The first open receive or join that only lacks its peers.
  [[nodiscard]] const Issued* obstacle() const;

 private:
  struct Edge {
    std::size_t to;
    Ticks add;  // host time issued in between
  };
  struct Node {
    Issued issued;
    LaneBuffer<Ticks> ready;  // of what could be read so far
    std::size_t missing = 0;
    std::vector<Edge> dependents;
    LaneBuffer<Ticks> end;  // alone, of a posted flow
    bool done = false;
  };
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  void depend(Node& node, std::size_t id, std::size_t on, Ticks add);
  void read_inputs(Node& node, std::size_t id);
  bool try_complete(std::size_t id);
  void complete(std::size_t id, const Ticks* end);
  bool post(std::size_t id, const float* rows, const Ticks* begin, const Ticks* end);
  void hold(const Issued& issued, const float* rows, bool last);
  void write_through(std::size_t id, const Node& node, const Ticks* end);

  CohortState* state_;
  Mail* mail_;
  const Kernels* kernels_;
  FlowPort* flows_;
  std::vector<Node> nodes_;
  std::set<std::size_t> runnable_;  // nothing missing but perhaps peers; lowest first
  std::size_t open_ = 0;
  std::vector<std::size_t> stream_writer_, slot_writer_;  // open node whose end the stream or slot will take
  std::size_t host_writer_ = nobody;
  Ticks host_add_ = 0;  // issued since the open host_sync
  std::vector<const Instruction*> emitted_;
};

}  // namespace stepcast::sim
