// Runs steps of a program in lockstep: the scheduler of cohorts.
//
// A worklist of cohorts: each runs until a receive or join lacks its peers'
// part, and is put back by what it waits for. When all are stopped, they go past
// their obstacles (backlog.h); when that emits nothing either, they wait for
// each other for ever. Steps are evaluated one after the other, so messages of
// at most one step are held. Not thread-safe; runs share nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/engine/backlog.h"
#include "sim/engine/cohort_state.h"
#include "sim/engine/conditions.h"
#include "sim/engine/evaluate.h"
#include "sim/engine/lockstep.h"
#include "sim/engine/mail.h"
#include "sim/program/program.h"

namespace stepcast::sim {

// Conditions and options that no engine can run with, in words. Empty when sound.
[[nodiscard]] Errors check_run(const Program& program, const Conditions& conditions, const RunOptions& options);

class Machine {
 public:
  // `threads` above 1: cohorts that exchange messages form a component; components run beside each other between joins.
  Machine(const Program& program, const Conditions& conditions, const Kernels& kernels, int threads = 1);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // One step from where the last one ended. `keep`: the mail is kept for replay.
  [[nodiscard]] Status run_step(std::uint64_t step, bool keep);

  [[nodiscard]] std::vector<CohortState>& cohorts() { return cohorts_; }
  [[nodiscard]] const std::vector<CohortState>& cohorts() const { return cohorts_; }
  [[nodiscard]] Mail& mail() { return mail_; }

 private:
  // Where a cohort is in its step.
  struct Cursor {
    std::size_t call = 0, pc = 0;
    std::uint64_t call_ordinal = 0;  // of the call's first instruction
    bool counted = false;            // the obstacle at `pc` has its number in `k`
    std::size_t k = 0;
    bool arrived = false;  // the join at `pc` has been handed in
    bool queued = false;
  };

  void find_components();
  void run_components();
  bool hand_in_joins();
  void drain(std::size_t component);
  [[nodiscard]] bool idle() const;
  void arrive(std::size_t cohort, const Activation& activation);
  void enqueue(std::size_t cohort);
  void advance(std::size_t cohort);
  [[nodiscard]] Activation activation(std::size_t cohort) const;
  bool step_over(std::size_t cohort, const Activation& activation);
  void finish(std::size_t cohort, const Instruction& in, const Ticks* end);
  void wake(std::size_t from, const Instruction& emitted);
  void wake_emitted(std::size_t cohort);
  void look_ahead(std::size_t cohort);
  std::size_t number(std::size_t cohort, const Instruction& in);
  [[nodiscard]] bool done(std::size_t cohort) const;
  [[nodiscard]] std::string waiting(std::size_t cohort) const;

  const Program* program_;
  const Kernels* kernels_;
  std::vector<CohortState> cohorts_;
  Mail mail_;
  std::vector<Cursor> cursors_;
  std::vector<Backlog> backlogs_;
  std::vector<std::size_t> sent_, received_;      // by channel, in this step
  std::vector<std::vector<std::size_t>> joined_;  // by join class and member
  int threads_;
  bool deferring_ = false;                         // components are running: joins wait
  std::vector<std::size_t> component_;             // by cohort
  std::vector<std::deque<std::size_t>> runnable_;  // by component
};

// Appends the step that the machine has just run to the result.
void add_step(const Program& program, const Machine& machine, RunResult& result);

// run_lockstep without a sink, on a chosen instruction set.
[[nodiscard]] Result<RunResult> run_silent(const Program& program, const Conditions& conditions,
                                           const RunOptions& options, const Kernels& kernels);

// run_lockstep with a sink.
[[nodiscard]] Result<RunResult> run_recorded(const Program& program, const Conditions& conditions,
                                             const RunOptions& options);

}  // namespace stepcast::sim
