#include "sim/engine/replay.h"

#include <algorithm>

#include <fmt/core.h>

#include "sim/engine/machine.h"

namespace stepcast::sim {

using Place = Replay::Place;

// What a recorded step leaves behind.
struct StepRecord {
  // All times of a cohort at one point of its step.
  struct Checkpoint {
    LaneBuffer<Ticks> times;
    Ticks host_offset = 0;
    std::uint64_t ordinal = 0;  // of the next instruction
  };

  StepRecord(const Program& p, const Conditions& c) : program(&p), conditions(c), mail(p) {}

  const Program* program;
  Conditions conditions;
  std::uint64_t step = 0;
  RunResult result;
  Mail mail;
  std::size_t stride = 1;                        // calls from one checkpoint to the next
  std::vector<std::vector<Checkpoint>> at_call;  // by cohort and call / stride
  std::vector<std::vector<Place>> sends, receives;
  std::vector<std::vector<std::vector<Place>>> joins;  // by class and member
};

namespace {

void save(const CohortState& s, std::uint64_t ordinal, StepRecord::Checkpoint& out) {
  out.times = LaneBuffer<Ticks>(s.time_count());
  std::copy_n(s.times.data(), s.time_count(), out.times.data());
  out.host_offset = s.host_offset;
  out.ordinal = ordinal;
}

void restore(const StepRecord::Checkpoint& from, CohortState& s) {
  std::copy_n(from.times.data(), s.time_count(), s.times.data());
  s.host_offset = from.host_offset;
}

std::size_t index_of(const std::vector<Place>& places, const Place& place) {
  const auto it = std::lower_bound(places.begin(), places.end(), place);
  STEPCAST_ASSERT(it != places.end() && *it == place);
  return static_cast<std::size_t>(it - places.begin());
}

void list_places(StepRecord& r) {
  const Program& p = *r.program;
  r.sends.resize(p.channels.size());
  r.receives.resize(p.channels.size());
  for (const JoinClass& join : p.joins) r.joins.emplace_back(join.cohorts.size());
  for (std::size_t c = 0; c < p.cohorts.size(); ++c) {
    for (std::size_t call = 0; call < p.cohorts[c].calls.size(); ++call) {
      const Body& body = p.cohorts[c].bodies[p.cohorts[c].calls[call].body];
      for (std::size_t pc = 0; pc < body.instructions.size(); ++pc) {
        const Instruction& in = body.instructions[pc];
        const Place place{static_cast<std::int32_t>(c), static_cast<std::int32_t>(call), static_cast<std::int32_t>(pc)};
        if (in.op == Opcode::send) r.sends[in.target].push_back(place);
        if (in.op == Opcode::receive) r.receives[in.target].push_back(place);
        if (in.op == Opcode::join) {
          r.joins[in.target][r.mail.member(in.target, static_cast<int>(c))].push_back(place);
        }
      }
    }
  }
}

// Evaluates calls in issue order with all messages known, telling a sink.
class Recorder {
 public:
  Recorder(const StepRecord& record, CohortState& state, Sink* sink)
      : record_(&record), state_(&state), sink_(sink), host_(state.lanes), no_host_(state.lanes, 0) {}

  void call(std::int32_t call_index, std::uint64_t first_ordinal) {
    const Call& call = state_->cohort->calls[static_cast<std::size_t>(call_index)];
    const Body& body = state_->cohort->bodies[call.body];
    const Activation a{body.instructions.data(), body.instructions.size(), call.instance, call.second_instance,
                       first_ordinal};
    for (std::size_t pc = 0; pc < a.size; ++pc) {
      instruction(a, {state_->index, call_index, static_cast<std::int32_t>(pc)});
    }
  }

