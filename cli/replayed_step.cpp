#include "cli/replayed_step.h"

#include <utility>

#include "sim/record/trace.h"

namespace stepcast::cli {
Result<ReplayedStep> ReplayedStep::record(const scenarios::Scenario& scenario, std::uint64_t step,
                                          const std::vector<int>& ranks) {
  auto lowered = parallelism::lower(scenario.spec);
  if (!lowered) return lowered.errors();
  ReplayedStep replayed;
  replayed.lowered_ = std::make_unique<parallelism::LoweredStep>(std::move(*lowered));
  // The sample that forecast() reports this step for.
  const std::uint64_t sample = step >= scenarios::warm_steps ? step - scenarios::warm_steps : 0;
  replayed.met_ = std::make_unique<scenarios::SampleConditions>(scenario.spec, *replayed.lowered_,
                                                                replayed.lowered_->routing.get(), sample);
  if (const Status found = replayed.met_->find_delays(replayed.lowered_->program); !found) return found.errors();
  replayed.step_ = step;
  std::vector<RankId> chosen;
  for (const int rank : ranks) chosen.emplace_back(rank);
  if (chosen.empty()) {
    for (const sim::Cohort& cohort : replayed.lowered_->program.cohorts) chosen.push_back(cohort.ranks.front());
  }
  sim::RecordOptions options;
  options.step = step;
  options.warm_steps = scenarios::warm_steps;
  auto timeline = sim::record_timeline(replayed.lowered_->program, replayed.met_->conditions(), options, chosen);
  if (!timeline) return timeline.errors();
  replayed.timeline_ = std::move(*timeline);
  return replayed;
}

std::int64_t ReplayedStep::trace_bytes() const { return sim::estimate_trace_bytes(lowered_->program, timeline_); }

Status ReplayedStep::write_trace(const std::filesystem::path& file) const {
  return sim::write_trace(lowered_->program, met_->conditions(), timeline_, file);
}

scenarios::chakra::Traces ReplayedStep::chakra_traces(std::string title) const {
  return {lowered_->program, timeline_, std::move(title)};
}

Status ReplayedStep::write_dag(const std::filesystem::path& file) const {
  sim::RecordOptions options;
  options.step = step_;
  options.warm_steps = scenarios::warm_steps;
  const auto report = sim::record_step(lowered_->program, met_->conditions(), options);
  if (!report) return report.errors();
  return sim::write_dag(lowered_->program, timeline_, report->critical_path, file);
}

}  // namespace stepcast::cli
