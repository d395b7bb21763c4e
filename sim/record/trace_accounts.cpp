#include "sim/record/trace_accounts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/engine/lockstep.h"
#include "sim/engine/sink.h"
#include "sim/record/dependencies.h"
#include "sim/record/messages.h"

namespace stepcast::sim {
namespace {

struct Home {
  std::size_t cohort = 0, lane = 0;
};

std::vector<Home> homes(const Program& program, const std::vector<RankId>& ranks) {
  std::vector<Home> by_rank(static_cast<std::size_t>(program.ranks));
  for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
    const std::vector<RankId>& lanes = program.cohorts[c].ranks;
    for (std::size_t l = 0; l < lanes.size(); ++l) by_rank[static_cast<std::size_t>(lanes[l].value)] = {c, l};
  }
  std::vector<Home> chosen;
  for (RankId rank : ranks) chosen.push_back(by_rank[static_cast<std::size_t>(rank.value)]);
  return chosen;
}

// Communication of chosen ranks that outlives their compute streams.
class CarriedSink : public Sink {
 public:
  CarriedSink(const std::vector<RankId>& ranks, const std::vector<Home>& home) : ranks_(ranks), home_(home) {}

  void on_instruction(const InstructionEvent& event) override {
    const Instruction& in = *event.instruction;
    if (in.op == Opcode::host_sync || (in.stream != Stream::dp && in.stream != Stream::copy)) return;
    for (std::size_t i = 0; i < home_.size(); ++i) {
      if (home_[i].cohort != static_cast<std::size_t>(event.cohort)) continue;
      const std::size_t l = home_[i].lane;
      ops.push_back({ranks_[i], event.cohort, event.call, event.pc, event.ready[l], event.begin[l], event.end[l]});
    }
  }
  void on_step_end(std::uint64_t, int, std::span<const Ticks>) override {}

  std::vector<CarriedOp> ops;

 private:
  const std::vector<RankId>& ranks_;
  const std::vector<Home>& home_;
};

class SentSink : public Sink {
 public:
  explicit SentSink(const Program& program) : messages(program), end(program.cohorts.size(), 0) {}

  void on_instruction(const InstructionEvent& event) override { messages.on_instruction(event); }
  void on_step_end(std::uint64_t, int cohort, std::span<const Ticks> lanes) override {
    if (!lanes.empty()) end[static_cast<std::size_t>(cohort)] = *std::max_element(lanes.begin(), lanes.end());
  }

  MessageLog messages;
  std::vector<Ticks> end;  // of the slowest lane, by cohort
};

}  // namespace

Result<TraceAccounts> trace_accounts(const Program& program, const Conditions& conditions, const Timeline& timeline) {
  const std::vector<Home> home = homes(program, timeline.ranks);
  TraceAccounts accounts;
  RunOptions run;
  const int warm = timeline.step > 0 && timeline.step_begin > 0 ? 1 : 0;
  run.first_step = timeline.step - static_cast<std::uint64_t>(warm);
  if (warm > 0) {
    CarriedSink carried(timeline.ranks, home);
    run.steps = warm;
    run.sink = &carried;
    const auto before = run_lockstep(program, conditions, run);
    if (!before) return before.errors();
    if (before->step_end.back() != timeline.step_begin) return accounts;
    for (const CarriedOp& op : carried.ops) {
      if (op.end > timeline.step_begin) accounts.carried.push_back(op);
    }
  }
  SentSink sink(program);
  run.steps = warm + 1;
  run.sink = &sink;
  const auto result = run_lockstep(program, conditions, run);
  if (!result) return result.errors();
  if (result->step_end.back() != timeline.step_end) return TraceAccounts{};
  for (const Home& h : home) accounts.stage_end.push_back(std::min(timeline.step_end, sink.end[h.cohort]));

  accounts.sent.assign(timeline.ops.size(), 0);
  std::map<std::pair<std::int32_t, std::uint16_t>, std::size_t> received;  // by rank and channel
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    const TimelineOp& op = timeline.ops[i];
    const Instruction& in = instruction_of(program, op);
    if (in.op != Opcode::receive) continue;
    const auto at = std::lower_bound(timeline.ranks.begin(), timeline.ranks.end(), op.rank);
    const std::size_t lane = home[static_cast<std::size_t>(at - timeline.ranks.begin())].lane;
    const std::size_t k = received[{op.rank.value, in.target}]++;
    accounts.sent[i] = std::clamp(sink.messages.begin(in.target, k, lane), op.ready, op.end);
  }
  return accounts;
}

}  // namespace stepcast::sim