 private:
  void instruction(const Activation& a, const Place& place) {
    CohortState& s = *state_;
    const Instruction& in = a.code[place.pc];
    const std::uint64_t ordinal = a.first_ordinal + static_cast<std::uint64_t>(place.pc);
    const float* rows = s.rows_of(a, in);
    const bool sync = in.op == Opcode::host_sync;
    const bool launched = !sync && (in.flags & flag_no_launch) == 0;
    Ticks* ready = s.scratch(0);
    Ticks* begin = s.scratch(3);
    Ticks* end = s.scratch(4);
    const Ticks issued = s.host_offset + (launched ? s.cohort->launch_ticks : 0);
    for (std::size_t i = 0; i < s.lanes; ++i) host_[i] = s.host()[i] + issued;
    kernels().ready(s, in, ready);
    std::copy_n(ready, s.padded, begin);
    evaluate(in, place, rows, ordinal, begin, end);
    if (launched) s.host_offset += s.cohort->launch_ticks;
    if (sync) {
      std::copy_n(end, s.padded, s.host());
      s.host_offset = 0;
    } else {
      std::copy_n(end, s.padded, s.tail(in.stream));
    }
    if (in.record_slot != none16) std::copy_n(end, s.padded, s.slot(in.record_slot));
    if (sink_ == nullptr) return;
    InstructionEvent event;
    event.step = record_->step;
    event.cohort = s.index;
    event.call = place.call;
    event.pc = place.pc;
    event.ordinal = ordinal;
    event.instruction = &in;
    event.work = &s.cohort->works[in.work];
    event.instance = (in.flags & flag_second_instance) != 0 ? a.second_instance : a.instance;
    event.host = launched || sync ? std::span<const Ticks>(host_) : std::span<const Ticks>(no_host_);
    event.ready = {ready, s.lanes};
    event.begin = {begin, s.lanes};
    event.end = {end, s.lanes};
    if (rows != nullptr) event.rows = {rows, s.lanes};
    sink_->on_instruction(event);
  }

  // `begin` comes in as the ready times.
  void evaluate(const Instruction& in, const Place& place, const float* rows, std::uint64_t ordinal, Ticks* begin,
                Ticks* end) {
    CohortState& s = *state_;
    const Mail& mail = record_->mail;
    Ticks* duration = s.scratch(2);
    if (in.op == Opcode::host_sync) {
      for (std::size_t i = 0; i < s.padded; ++i) end[i] = begin[i] + s.cohort->sync_ticks;
      return;
    }
    if (in.op == Opcode::receive) {
      const Ticks* arrival = mail.arrival(in.target, index_of(record_->receives[in.target], place));
      for (std::size_t i = 0; i < s.lanes; ++i) end[i] = std::max(begin[i], arrival[i]);
      return;
    }
    kernels().duration(s, in, rows, ordinal, duration);
    const bool largest = (in.flags & flag_largest) != 0;
    if (in.op == Opcode::join) {
      const std::size_t member = mail.member(in.target, s.index);
      const Meeting* meeting = mail.meeting(in.target, index_of(record_->joins[in.target][member], place));
      mail.resolve(in.target, *meeting, member, largest, duration, begin, end);
      s.add_delays(in, ordinal, end);
      return;
    }
    if (in.op == Opcode::collective) {
      const GroupPlan& plan = s.groups[in.target];
      kernels().group_max(plan, s.padded, begin, begin);
      if (largest) kernels().group_max(plan, s.padded, duration, duration);
    }
    for (std::size_t i = 0; i < s.padded; ++i) end[i] = begin[i] + duration[i];
    s.add_delays(in, ordinal, end);
  }

