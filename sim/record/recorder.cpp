#include "sim/record/recorder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/engine/replay.h"
#include "sim/record/communication.h"
#include "sim/record/critical_path.h"
#include "sim/record/labels.h"
#include "sim/record/memory.h"
#include "sim/record/messages.h"
#include "sim/record/partition.h"
#include "sim/record/pieces.h"
#include "sim/record/statistics.h"

namespace stepcast::sim {
namespace {

// Keeps the step's communication that outlives the compute streams: parameter gathers and copies to the host.
class CarrySink : public Sink {
 public:
  CarrySink(const Program& program, const Labels& labels) : labels_(labels), cohorts_(program.cohorts.size()) {
    for (std::size_t c = 0; c < cohorts_.size(); ++c) cohorts_[c].cursor.assign(program.cohorts[c].ranks.size(), 0);
  }

  void on_instruction(const InstructionEvent& event) override {
    State& state = cohorts_[static_cast<std::size_t>(event.cohort)];
    const Instruction& in = *event.instruction;
    if (in.op == Opcode::compute && in.stream == Stream::compute) {
      state.cursor.assign(event.end.begin(), event.end.end());
    } else if (in.op != Opcode::host_sync && (in.stream == Stream::dp || in.stream == Stream::copy)) {
      OpenIntervals& stream = state.streams[static_cast<std::size_t>(in.stream)];
      stream.drop_until(state.cursor);
      stream.push().assign(labels_.of(event.cohort, event.call, event.pc), event.ready, event.begin, event.end);
    }
  }
  void on_step_end(std::uint64_t, int, std::span<const Ticks>) override {}

  StreamIntervals take(std::size_t cohort) { return std::move(cohorts_[cohort].streams); }

 private:
  struct State {
    std::vector<Ticks> cursor;
    StreamIntervals streams;
  };
  const Labels& labels_;
  std::vector<State> cohorts_;
};

class StepSink : public Sink {
 public:
  StepSink(const Program& program, const Labels& labels, const MessageLog& messages, Ticks step_begin)
      : partition(program, labels, messages, step_begin), communication(program, labels), memory(program) {}

  void on_instruction(const InstructionEvent& event) override {
    partition.on_instruction(event);
    communication.on_instruction(event, partition.message_begin());
    memory.on_instruction(event);
    rank_ops += static_cast<std::int64_t>(event.end.size());
  }
  void on_step_end(std::uint64_t, int cohort, std::span<const Ticks> end) override {
    partition.on_step_end(cohort, end);
  }

  PartitionRecorder partition;
  CommunicationRecorder communication;
  MemoryRecorder memory;
  std::int64_t rank_ops = 0;
};

// As many of the warm steps as there are steps before it.
int warm_steps(const RecordOptions& options) {
  return static_cast<int>(
      std::min<std::uint64_t>(options.step, static_cast<std::uint64_t>(std::max(0, options.warm_steps))));
}

// `watched`: the ranks whose pieces are wanted, filled with them; null: nobody's.
Result<StepReport> record(const Program& program, const Conditions& conditions, const RecordOptions& options,
                          std::vector<WatchedRank>* watched) {
  const Labels labels(program);
  const int warm = warm_steps(options);
  RunOptions run;
  run.first_step = options.step - static_cast<std::uint64_t>(warm);

  // The step's begin and what runs into it must be known before its first op is cut to the window.
  Ticks begin = 0;
  CarrySink carry(program, labels);
  if (warm > 0) {
    run.steps = warm;
    run.sink = &carry;
    const auto before = run_lockstep(program, conditions, run);
    if (!before) return before.errors();
    begin = before->step_end.back();
  }
  run.steps = warm + 1;
  MessageLog messages(program);
  std::optional<Replay> replay;
  if (options.critical_path) {
    auto recorded = Replay::run(program, conditions, run, &messages);
    if (!recorded) return recorded.errors();
    replay = std::move(*recorded);
  } else if (!program.channels.empty()) {
    run.sink = &messages;
    const auto sent = run_lockstep(program, conditions, run);
    if (!sent) return sent.errors();
  }
  StepSink sink(program, labels, messages, begin);
  if (warm > 0) {
    for (std::size_t c = 0; c < program.cohorts.size(); ++c) sink.partition.carry(static_cast<int>(c), carry.take(c));
  }
  if (watched != nullptr) {
    for (const WatchedRank& w : *watched) sink.partition.watch(w.rank);
  }
  run.sink = &sink;
  const auto result = run_lockstep(program, conditions, run);
  if (!result) return result.errors();
  sink.partition.finish(result->step_end.back());

  StepReport report;
  report.step = options.step;
  report.begin = begin;
  report.duration = result->step_end.back() - begin;
  report.by_rank = sink.partition.by_rank();
  report.categories = category_stats(report.by_rank);
  report.communication = sink.communication.stats(sink.partition);
  report.memory = sink.memory.peak(conditions, options.step, begin);
  report.executed_flops = sink.communication.executed_flops();
  report.rank_ops = sink.rank_ops;
  if (watched != nullptr) *watched = sink.partition.watched();
  if (!replay) return report;
  CriticalPath path = critical_path(program, labels, *replay, begin);
  report.critical_path = std::move(path.hops);
  for (std::size_t k = 0; k < report.categories.size(); ++k) report.categories[k].critical_path = path.by_category[k];
  return report;
}

}  // namespace

Result<StepReport> record_step(const Program& program, const Conditions& conditions, const RecordOptions& options) {
  return record(program, conditions, options, nullptr);
}

Result<std::vector<WatchedRank>> record_pieces(const Program& program, const Conditions& conditions,
                                               const RecordOptions& options, const std::vector<RankId>& ranks) {
  RecordOptions plain = options;
  plain.critical_path = false;
  std::vector<WatchedRank> watched;
  for (const RankId rank : ranks) watched.push_back({rank, {}});
  const auto report = record(program, conditions, plain, &watched);
  if (!report) return report.errors();
  return watched;
}

}  // namespace stepcast::sim
