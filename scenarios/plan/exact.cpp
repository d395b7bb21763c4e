#include "scenarios/plan/exact.h"

#include <algorithm>
#include <cmath>

#include "parallelism/lower.h"
#include "parallelism/tails.h"
#include "scenarios/memory_check.h"
#include "scenarios/samples.h"
#include "sim/engine/contended.h"
#include "sim/engine/lockstep.h"
#include "sim/record/memory.h"

namespace stepcast::scenarios::plan {
namespace {

MemoryAccount memory_of(const parallelism::StepSpec& spec, const sim::Program& program, const SampleConditions& met) {
  const sim::Conditions& conditions = met.conditions();
  const std::uint64_t step = met.reported_step();
  sim::MemoryRecorder memory(program);
  std::vector<float> rows;
  std::vector<Ticks> no_time;
  for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
    const sim::Cohort& cohort = program.cohorts[c];
    rows.assign(cohort.ranks.size(), 0);
    no_time.assign(cohort.ranks.size(), 0);
    int load = -1;
    int instance = -1;
    for (const sim::Call& call : cohort.calls) {
      for (const sim::Instruction& in : cohort.bodies[call.body].instructions) {
        sim::InstructionEvent event;
        event.cohort = static_cast<int>(c);
        event.instruction = &in;
        event.begin = event.end = no_time;
        if (in.load != sim::none16 && !cohort.works[in.work].memory.empty()) {
          const int now = (in.flags & sim::flag_second_instance) != 0 ? call.second_instance : call.instance;
          if (in.load != load || now != instance) {
            load = in.load;
            instance = now;
            conditions.loads->rows(step, load, static_cast<int>(c), instance, rows);
          }
          event.rows = rows;
        }
        memory.on_instruction(event);
      }
    }
  }
  return memory_account(memory.peak(conditions, step, 0), spec);
}

Result<double> seconds_of(const sim::Program& program, const SampleConditions& met, std::uint64_t sample) {
  sim::RunOptions run;
  run.first_step = sample;
  run.steps = 1 + warm_steps;
  if (sim::shares_links(program)) {
    const auto result = sim::run_contended(program, met.conditions(), run);
    if (!result) return result.errors();
    return to_seconds(result->result.last_step()).value;
  }
  const auto result = sim::run_lockstep(program, met.conditions(), run);
  if (!result) return result.errors();
  return to_seconds(result->last_step()).value;
}

}  // namespace

Result<Exact> simulate_layout(const parallelism::StepSpec& spec, double memory_limit, bool representative) {
  const auto lowered = parallelism::lower(spec);
  if (!lowered) return lowered.errors();
  Simulated simulated;
  choose_program(spec, *lowered, representative, simulated);
  const SampleConditions met(spec, *lowered, simulated.loads, 0);
  Exact exact;
  exact.memory = memory_of(spec, *simulated.program, met);
  if (exact.memory.peak_bytes > memory_limit) return exact;
  const auto seconds = seconds_of(*simulated.program, met, 0);
  if (!seconds) return seconds.errors();
  exact.seconds = *seconds;
  return exact;
}

Result<double> mean_seconds(const parallelism::StepSpec& spec, int steps) {
  const auto lowered = parallelism::lower(spec);
  if (!lowered) return lowered.errors();
  Simulated simulated;
  choose_program(spec, *lowered, true, simulated);
  const int n = simulated.representative ? 1 : steps;  // without anything random all sampled steps are one
  double sum = 0;
  for (int k = 0; k < n; ++k) {
    const auto sample = static_cast<std::uint64_t>(k);
    const SampleConditions met(spec, *lowered, simulated.loads, sample);
    const auto seconds = seconds_of(*simulated.program, met, sample);
    if (!seconds) return seconds.errors();
    sum += *seconds;
  }
  return sum / n;
}

double smallest_speed(const parallelism::StepSpec& spec) {
  // Whatever rank sits on a device, its factor is the device's.
  std::vector<DeviceId> devices;
  for (int d = 0; d < spec.cluster.devices; ++d) devices.emplace_back(d);
  double smallest = 1;
  const auto tails = parallelism::draw_tails(spec, devices, 0);
  if (!tails.slow.empty()) smallest = static_cast<double>(*std::min_element(tails.slow.begin(), tails.slow.end()));
  return smallest * (1 - std::sqrt(3.0) * std::min(spec.noise.kernel_sigma, sim::largest_kernel_sigma));
}

}  // namespace stepcast::scenarios::plan
