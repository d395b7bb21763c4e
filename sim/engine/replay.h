// A recorded step that can be looked at again, call by call.
//
// run() evaluates steps as run_lockstep does and keeps, of the last one, what
// every cohort's next call starts from: tails, slots and host of each lane, and
// the arrival times of all messages and joins. reevaluate() then tells a sink
// one call again, without the rest; a tracer of the critical path walks back so.
//
// Memory: a checkpoint is lanes x (streams + slots + host) x 8 bytes; there is one
// a call, or fewer so that they stay within 128 MiB. Plus a Ticks a lane for each
// message and three for each join. Reading is thread-safe.
// Borrows the program and the conditions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/base/error.h"
#include "sim/engine/conditions.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/sink.h"
#include "sim/program/program.h"

namespace stepcast::sim {

struct StepRecord;

class Replay {
 public:
  // Where an instruction is executed in a cohort's step.
  struct Place {
    std::int32_t cohort = -1, call = -1, pc = -1;
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  // `options.sink` is ignored; `sink` (may be null) is told the last step, cohort after cohort, each in issue order.
  [[nodiscard]] static Result<Replay> run(const Program& program, const Conditions& conditions,
                                          const RunOptions& options, Sink* sink);

  [[nodiscard]] const RunResult& result() const;

  // Tells the sink the instructions of one call again: the same bits as in run(). on_step_end is not called.
  // Fails with `invalid` on a cohort or call that does not exist.
  [[nodiscard]] Status reevaluate(int cohort, int call, Sink& sink) const;

  // Places of the channel's sends and receives in issue order: the k-th receive takes the k-th send's message.
  [[nodiscard]] std::span<const Place> sends(int channel) const;
  [[nodiscard]] std::span<const Place> receives(int channel) const;
  // Places of the join class in one member cohort (index into JoinClass::cohorts), in issue order: the k-th of all
  // members meet.
  [[nodiscard]] std::span<const Place> joins(int join, int member) const;

  // The send whose message the receive at `receive` takes; lanes through Channel::from_lane.
  [[nodiscard]] Place sender_of(const Place& receive) const;
  // All members' places of the join at `join`, in the order of JoinClass::cohorts.
  [[nodiscard]] std::vector<Place> members_of(const Place& join) const;

 private:
  Replay() = default;
  std::shared_ptr<const StepRecord> record_;
};

}  // namespace stepcast::sim
