// What cohorts tell each other within one step: messages and meetings.
//
// The k-th send of a channel is message k, the k-th join of a class is meeting
// k, both counted from the step's begin. They are written once, and freed when
// taken unless the step is kept for replay.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/flow_port.h"
#include "sim/engine/lanes.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// One collective over several cohorts: by group, the last member's ready time and the longest duration.
struct Meeting {
  std::vector<Ticks> begin, longest;
  std::size_t arrived = 0, taken = 0;
  // On shared links: what its members need of them, and by how much sharing lengthened it. Held: not ended yet.
  FlowRequest flow;
  bool held = false;
  Ticks delay = 0;
};

class Mail {
 public:
  explicit Mail(const Program& program);

  // Channels of one component are written and read by one thread at a time; components may be by several.
  void set_components(std::vector<std::size_t> of_channel, std::size_t count);
  // Forgets the last step's messages. `keep`: nothing is freed when taken.
  void begin_step(bool keep);

  // `end` by sending lane; the message holds arrival times by receiving lane.
  void send(std::size_t channel, std::size_t k, const Ticks* end);
  // Null while message k has not been sent.
  [[nodiscard]] const Ticks* arrival(std::size_t channel, std::size_t k) const;
  void take(std::size_t channel, std::size_t k);

  // Adds a member's lanes to meeting k; true when it was the last one.
  bool join(std::size_t join, std::size_t k, std::size_t member, const Ticks* ready, const Ticks* duration);
  // A meeting that has begun.
  [[nodiscard]] Meeting& meeting_at(std::size_t join, std::size_t k) { return meetings_[join][k]; }
  // Latest begin and end of its groups, alone.
  static void bound(const Meeting& meeting, Ticks& begin, Ticks& end);
  // Null while members lack, or while it is held.
  [[nodiscard]] const Meeting* meeting(std::size_t join, std::size_t k) const;
  void take_meeting(std::size_t join, std::size_t k);
  // Members that have arrived so far.
  [[nodiscard]] std::size_t arrived(std::size_t join, std::size_t k) const;
  // Each lane's begin and end in a complete meeting; `duration` is the lanes' own.
  void resolve(std::size_t join, const Meeting& meeting, std::size_t member, bool largest, const Ticks* duration,
               Ticks* begin, Ticks* end) const;

  [[nodiscard]] std::size_t member(std::size_t join, int cohort) const;

 private:
  [[nodiscard]] std::size_t member_lanes(std::size_t join, std::size_t member) const;

  const Program* program_;
  bool keep_ = false;
  std::vector<std::vector<LaneBuffer<Ticks>>> messages_;  // by channel and k; empty: not sent, or taken
  std::vector<std::size_t> component_;                    // by channel; empty: one
  std::vector<std::vector<LaneBuffer<Ticks>>> free_;      // by component; all of the longest size
  std::size_t message_lanes_ = 0;
  std::vector<std::vector<Meeting>> meetings_;
  std::vector<std::size_t> groups_;  // by join class
};

}  // namespace stepcast::sim
