#include "sim/engine/contended.h"

#include <algorithm>
#include <deque>
#include <queue>

#include "sim/engine/backlog.h"
#include "sim/engine/cohort_state.h"
#include "sim/engine/machine.h"
#include "sim/engine/mail.h"
#include "sim/engine/split.h"

namespace stepcast::sim {
namespace {

// Whether something that others can meet does not follow the compute stream.
bool issues_ahead(const Cohort& cohort) {
  for (const Body& body : cohort.bodies) {
    for (const Instruction& in : body.instructions) {
      const bool meets = in.op == Opcode::send || in.op == Opcode::join ||
                         (in.op == Opcode::collective && (in.flags & flag_shared) != 0);
      const bool follows = in.stream == Stream::compute || (in.wait_streams & bit(Stream::compute)) != 0;
      if (meets && !follows) return true;
    }
  }
  return false;
}

// By body and place: the first instruction from there on that is not evaluated by the unit alone.
std::vector<std::vector<std::uint32_t>> local_ends(const Cohort& cohort) {
  std::vector<std::vector<std::uint32_t>> ends;
  for (const Body& body : cohort.bodies) {
    auto& of_body = ends.emplace_back(body.instructions.size());
    auto next = static_cast<std::uint32_t>(body.instructions.size());
    for (std::size_t pc = body.instructions.size(); pc-- > 0;) {
      const Instruction& in = body.instructions[pc];
      const bool alone = in.op == Opcode::compute || in.op == Opcode::host_sync ||
                         (in.op == Opcode::collective && (in.flags & flag_shared) == 0);
      if (!alone) next = static_cast<std::uint32_t>(pc);
      of_body[pc] = next;
    }
  }
  return ends;
}

class ContendedMachine final : public FlowPort {
 public:
  ContendedMachine(const Program& original, const SplitProgram& split, const Conditions& conditions,
                   const RunOptions& options, Delays& delays)
      : original_(original),
        split_(split),
        program_(split.program),
        options_(options),
        delays_(delays),
        mail_(split.program),
        flows_(original.link_capacity, &original.flow_rule),
        cursors_(split.program.cohorts.size()),
        sent_(program_.channels.size(), 0),
        received_(program_.channels.size(), 0) {
    const std::size_t n = program_.cohorts.size();
    cohorts_.reserve(n);
    backlogs_.reserve(n);
    for (std::size_t c = 0; c < n; ++c) {
      cohorts_.emplace_back(program_, static_cast<int>(c), conditions);
      local_ends_.push_back(local_ends(program_.cohorts[c]));
      ahead_.push_back(issues_ahead(program_.cohorts[c]));
    }
    for (std::size_t c = 0; c < n; ++c) backlogs_.emplace_back(cohorts_[c], mail_, kernels(), this);
    for (const JoinClass& join : program_.joins) joined_.emplace_back(join.cohorts.size(), 0);
    step_end_.assign(static_cast<std::size_t>(options.steps), 0);
    mail_.begin_step(false);
  }

  // False when units wait for each other for ever.
  bool run() {
    for (std::size_t c = 0; c < cohorts_.size(); ++c) {
      cohorts_[c].begin_step(options_.first_step);
      enqueue(c);
    }
    drain();
    while (true) {
      const Ticks begin = arrivals_.empty() ? FlowSet::never : arrivals_.top().begin;
      const Ticks now = std::min(begin, flows_.next());
      if (now == FlowSet::never) break;
      at(now);
    }
    return std::all_of(cursors_.begin(), cursors_.end(), [&](const Cursor& c) { return c.step == options_.steps; });
  }

  [[nodiscard]] const std::vector<CohortState>& cohorts() const { return cohorts_; }
  [[nodiscard]] const std::vector<Ticks>& step_end() const { return step_end_; }
  [[nodiscard]] const FlowStats& stats() const { return flows_.stats(); }

  [[nodiscard]] std::uint64_t key(int cohort, std::uint64_t ordinal, bool spans) const override {
    const SplitProgram::Origin& origin = split_.origins[static_cast<std::size_t>(cohort)];
    const auto step = static_cast<std::uint64_t>(cursors_[static_cast<std::size_t>(cohort)].step);
    return flow_key(step, origin.cohort, spans ? whole_cohort : static_cast<std::uint64_t>(origin.unit), ordinal);
  }

