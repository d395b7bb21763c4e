// The exact partition of every rank's step, accumulated while an engine runs.
//
// A lane's window [step begin, step end) is cut by its cursor, the end of its
// last kernel. A kernel claims [begin, end) for its category; the gap before it
// is swept over the lane's communication that was issued before the kernel:
//   1. a transfer in progress: exposed_*, streams in the order tp, cp, ep, compute, pp, dp, copy;
//   2. waiting for peers of a collective: wait_*, in the same order;
//   3. waiting for a message whose sender has not begun to send, or for other
//      stages in a join: bubble;
//   4. the host's work once a step (data loader, logging): data;
//   5. not yet issued by the host: host;
//   6. nothing known: other.
// The tail from the last kernel to the step's end is swept likewise (the host's
// part ends with its last launch or synchronisation), then:
//   7. to the end of the lane's last op, and on to the end of the slowest lane
//      of its stage: other; from there to the step's end: bubble.
// What a rank does before the step's begin belongs to the window of the step
// before, and is cut off; gathers of the step before that run into this one
// are given by carry().
// Only open intervals are kept: memory grows with lanes, not with ops.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/sink.h"
#include "sim/program/program.h"
#include "sim/record/intervals.h"
#include "sim/record/labels.h"
#include "sim/record/messages.h"
#include "sim/record/pieces.h"
#include "sim/record/report.h"

namespace stepcast::sim {

using StreamIntervals = std::array<OpenIntervals, stream_count>;

class PartitionRecorder {
 public:
  // Borrows all three; `messages` of the same step. Lanes begin at `step_begin`.
  PartitionRecorder(const Program& program, const Labels& labels, const MessageLog& messages, Ticks step_begin);

  // Collects the pieces of a rank's partition too, for drawing: call before the first instruction.
  void watch(RankId rank);
  // The pieces of the ranks watched, in the order in which they were named.
  [[nodiscard]] std::vector<WatchedRank> watched() const;

  // Communication of the step before that is still open at this step's begin.
  void carry(int cohort, StreamIntervals intervals);

  void on_instruction(const InstructionEvent& event);
  void on_step_end(int cohort, std::span<const Ticks> end);
  // After all cohorts' ends: closes every lane's window.
  void finish(Ticks step_end);

  // By rank; adds up to step end - step begin exactly.
  [[nodiscard]] std::vector<Partition> by_rank() const;
  // Exposed transfer time of one account, by rank.
  [[nodiscard]] std::vector<Ticks> exposed_by_rank(std::size_t account) const;
  // By lane of the event given last, when that was a receive: when its message began to be sent.
  [[nodiscard]] std::span<const Ticks> message_begin() const { return message_begin_; }

 private:
  struct Lanes {
    std::vector<Ticks> cursor;                            // end of the lane's last kernel
    std::vector<Ticks> issued;                            // host issue time of the lane's last op
    std::vector<Ticks> synchronised;                      // end of the lane's last host_sync
    std::vector<Ticks> data_begin, data_end;              // the host's work once a step
    std::vector<Ticks> end;                               // of the lane's step
    std::array<std::vector<Ticks>, category_count> time;  // by category, then lane
    std::vector<std::vector<Ticks>> exposed;              // by account, then lane
    StreamIntervals streams;
    bool issued_any = false;
    std::vector<int> watched;  // by lane, index into watched_ or -1; empty: no lane is
  };
  struct Segment {
    Ticks from, to;
  };

  void note_host(Lanes& lanes, const Cohort& cohort, const InstructionEvent& event);
  void on_kernel(Lanes& lanes, const OpLabel& label, const InstructionEvent& event);
  void on_communication(Lanes& lanes, const OpLabel& label, const InstructionEvent& event);
  void collect_open(Lanes& lanes);
  // Attributes [from, to) of a lane by rules 1 to 5; leaves the rest in gap_.
  void sweep(Lanes& lanes, std::size_t lane, Ticks from, Ticks to);
  // Takes what is left of [from, to) out of gap_ for a category; its length.
  Ticks take(Category category, Ticks from, Ticks to);
  void note_piece(Category category, Ticks from, Ticks to);
  [[nodiscard]] WatchedRank* watched_at(const Lanes& lanes, std::size_t lane);
  void take_into(Lanes& lanes, std::size_t lane, Category category, Ticks from, Ticks to);

  const Program& program_;
  const Labels& labels_;
  const MessageLog& messages_;
  Ticks step_begin_;
  Ticks step_end_ = 0;
  std::vector<Lanes> cohorts_;
  std::vector<std::size_t> received_;  // messages so far, by channel
  std::vector<Ticks> message_begin_;
  std::vector<const IntervalColumn*> open_;  // live columns of the cohort at hand, in order of priority
  std::vector<Segment> gap_;                 // of the lane at hand, what no rule has claimed yet
  std::vector<WatchedRank> watched_;
  WatchedRank* watching_ = nullptr;  // of the lane at hand; null: nobody draws it
};

}  // namespace stepcast::sim
