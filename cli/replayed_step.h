// One sampled step of a scenario, replayed with the timeline of chosen ranks: for traces, the op DAG and graphs of
// other tools.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "parallelism/lower.h"
#include "scenarios/chakra/chakra.h"
#include "scenarios/samples.h"
#include "scenarios/scenario.h"
#include "sim/base/error.h"
#include "sim/record/recorder.h"

namespace stepcast::cli {

class ReplayedStep {
 public:
  // `ranks` empty: the first rank of each stage. `step` as in StepReport::step.
  [[nodiscard]] static Result<ReplayedStep> record(const scenarios::Scenario& scenario, std::uint64_t step,
                                                   const std::vector<int>& ranks);

  [[nodiscard]] const sim::Timeline& timeline() const { return timeline_; }
  [[nodiscard]] std::int64_t trace_bytes() const;
  [[nodiscard]] Status write_trace(const std::filesystem::path& file) const;
  [[nodiscard]] scenarios::chakra::Traces chakra_traces(std::string title) const;
  [[nodiscard]] Status write_dag(const std::filesystem::path& file) const;

 private:
  ReplayedStep() = default;

  std::unique_ptr<parallelism::LoweredStep> lowered_;
  std::unique_ptr<scenarios::SampleConditions> met_;
  std::uint64_t step_ = 0;
  sim::Timeline timeline_;
};

}  // namespace stepcast::cli