  void post(int cohort, std::size_t node, const Issued&, const FlowRequest& request) override {
    add(request, static_cast<std::size_t>(split_.origins[static_cast<std::size_t>(cohort)].unit),
        {static_cast<std::size_t>(cohort), node, false, 0, {}, {}});
  }
  void post_join(std::size_t join, std::size_t k, const FlowRequest& request) override {
    add(request, 0, {join, k, true, 0, {}, {}});
  }
  void note_delay(int cohort, std::uint64_t ordinal, Ticks delay) override {
    const SplitProgram::Origin& origin = split_.origins[static_cast<std::size_t>(cohort)];
    const auto step = static_cast<std::uint64_t>(cursors_[static_cast<std::size_t>(cohort)].step);
    delays_.add(options_.first_step + step, origin.cohort, origin.unit, ordinal, delay);
  }

 private:
  struct Cursor {
    int step = 0;
    std::size_t call = 0, pc = 0;
    std::uint64_t call_ordinal = 0;
    bool queued = false;
  };
  struct Open {
    std::size_t cohort_or_join, node_or_k;
    bool join;
    Ticks alone_end;
    FlowDemand demand;
    std::vector<float> volume;  // what `demand` points to
  };
  struct Arrival {
    Ticks begin;
    std::uint64_t key;
    std::uint32_t open;
    bool operator>(const Arrival& o) const { return begin != o.begin ? begin > o.begin : key > o.key; }
  };

  void add(const FlowRequest& request, std::size_t unit, Open open) {
    const Ticks work = request.end - request.begin;
    open.alone_end = request.end;
    open.demand.follow(original_.patterns[static_cast<std::size_t>(request.pattern)], unit);
    open.demand.nic = port_share(request.ports.nic, work);
    open.demand.nvlink = port_share(request.ports.nvlink, work);
    if (request.use != nullptr && open.demand.cuttable()) {
      open.volume = lane_volumes(*request.use, request.rows, request.lanes);
      open.demand.rows_leave = request.use->rows_leave;
    }
    std::uint32_t id = static_cast<std::uint32_t>(open_.size());
    if (free_.empty()) {
      open_.push_back(std::move(open));
    } else {
      id = free_.back();
      free_.pop_back();
      open_[id] = std::move(open);
    }
    open_[id].demand.volume = &open_[id].volume;
    arrivals_.push({request.begin, request.key, id});
  }

  // Everything that happens at this time: ends before begins, by key, until nothing more does.
  void at(Ticks now) {
    bool more = true;
    while (more) {
      more = false;
      std::uint32_t id = 0;
      while (flows_.take(now, id)) {
        end(id, now);
        more = true;
      }
      while (!arrivals_.empty() && arrivals_.top().begin <= now) {
        const Arrival arrival = arrivals_.top();
        arrivals_.pop();
        const Open& open = open_[arrival.open];
        flows_.start(arrival.begin, open.alone_end - arrival.begin, arrival.key, arrival.open, open.demand);
        more = true;
      }
      drain();
    }
  }

  void end(std::uint32_t id, Ticks now) {
    const Open& open = open_[id];  // its place is taken anew only by what is drained later
    free_.push_back(id);
    const Ticks delay = std::max<Ticks>(0, now - open.alone_end);
    if (!open.join) {
      backlogs_[open.cohort_or_join].end_flow(open.node_or_k, delay);
      enqueue(open.cohort_or_join);
      return;
    }
    Meeting& meeting = mail_.meeting_at(open.cohort_or_join, open.node_or_k);
    meeting.held = false;
    meeting.delay = delay;
    for (const std::int32_t c : program_.joins[open.cohort_or_join].cohorts) enqueue(static_cast<std::size_t>(c));
  }

  void enqueue(std::size_t c) {
    if (cursors_[c].queued) return;
    cursors_[c].queued = true;
    runnable_.push_back(c);
  }

  void drain() {
    while (!runnable_.empty()) {
      const std::size_t c = runnable_.front();
      runnable_.pop_front();
      cursors_[c].queued = false;
      advance(c);
    }
  }

  void wake_emitted(std::size_t c) {
    for (const Instruction* in : backlogs_[c].take_emitted()) {
      if (in->op == Opcode::send) {
        enqueue(static_cast<std::size_t>(program_.channels[in->target].to));
        continue;
      }
      for (const std::int32_t other : program_.joins[in->target].cohorts) {
        if (static_cast<std::size_t>(other) != c) enqueue(static_cast<std::size_t>(other));
      }
    }
  }

  std::size_t number(std::size_t c, const Instruction& in) {
    if (in.op == Opcode::send) return sent_[in.target]++;
    if (in.op == Opcode::receive) return received_[in.target]++;
    if (in.op == Opcode::join) return joined_[in.target][mail_.member(in.target, static_cast<int>(c))]++;
    return 0;
  }

  void advance(std::size_t c) {
    Cursor& cursor = cursors_[c];
    backlogs_[c].pump();
    wake_emitted(c);
    while (cursor.step < options_.steps) {
      if (!advance_step(c) || !backlogs_[c].empty()) return;
      end_step(c);
    }
  }

