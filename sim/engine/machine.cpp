#include "sim/engine/machine.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace stepcast::sim {

Errors check_run(const Program& program, const Conditions& conditions, const RunOptions& options) {
  Errors errors;
  const auto fail = [&](std::string message) { errors.push_back(make_error(ErrorCode::invalid, std::move(message))); };
  if (program.cohorts.empty()) fail("the program has no cohorts");
  if (options.steps < 1) fail(fmt::format("{} steps to simulate; at least 1", options.steps));
  if (!(conditions.kernel_sigma >= 0 && conditions.kernel_sigma <= largest_kernel_sigma)) {
    fail(fmt::format("kernel noise of {}; allowed is 0 to {}, so that no duration is negative", conditions.kernel_sigma,
                     largest_kernel_sigma));
  }
  if (!conditions.slow_by_rank.empty() && conditions.slow_by_rank.size() != static_cast<std::size_t>(program.ranks)) {
    fail(fmt::format("{} slow factors for {} ranks", conditions.slow_by_rank.size(), program.ranks));
  }
  for (float slow : conditions.slow_by_rank) {
    if (std::isfinite(slow) && slow > 0) continue;
    fail(fmt::format("a slow factor of {}; it must be above 0", slow));
    break;
  }
  if (program.loads > 0 && conditions.loads == nullptr) {
    fail(fmt::format("the program has {} routing loads and the conditions have none", program.loads));
  }
  return errors;
}

Machine::Machine(const Program& program, const Conditions& conditions, const Kernels& kernels)
    : program_(&program), kernels_(&kernels), mail_(program), cursors_(program.cohorts.size()) {
  const std::size_t n = program.cohorts.size();
  cohorts_.reserve(n);
  backlogs_.reserve(n);
  for (std::size_t c = 0; c < n; ++c) cohorts_.emplace_back(program, static_cast<int>(c), conditions);
  for (std::size_t c = 0; c < n; ++c) backlogs_.emplace_back(cohorts_[c], mail_, kernels);
}

Activation Machine::activation(std::size_t c) const {
  const Cohort& cohort = program_->cohorts[c];
  const Call& call = cohort.calls[cursors_[c].call];
  const Body& body = cohort.bodies[call.body];
  return {body.instructions.data(), body.instructions.size(), call.instance, call.second_instance,
          cursors_[c].call_ordinal};
}

bool Machine::done(std::size_t c) const {
  return cursors_[c].call == program_->cohorts[c].calls.size() && backlogs_[c].empty();
}

void Machine::enqueue(std::size_t c) {
  if (cursors_[c].queued) return;
  cursors_[c].queued = true;
  runnable_.push_back(c);
}

void Machine::wake(std::size_t from, const Instruction& emitted) {
  if (emitted.op == Opcode::send) {
    enqueue(static_cast<std::size_t>(program_->channels[emitted.target].to));
    return;
  }
  for (std::int32_t c : program_->joins[emitted.target].cohorts) {
    if (static_cast<std::size_t>(c) != from) enqueue(static_cast<std::size_t>(c));
  }
}

void Machine::wake_emitted(std::size_t c) {
  for (const Instruction* in : backlogs_[c].take_emitted()) wake(c, *in);
}

// The message or meeting that the instruction takes part in, in issue order.
std::size_t Machine::number(std::size_t c, const Instruction& in) {
  if (in.op == Opcode::send) return sent_[in.target]++;
  if (in.op == Opcode::receive) return received_[in.target]++;
  return joined_[in.target][mail_.member(in.target, static_cast<int>(c))]++;
}

void Machine::finish(std::size_t c, const Instruction& in, const Ticks* end) {
  CohortState& s = cohorts_[c];
  std::copy_n(end, s.padded, s.tail(in.stream));
  if (in.record_slot != none16) std::copy_n(end, s.padded, s.slot(in.record_slot));
  if ((in.flags & flag_no_launch) == 0) s.host_offset += s.cohort->launch_ticks;
}

// Evaluates the send, receive or join at the cursor. False when peers lack.
bool Machine::step_over(std::size_t c, const Activation& a) {
  CohortState& s = cohorts_[c];
  Cursor& cursor = cursors_[c];
  const Instruction& in = a.code[cursor.pc];
  if (!cursor.counted) {
    cursor.k = number(c, in);
    cursor.counted = true;
    cursor.arrived = false;
  }
  Ticks* ready = s.scratch(0);
  Ticks* duration = s.scratch(2);
  Ticks* begin = s.scratch(3);
  Ticks* end = s.scratch(4);
  if (in.op == Opcode::receive) {
    const Ticks* arrival = mail_.arrival(in.target, cursor.k);
    if (arrival == nullptr) return false;
    kernels_->ready(s, in, ready);
    for (std::size_t i = 0; i < s.lanes; ++i) end[i] = std::max(ready[i], arrival[i]);
    mail_.take(in.target, cursor.k);
    finish(c, in, end);
    return true;
  }
  if (in.op == Opcode::join && cursor.arrived && mail_.meeting(in.target, cursor.k) == nullptr) return false;
  kernels_->ready(s, in, ready);
  kernels_->duration(s, in, s.rows_of(a, in), a.first_ordinal + cursor.pc, duration);
  if (in.op == Opcode::send) {
    for (std::size_t i = 0; i < s.padded; ++i) end[i] = ready[i] + duration[i];
    mail_.send(in.target, cursor.k, end);
    wake(c, in);
  } else {
    const std::size_t member = mail_.member(in.target, s.index);
    if (!cursor.arrived) {
      cursor.arrived = true;
      if (mail_.join(in.target, cursor.k, member, ready, duration)) wake(c, in);
    }
    const Meeting* meeting = mail_.meeting(in.target, cursor.k);
    if (meeting == nullptr) return false;
    mail_.resolve(in.target, *meeting, member, (in.flags & flag_largest) != 0, duration, begin, end);
    mail_.take_meeting(in.target, cursor.k);
  }
  finish(c, in, end);
  return true;
}