  const StepRecord* record_;
  CohortState* state_;
  Sink* sink_;
  std::vector<Ticks> host_, no_host_;
};

// Second evaluation of the last step, from the times at its begin; checks that it ends as the first did.
void record_cohort(StepRecord& record, CohortState& state, const StepRecord::Checkpoint& begin, Sink* sink,
                   bool checkpoints) {
  std::vector<Ticks> expected(state.lanes), end(state.lanes);
  state.step_end(expected);
  restore(begin, state);
  state.begin_host(record.step);
  Recorder recorder(record, state, sink);
  std::uint64_t ordinal = 0;
  for (std::size_t call = 0; call < state.cohort->calls.size(); ++call) {
    if (checkpoints && call % record.stride == 0) {
      save(state, ordinal, record.at_call[static_cast<std::size_t>(state.index)].emplace_back());
    }
    recorder.call(static_cast<std::int32_t>(call), ordinal);
    ordinal += state.cohort->bodies[state.cohort->calls[call].body].instructions.size();
  }
  state.step_end(end);
  STEPCAST_ASSERT(end == expected);
  if (sink != nullptr) sink->on_step_end(record.step, state.index, end);
}

// All checkpoints together stay within this; calls between them are evaluated again from the one before.
constexpr std::size_t checkpoint_budget = std::size_t{128} << 20;

std::size_t checkpoint_stride(const std::vector<CohortState>& cohorts) {
  std::size_t all = 0;
  for (const CohortState& s : cohorts) all += s.time_count() * sizeof(Ticks) * s.cohort->calls.size();
  return 1 + all / checkpoint_budget;
}

Result<std::shared_ptr<StepRecord>> record_run(const Program& program, const Conditions& conditions,
                                               const RunOptions& options, Sink* sink, bool checkpoints) {
  if (Errors errors = check_run(program, conditions, options); !errors.empty()) return errors;
  auto record = std::make_shared<StepRecord>(program, conditions);
  Machine machine(program, conditions, kernels());
  std::vector<StepRecord::Checkpoint> begin(program.cohorts.size());
  for (int i = 0; i < options.steps; ++i) {
    record->step = options.first_step + static_cast<std::uint64_t>(i);
    const bool last = i + 1 == options.steps;
    for (std::size_t c = 0; last && c < begin.size(); ++c) {
      save(machine.cohorts()[c], 0, begin[c]);
    }
    const Status status = machine.run_step(record->step, last);
    if (!status) return status.errors();
    add_step(program, machine, record->result);
  }
  record->mail = std::move(machine.mail());
  list_places(*record);
  record->at_call.resize(program.cohorts.size());
  record->stride = checkpoint_stride(machine.cohorts());
  for (std::size_t c = 0; c < program.cohorts.size() && (checkpoints || sink != nullptr); ++c) {
    record_cohort(*record, machine.cohorts()[c], begin[c], sink, checkpoints);
  }
  return record;
}

}  // namespace

Result<Replay> Replay::run(const Program& program, const Conditions& conditions, const RunOptions& options,
                           Sink* sink) {
  auto record = record_run(program, conditions, options, sink, true);
  if (!record) return record.errors();
  Replay replay;
  replay.record_ = *record;
  return replay;
}

Result<RunResult> run_recorded(const Program& program, const Conditions& conditions, const RunOptions& options) {
  auto record = record_run(program, conditions, options, options.sink, false);
  if (!record) return record.errors();
  return std::move((*record)->result);
}

const RunResult& Replay::result() const { return record_->result; }

Status Replay::reevaluate(int cohort, int call, Sink& sink) const {
  const auto c = static_cast<std::size_t>(cohort);
  const auto at = static_cast<std::size_t>(call);
  if (cohort < 0 || c >= record_->at_call.size() || call < 0 || at >= record_->program->cohorts[c].calls.size()) {
    return make_error(ErrorCode::invalid, fmt::format("no call {} of cohort {} in the recorded step", call, cohort));
  }
  CohortState state(*record_->program, cohort, record_->conditions);
  state.begin_step(record_->step);  // host and times are then the checkpoint's
  const std::size_t from = at / record_->stride;
  restore(record_->at_call[c][from], state);
  std::uint64_t ordinal = record_->at_call[c][from].ordinal;
  Recorder silent(*record_, state, nullptr);
  for (std::size_t before = from * record_->stride; before < at; ++before) {
    silent.call(static_cast<std::int32_t>(before), ordinal);
    ordinal += state.cohort->bodies[state.cohort->calls[before].body].instructions.size();
  }
  Recorder(*record_, state, &sink).call(call, ordinal);
  return Unit{};
}

std::span<const Place> Replay::sends(int channel) const { return record_->sends[static_cast<std::size_t>(channel)]; }

std::span<const Place> Replay::receives(int channel) const {
  return record_->receives[static_cast<std::size_t>(channel)];
}

std::span<const Place> Replay::joins(int join, int member) const {
  return record_->joins[static_cast<std::size_t>(join)][static_cast<std::size_t>(member)];
}

Place Replay::sender_of(const Place& receive) const {
  const Cohort& cohort = record_->program->cohorts[static_cast<std::size_t>(receive.cohort)];
  const Call& call = cohort.calls[static_cast<std::size_t>(receive.call)];
  const Instruction& in = cohort.bodies[call.body].instructions[static_cast<std::size_t>(receive.pc)];
  STEPCAST_ASSERT(in.op == Opcode::receive);
  return record_->sends[in.target][index_of(record_->receives[in.target], receive)];
}

std::vector<Place> Replay::members_of(const Place& join) const {
  const Cohort& cohort = record_->program->cohorts[static_cast<std::size_t>(join.cohort)];
  const Call& call = cohort.calls[static_cast<std::size_t>(join.call)];
  const Instruction& in = cohort.bodies[call.body].instructions[static_cast<std::size_t>(join.pc)];
  STEPCAST_ASSERT(in.op == Opcode::join);
  const auto& members = record_->joins[in.target];
  const std::size_t k = index_of(members[record_->mail.member(in.target, join.cohort)], join);
  std::vector<Place> places;
  for (const auto& member : members) places.push_back(member[k]);
  return places;
}

}  // namespace stepcast::sim