  // Issues the rest of the step; false when the unit has to wait before its end.
  bool advance_step(std::size_t c) {
    Cursor& cursor = cursors_[c];
    Backlog& backlog = backlogs_[c];
    const Cohort& cohort = program_.cohorts[c];
    for (; cursor.call < cohort.calls.size(); ++cursor.call) {
      const Call& call = cohort.calls[cursor.call];
      const Body& body = cohort.bodies[call.body];
      Activation a{body.instructions.data(), body.instructions.size(), call.instance, call.second_instance,
                   cursor.call_ordinal};
      while (cursor.pc < body.instructions.size()) {
        if (!ahead_[c] && backlog.compute_open()) return false;
        const Instruction* code = body.instructions.data();
        a.size = local_ends_[c][call.body][cursor.pc];
        if (!backlog.empty()) {
          std::size_t q = cursor.pc;
          while (q < a.size && !backlog.blocks(code[q])) ++q;
          a.size = q;
        }
        if (a.size > cursor.pc) {
          cursor.pc = kernels().run_local(cohorts_[c], a, cursor.pc);
          continue;
        }
        const Instruction& in = code[cursor.pc];
        backlog.issue({&in, static_cast<std::int32_t>(cursor.call), static_cast<std::int32_t>(cursor.pc),
                       (in.flags & flag_second_instance) != 0 ? call.second_instance : call.instance,
                       cursor.call_ordinal + cursor.pc, number(c, in), false});
        wake_emitted(c);
        ++cursor.pc;
      }
      cursor.call_ordinal += body.instructions.size();
      cursor.pc = 0;
    }
    return true;
  }

  void end_step(std::size_t c) {
    Cursor& cursor = cursors_[c];
    std::vector<Ticks> end(cohorts_[c].lanes);
    cohorts_[c].step_end(end);
    Ticks& last = step_end_[static_cast<std::size_t>(cursor.step)];
    last = std::max(last, *std::max_element(end.begin(), end.end()));
    ++cursor.step;
    cursor.call = cursor.pc = 0;
    cursor.call_ordinal = 0;
    if (cursor.step == options_.steps) return;
    cohorts_[c].begin_step(options_.first_step + static_cast<std::uint64_t>(cursor.step));
  }

  const Program& original_;
  const SplitProgram& split_;
  const Program& program_;
  const RunOptions& options_;
  Delays& delays_;
  Mail mail_;
  FlowSet flows_;
  std::vector<CohortState> cohorts_;
  std::vector<Backlog> backlogs_;
  std::vector<std::vector<std::vector<std::uint32_t>>> local_ends_;
  std::vector<bool> ahead_;
  std::vector<Cursor> cursors_;
  std::vector<std::size_t> sent_, received_;
  std::vector<std::vector<std::size_t>> joined_;
  std::vector<Ticks> step_end_;
  std::deque<Open> open_;  // flows borrow from it
  std::vector<std::uint32_t> free_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::deque<std::size_t> runnable_;
};

}  // namespace

Result<ContendedRun> run_contended(const Program& program, const Conditions& conditions, const RunOptions& options) {
  if (Errors errors = check_run(program, conditions, options); !errors.empty()) return errors;
  if (!separable(program)) {
    return make_error(ErrorCode::unsupported, "units of a cohort that send to several units of another");
  }
  const SplitProgram split = split_units(program);
  const UnitLoads loads(program, split, conditions.loads);
  Conditions own = conditions;
  own.delays = nullptr;
  if (conditions.loads != nullptr) own.loads = &loads;
  ContendedRun run;
  run.delays = Delays(program, options.first_step, options.steps);
  ContendedMachine machine(program, split, own, options, run.delays);
  if (!machine.run()) {
    // Whoever waits, waits without contention too, and is named there.
    own.loads = conditions.loads;
    const auto lockstep = run_silent(program, own, options, kernels());
    if (!lockstep) return lockstep.errors();
    return make_error(ErrorCode::invalid, "ranks wait for each other for ever");
  }
  run.delays.sort();
  run.flows = machine.stats();
  run.result.step_end = machine.step_end();
  run.result.rank_ops = program.rank_ops() * options.steps;
  run.result.rank_end.resize(static_cast<std::size_t>(program.ranks));
  std::vector<Ticks> end;
  for (const CohortState& cohort : machine.cohorts()) {
    end.resize(cohort.lanes);
    cohort.step_end(end);
    for (std::size_t i = 0; i < cohort.lanes; ++i) {
      run.result.rank_end[static_cast<std::size_t>(cohort.cohort->ranks[i].value)] = end[i];
    }
  }
  return run;
}

}  // namespace stepcast::sim
