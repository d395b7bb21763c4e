#include "sim/engine/machine.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <oneapi/tbb/parallel_for.h>

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
  const auto ranks = static_cast<std::size_t>(program.ranks);
  for (const auto& factors : {conditions.slow_by_rank, conditions.link_slow_by_rank}) {
    if (!factors.empty() && factors.size() != ranks) {
      fail(fmt::format("{} slow factors for {} ranks", factors.size(), program.ranks));
    }
    for (float slow : factors) {
      if (std::isfinite(slow) && slow > 0) continue;
      fail(fmt::format("a slow factor of {}; it must be above 0", slow));
      break;
    }
  }
  if (!conditions.stall_by_rank.empty() && conditions.stall_by_rank.size() != ranks) {
    fail(fmt::format("{} stalls for {} ranks", conditions.stall_by_rank.size(), program.ranks));
  }
  for (Ticks stall : conditions.stall_by_rank) {
    if (stall >= 0) continue;
    fail(fmt::format("a stall of {} ticks; it must not be negative", stall));
    break;
  }
  if (program.loads > 0 && conditions.loads == nullptr) {
    fail(fmt::format("the program has {} routing loads and the conditions have none", program.loads));
  }
  return errors;
}

Machine::Machine(const Program& program, const Conditions& conditions, const Kernels& kernels, int threads)
    : program_(&program), kernels_(&kernels), mail_(program), cursors_(program.cohorts.size()), threads_(threads) {
  find_components();
  const std::size_t n = program.cohorts.size();
  cohorts_.reserve(n);
  backlogs_.reserve(n);
  for (std::size_t c = 0; c < n; ++c) cohorts_.emplace_back(program, static_cast<int>(c), conditions);
  for (std::size_t c = 0; c < n; ++c) backlogs_.emplace_back(cohorts_[c], mail_, kernels);
}

// Cohorts joined by channels; one component in all on one thread.
void Machine::find_components() {
  const std::size_t n = program_->cohorts.size();
  component_.assign(n, 0);
  std::size_t count = 1;
  if (threads_ > 1) {
    std::vector<std::size_t> root(n);
    for (std::size_t c = 0; c < n; ++c) root[c] = c;
    const auto find = [&](std::size_t c) {
      while (root[c] != c) c = root[c] = root[root[c]];
      return c;
    };
    for (const Channel& channel : program_->channels) {
      const std::size_t a = find(static_cast<std::size_t>(channel.from));
      const std::size_t b = find(static_cast<std::size_t>(channel.to));
      root[std::max(a, b)] = std::min(a, b);
    }
    count = 0;
    for (std::size_t c = 0; c < n; ++c) component_[c] = find(c) == c ? count++ : component_[find(c)];
  }
  runnable_.resize(count);
  std::vector<std::size_t> of_channel;
  for (const Channel& channel : program_->channels)
    of_channel.push_back(component_[static_cast<std::size_t>(channel.to)]);
  mail_.set_components(std::move(of_channel), count);
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
  runnable_[component_[c]].push_back(c);
}

bool Machine::idle() const {
  return std::all_of(runnable_.begin(), runnable_.end(), [](const auto& queue) { return queue.empty(); });
}

void Machine::drain(std::size_t component) {
  auto& queue = runnable_[component];
  while (!queue.empty()) {
    const std::size_t c = queue.front();
    queue.pop_front();
    cursors_[c].queued = false;
    advance(c);
  }
}

// Components run until all of them wait for joins; these are then handed in one after the other.
void Machine::run_components() {
  do {
    deferring_ = true;
    tbb::parallel_for(
        std::size_t{0}, runnable_.size(), [this](std::size_t k) { drain(k); }, tbb::simple_partitioner());
    deferring_ = false;
  } while (hand_in_joins() && !idle());
}

bool Machine::hand_in_joins() {
  bool any = false;
  for (std::size_t c = 0; c < cohorts_.size(); ++c) {
    Cursor& cursor = cursors_[c];
    if (!cursor.counted || cursor.arrived || done(c)) continue;
    const Activation a = activation(c);
    const Instruction& in = a.code[cursor.pc];
    if (in.op != Opcode::join) continue;
    arrive(c, a);
    enqueue(c);
    any = true;
  }
  return any;
}

// The cohort's part of the join at its cursor.
void Machine::arrive(std::size_t c, const Activation& a) {
  CohortState& s = cohorts_[c];
  Cursor& cursor = cursors_[c];
  const Instruction& in = a.code[cursor.pc];
  Ticks* ready = s.scratch(0);
  Ticks* duration = s.scratch(2);
  kernels_->ready(s, in, ready);
  kernels_->duration(s, in, s.rows_of(a, in), a.first_ordinal + cursor.pc, duration);
  cursor.arrived = true;
  if (mail_.join(in.target, cursor.k, mail_.member(in.target, s.index), ready, duration)) wake(c, in);
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
  if (in.op == Opcode::join) {
    if (!cursor.arrived) {
      if (deferring_) return false;
      arrive(c, a);
    }
    if (mail_.meeting(in.target, cursor.k) == nullptr) return false;
  }
  kernels_->ready(s, in, ready);
  kernels_->duration(s, in, s.rows_of(a, in), a.first_ordinal + cursor.pc, duration);
  if (in.op == Opcode::send) {
    for (std::size_t i = 0; i < s.padded; ++i) end[i] = ready[i] + duration[i];
    s.add_delays(in, a.first_ordinal + cursor.pc, end);
    mail_.send(in.target, cursor.k, end);
    wake(c, in);
  } else {
    const std::size_t member = mail_.member(in.target, s.index);
    const Meeting* meeting = mail_.meeting(in.target, cursor.k);
    mail_.resolve(in.target, *meeting, member, (in.flags & flag_largest) != 0, duration, begin, end);
    s.add_delays(in, a.first_ordinal + cursor.pc, end);
    if (!deferring_) mail_.take_meeting(in.target, cursor.k);  // else kept to the step's end: members share it
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
      if (!idle()) {
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
  if (runnable_.size() > 1) run_components();
  while (true) {
    for (std::size_t k = 0; k < runnable_.size(); ++k) drain(k);
    if (!idle()) continue;
    bool all_done = true;
    for (std::size_t c = 0; c < cohorts_.size() && idle(); ++c) {
      if (done(c)) continue;
      all_done = false;
      look_ahead(c);
    }
    if (!idle()) continue;
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
