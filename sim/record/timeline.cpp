// Collects the ops of chosen ranks while their step is evaluated again.

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "sim/record/recorder.h"

namespace stepcast::sim {
namespace {

class TimelineSink : public Sink {
 public:
  struct Chosen {
    std::size_t cohort, lane;
    std::vector<TimelineOp> ops;
  };

  TimelineSink(const Program& program, const std::vector<RankId>& ranks) : by_cohort_(program.cohorts.size()) {
    chosen.reserve(ranks.size());
    std::vector<std::pair<std::size_t, std::size_t>> home(static_cast<std::size_t>(program.ranks));
    for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
      const std::vector<RankId>& lanes = program.cohorts[c].ranks;
      for (std::size_t l = 0; l < lanes.size(); ++l) home[static_cast<std::size_t>(lanes[l].value)] = {c, l};
    }
    for (RankId rank : ranks) {
      const auto [cohort, lane] = home[static_cast<std::size_t>(rank.value)];
      by_cohort_[cohort].push_back(chosen.size());
      chosen.push_back({cohort, lane, {}});
    }
  }

  void on_instruction(const InstructionEvent& event) override {
    for (std::size_t i : by_cohort_[static_cast<std::size_t>(event.cohort)]) {
      Chosen& c = chosen[i];
      TimelineOp& op = c.ops.emplace_back();
      op.cohort = event.cohort;
      op.call = event.call;
      op.pc = event.pc;
      op.instance = event.instance;
      op.ordinal = event.ordinal;
      if (!event.rows.empty()) op.rows = event.rows[c.lane];
      op.host = event.host[c.lane];
      op.ready = event.ready[c.lane];
      op.begin = event.begin[c.lane];
      op.end = event.end[c.lane];
    }
  }
  void on_step_end(std::uint64_t, int, std::span<const Ticks>) override {}

  std::vector<Chosen> chosen;

 private:
  std::vector<std::vector<std::size_t>> by_cohort_;  // indexes into chosen
};

}  // namespace

Result<Timeline> record_timeline(const Program& program, const Conditions& conditions, const RecordOptions& options,
                                 const std::vector<RankId>& ranks) {
  Timeline timeline;
  timeline.step = options.step;
  timeline.ranks = ranks;
  std::sort(timeline.ranks.begin(), timeline.ranks.end());
  timeline.ranks.erase(std::unique(timeline.ranks.begin(), timeline.ranks.end()), timeline.ranks.end());
  for (RankId rank : timeline.ranks) {
    if (rank.value >= 0 && rank.value < program.ranks) continue;
    return make_error(ErrorCode::invalid, fmt::format("rank {} is not one of 0 to {}", rank.value, program.ranks - 1));
  }
  const auto warm = static_cast<int>(
      std::min<std::uint64_t>(options.step, static_cast<std::uint64_t>(std::max(0, options.warm_steps))));
  TimelineSink sink(program, timeline.ranks);
  RunOptions run;
  run.first_step = options.step - static_cast<std::uint64_t>(warm);
  run.steps = warm + 1;
  run.sink = &sink;
  const auto result = run_lockstep(program, conditions, run);
  if (!result) return result.errors();
  timeline.step_begin = warm > 0 ? result->step_end[static_cast<std::size_t>(warm) - 1] : 0;
  timeline.step_end = result->step_end.back();
  for (std::size_t i = 0; i < sink.chosen.size(); ++i) {
    for (TimelineOp& op : sink.chosen[i].ops) op.rank = timeline.ranks[i];
    timeline.ops.insert(timeline.ops.end(), sink.chosen[i].ops.begin(), sink.chosen[i].ops.end());
    std::vector<TimelineOp>().swap(sink.chosen[i].ops);
  }
  return timeline;
}

}  // namespace stepcast::sim