void Machine::advance(std::size_t c) {
  Cursor& cursor = cursors_[c];
  if (!backlogs_[c].empty()) {
    backlogs_[c].pump();
    wake_emitted(c);
    if (!backlogs_[c].empty()) return;
  }
  const std::size_t calls = program_->cohorts[c].calls.size();
  while (cursor.call < calls) {
    const Activation a = activation(c);
    while (true) {
      if (!cursor.counted) cursor.pc = kernels_->run_local(cohorts_[c], a, cursor.pc);
      if (cursor.pc == a.size) break;
      if (!step_over(c, a)) return;
      cursor.counted = false;
      ++cursor.pc;
    }
    cursor.call_ordinal += a.size;
    cursor.pc = 0;
    ++cursor.call;
  }
}

// Issues instructions past the obstacle until one gives something to a cohort that may wait for it.
void Machine::look_ahead(std::size_t c) {
  Cursor& cursor = cursors_[c];
  const std::size_t calls = program_->cohorts[c].calls.size();
  while (cursor.call < calls) {
    const Activation a = activation(c);
    for (; cursor.pc < a.size; ++cursor.pc) {
      const Instruction& in = a.code[cursor.pc];
      Issued issued{&in,
                    static_cast<std::int32_t>(cursor.call),
                    static_cast<std::int32_t>(cursor.pc),
                    (in.flags & flag_second_instance) != 0 ? a.second_instance : a.instance,
                    a.first_ordinal + cursor.pc,
                    cursor.k,
                    cursor.counted && cursor.arrived};
      if (!cursor.counted && (in.op == Opcode::send || in.op == Opcode::receive || in.op == Opcode::join)) {
        issued.k = number(c, in);
      }
      cursor.counted = false;
      backlogs_[c].issue(issued);
      wake_emitted(c);
      if (!runnable_.empty()) {
        ++cursor.pc;
        return;
      }
    }
    cursor.call_ordinal += a.size;
    cursor.pc = 0;
    ++cursor.call;
  }
}

std::string Machine::waiting(std::size_t c) const {
  const Cursor& cursor = cursors_[c];
  const Cohort& cohort = program_->cohorts[c];
  const Issued* open = backlogs_[c].obstacle();
  const std::size_t at = open != nullptr ? static_cast<std::size_t>(open->call) : cursor.call;
  if (at >= cohort.calls.size()) return fmt::format("cohort '{}' waits", cohort.name);
  const Call& call = cohort.calls[at];
  const std::size_t pc = open != nullptr ? static_cast<std::size_t>(open->pc) : cursor.pc;
  const std::size_t k = open != nullptr ? open->k : cursor.k;
  const Instruction& in = cohort.bodies[call.body].instructions[pc];
  std::string what;
  if (in.op == Opcode::receive) {
    const Channel& channel = program_->channels[in.target];
    what = fmt::format("message {} of channel '{}' from cohort '{}'", k, channel.name,
                       program_->cohorts[static_cast<std::size_t>(channel.from)].name);
  } else {
    what = fmt::format("meeting {} of join '{}' ({} of {} cohorts there)", k, program_->joins[in.target].name,
                       mail_.arrived(in.target, k), program_->joins[in.target].cohorts.size());
  }
  return fmt::format("cohort '{}' in call {} ('{}', microbatch {}) waits for {}", cohort.name, at,
                     cohort.bodies[call.body].name, call.instance, what);
}

Status Machine::run_step(std::uint64_t step, bool keep) {
  mail_.begin_step(keep);
  sent_.assign(program_->channels.size(), 0);
  received_.assign(program_->channels.size(), 0);
  joined_.clear();
  for (const JoinClass& join : program_->joins) joined_.emplace_back(join.cohorts.size(), 0);
  for (std::size_t c = 0; c < cohorts_.size(); ++c) {
    cohorts_[c].begin_step(step);
    cursors_[c] = Cursor{};
    enqueue(c);
  }
  while (true) {
    while (!runnable_.empty()) {
      const std::size_t c = runnable_.front();
      runnable_.pop_front();
      cursors_[c].queued = false;
      advance(c);
    }
    bool all_done = true;
    for (std::size_t c = 0; c < cohorts_.size() && runnable_.empty(); ++c) {
      if (done(c)) continue;
      all_done = false;
      look_ahead(c);
    }
    if (!runnable_.empty()) continue;
    if (all_done) return Unit{};
    std::string message = "ranks wait for each other for ever:";
    int named = 0;
    for (std::size_t c = 0; c < cohorts_.size(); ++c) {
      if (done(c)) continue;
      if (++named > 8) {
        message += " ...";
        break;
      }
      message += (named == 1 ? " " : "; ") + waiting(c);
    }
    return make_error(ErrorCode::invalid, message);
  }
}

}  // namespace stepcast::sim
