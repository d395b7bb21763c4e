#include "cli/replayed_step.h"

#include "sim/record/trace.h"

namespace stepcast::cli {
namespace {

// As many consecutive steps before the replayed one as forecast() simulates, so that the same bits come out.
constexpr int warm_steps = 1;

}  // namespace

sim::Conditions ReplayedStep::conditions() const {
  sim::Conditions conditions;
  conditions.seed = seed_;
  conditions.slow_by_rank = slow_;
  conditions.kernel_sigma = kernel_sigma_;
  conditions.loads = lowered_->routing.get();
  return conditions;
}

Result<ReplayedStep> ReplayedStep::record(const scenarios::Scenario& scenario, std::uint64_t step,
                                          const std::vector<int>& ranks) {
  auto lowered = parallelism::lower(scenario.spec);
  if (!lowered) return lowered.errors();
  ReplayedStep replayed;
  replayed.lowered_ = std::make_unique<parallelism::LoweredStep>(std::move(*lowered));
  replayed.slow_ = replayed.lowered_->slow_factors(scenario.spec, 0);
  replayed.seed_ = scenario.spec.seed;
  replayed.kernel_sigma_ = scenario.spec.noise.kernel_sigma;
  replayed.step_ = step;
  std::vector<RankId> chosen;
  for (const int rank : ranks) chosen.emplace_back(rank);
  if (chosen.empty()) {
    for (const sim::Cohort& cohort : replayed.lowered_->program.cohorts) chosen.push_back(cohort.ranks.front());
  }
  sim::RecordOptions options;
  options.step = step;
  options.warm_steps = warm_steps;
  auto timeline = sim::record_timeline(replayed.lowered_->program, replayed.conditions(), options, chosen);
  if (!timeline) return timeline.errors();
  replayed.timeline_ = std::move(*timeline);
  return replayed;
}

std::int64_t ReplayedStep::trace_bytes() const { return sim::estimate_trace_bytes(lowered_->program, timeline_); }

Status ReplayedStep::write_trace(const std::filesystem::path& file) const {
  return sim::write_trace(lowered_->program, conditions(), timeline_, file);
}

Status ReplayedStep::write_dag(const std::filesystem::path& file) const {
  sim::RecordOptions options;
  options.step = step_;
  options.warm_steps = warm_steps;
  const auto report = sim::record_step(lowered_->program, conditions(), options);
  if (!report) return report.errors();
  return sim::write_dag(lowered_->program, timeline_, report->critical_path, file);
}

}  // namespace stepcast::cli
