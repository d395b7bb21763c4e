// The sampled steps of a lowered scenario: how long each took, by the engine that the scenario asks for.
//
// Sample k is simulated as step k + 1 after warm step k, so that neighbours share
// nothing but the seed; it meets the tails of sample k. Steps run in parallel;
// with fewer steps than threads, the threads left over run units of one step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "parallelism/lower.h"
#include "parallelism/tails.h"
#include "sim/base/error.h"
#include "sim/engine/contended.h"
#include "sim/engine/representative.h"

namespace stepcast::scenarios {

inline constexpr int warm_steps = 1;  // consecutive steps before the one that is reported

struct SampleOptions {
  int threads = 1;
  std::function<void(int done, int total)> progress;  // called from one thread at a time
  std::function<bool()> cancelled;                    // polled between sampled steps
};

struct Samples {
  std::vector<double> seconds;  // by sample; negative: not run
  std::int64_t rank_ops = 0;    // evaluated
  sim::FlowStats flows;         // sums; zero without contention
};

// What is simulated: the lowered program, or one lane a stage of it. Borrows from the lowered step.
struct Simulated {
  const sim::Program* program = nullptr;
  const sim::LoadSource* loads = nullptr;
  bool representative = false;
  sim::Program one;
  std::optional<sim::RepresentativeLoads> one_loads;
};
// `representative`: one lane a stage where nothing differs by rank and links are not shared.
void choose_program(const parallelism::StepSpec& spec, const parallelism::LoweredStep& lowered, bool representative,
                    Simulated& out);

// Fails when a step cannot run; cancelled samples are no failure. Without anything random all sampled steps are one.
[[nodiscard]] Result<Samples> run_samples(const parallelism::StepSpec& spec, const parallelism::LoweredStep& lowered,
                                          const Simulated& simulated, const SampleOptions& options);

// What recording one sample needs: its tails and, with contention, its delays. Not movable: conditions borrow.
class SampleConditions {
 public:
  SampleConditions(const parallelism::StepSpec& spec, const parallelism::LoweredStep& lowered,
                   const sim::LoadSource* loads, std::uint64_t sample);
  SampleConditions(const SampleConditions&) = delete;
  SampleConditions& operator=(const SampleConditions&) = delete;

  // Runs the contention tier where the program shares links.
  [[nodiscard]] Status find_delays(const sim::Program& program);
  [[nodiscard]] const sim::Conditions& conditions() const { return conditions_; }
  [[nodiscard]] std::uint64_t reported_step() const { return sample_ + warm_steps; }

 private:
  std::uint64_t sample_;
  parallelism::StepTails tails_;
  sim::Conditions conditions_;
  std::optional<sim::ContendedRun> contended_;
};

}  // namespace stepcast::scenarios
