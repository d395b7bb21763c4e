// The engine on whole scenarios: what a step of 1,024 to 16,384 devices costs, alone and with contention, in CPU time
// and memory, on one thread and on two. Arguments: scenario files; after --contention they run with shared links, after
// --macro with those as macro-flows.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "scenarios/samples.h"
#include "scenarios/scenario.h"
#include "tests/bench/synthetic.h"

namespace {

using namespace stepcast;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Timed {
  double cpu = 0, wall = 0, seconds = 0;
};

// Median by CPU of some runs of `steps` sampled steps.
Timed time_samples(parallelism::StepSpec spec, const parallelism::LoweredStep& lowered, int steps, int threads,
                   int runs, sim::FlowStats* flows) {
  spec.workload.steps = steps;
  scenarios::Simulated simulated;
  scenarios::choose_program(spec, lowered, false, simulated);
  std::vector<Timed> all;
  for (int i = 0; i < runs; ++i) {
    const double cpu = bench::cpu_seconds();
    const double wall = wall_seconds();
    const auto samples = scenarios::run_samples(spec, lowered, simulated, {threads, {}, {}});
    if (!samples) {
      fmt::print("  failed: {}\n", samples.errors().front().message);
      return {};
    }
    all.push_back({bench::cpu_seconds() - cpu, wall_seconds() - wall, samples->seconds.front()});
    if (flows != nullptr) *flows = samples->flows;
  }
  std::sort(all.begin(), all.end(), [](const Timed& a, const Timed& b) { return a.cpu < b.cpu; });
  return all[all.size() / 2];
}

constexpr double steps_of_sample = 1 + scenarios::warm_steps;  // each sample also simulates its warm step

void lockstep(const parallelism::StepSpec& spec, const parallelism::LoweredStep& lowered) {
  const double ops = static_cast<double>(lowered.program.rank_ops());
  const Timed one = time_samples(spec, lowered, 1, 1, 3, nullptr);
  const double cpu = one.cpu / steps_of_sample;
  fmt::print("  a step: {:.3g} M rank-ops, {:.3f} CPU-s, {:.0f} M rank-ops per CPU-s; simulated {:.4f} s\n", ops * 1e-6,
             cpu, ops / cpu * 1e-6, one.seconds);
  const Timed within = time_samples(spec, lowered, 1, 2, 3, nullptr);
  fmt::print("  one step on two threads: wall {:.3f} -> {:.3f} s, {:.2f}x; the same bits: {}\n", one.wall, within.wall,
             one.wall / within.wall, one.seconds == within.seconds ? "yes" : "NO");
  const Timed serial = time_samples(spec, lowered, 4, 1, 1, nullptr);
  const Timed parallel = time_samples(spec, lowered, 4, 2, 1, nullptr);
  fmt::print("  four sampled steps on two threads: wall {:.3f} -> {:.3f} s, {:.2f}x, {:.2f} sampled steps/s\n",
             serial.wall, parallel.wall, serial.wall / parallel.wall, 4 / parallel.wall);
}

void contended(parallelism::StepSpec spec, std::optional<sim::FlowLevel> level) {
  spec.fabric.contention = true;
  spec.fabric.level = level;
  const auto lowered = parallelism::lower(spec);
  if (!lowered) return;
  sim::FlowStats flows;
  const Timed one = time_samples(spec, *lowered, 1, 1, 1, &flows);
  fmt::print(
      "  with contention, flow level {}: {:.3f} CPU-s a step, simulated {:.4f} s; {:.0f} operations on {} links a "
      "step, "
      "{:.1f} % slowed, {:.0f} solves of {:.1f} flows\n",
      level ? sim::name(*level) : "auto", one.cpu / steps_of_sample, one.seconds,
      static_cast<double>(flows.flows) / steps_of_sample, lowered->program.link_capacity.size(),
      100 * static_cast<double>(flows.slowed) / static_cast<double>(std::max<std::int64_t>(1, flows.flows)),
      static_cast<double>(flows.solves) / steps_of_sample,
      static_cast<double>(flows.solved_flows) / static_cast<double>(std::max<std::int64_t>(1, flows.solves)));
  for (std::size_t l = 0; l < flows.levels.size(); ++l) {
    const sim::FlowStats::Level& at = flows.levels[l];
    if (at.operations == 0) continue;
    fmt::print("    {}: {:.0f} operations, {:.0f} flows, {:.1f} % of the time alone, delayed by {:.1f} % of it\n",
               sim::name(static_cast<sim::FlowLevel>(l)), static_cast<double>(at.operations) / steps_of_sample,
               static_cast<double>(at.flows) / steps_of_sample, 100 * at.alone_s / flows.alone_s,
               100 * at.delay_s / std::max(1e-12, at.alone_s));
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool share = false;
  std::optional<sim::FlowLevel> level;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--contention") == 0 || std::strcmp(argv[i], "--macro") == 0) {
      share = true;
      if (argv[i][2] == 'm') level = sim::FlowLevel::macro;
      continue;
    }
    scenarios::ScenarioRequest request;
    request.file = argv[i];
    request.catalog_root = STEPCAST_SOURCE_DIR;
    const auto scenario = scenarios::load_scenario(request);
    if (!scenario) {
      fmt::print("{}: {} ({})\n", argv[i], scenario.errors().front().message, scenario.errors().front().where);
      return 1;
    }
    const auto lowered = parallelism::lower(scenario->spec);
    if (!lowered) {
      fmt::print("{}: {}\n", argv[i], lowered.errors().front().message);
      return 1;
    }
    const auto& spec = scenario->spec;
    fmt::print("{}: {} microbatches a pipeline, {:.0f} operations a layer and microbatch\n", scenario->name,
               lowered->microbatches,
               static_cast<double>(lowered->program.rank_ops()) /
                   (static_cast<double>(spec.cluster.devices) / spec.degrees.pp * lowered->microbatches *
                    spec.model.layer_count()));
    share ? contended(spec, level) : lockstep(spec, *lowered);
    fmt::print("  resident at most {:.0f} MB\n", peak_mb());
  }
  return 0;
}
