// Prints what the engines do per CPU-second: the figures that sim/README.md quotes.
#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/core.h>

#include "sim/engine/lockstep.h"
#include "sim/engine/machine.h"
#include "sim/engine/oracle.h"
#include "tests/bench/synthetic.h"

namespace {

using namespace stepcast;
using namespace stepcast::bench;

// Median CPU time of several runs.
double median_cpu(int runs, const std::function<void()>& run) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const double begin = cpu_seconds();
    run();
    times.push_back(cpu_seconds() - begin);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Case {
  const char* name;
  Shape shape;
  bool speeds;
  double sigma;
};

void lockstep(const Case& c, int devices) {
  Shape shape = c.shape;
  shape.devices = devices;
  const sim::Program program = pipeline_step(shape);
  const TableLoads loads(std::max(1, program.loads), shape.microbatches, devices / shape.stages);
  const std::vector<float> speeds = device_speeds(devices);
  sim::Conditions conditions;
  conditions.loads = &loads;
  conditions.kernel_sigma = c.sigma;
  if (c.speeds) conditions.slow_by_rank = speeds;
  for (const sim::Isa isa : {sim::Isa::avx512, sim::Isa::avx2, sim::Isa::baseline}) {
    const sim::Kernels* kernels = sim::kernels(isa);
    if (kernels == nullptr) continue;
    Ticks step = 0;
    const double cpu = median_cpu(isa == sim::Isa::baseline ? 3 : 7,
                                  [&] { step = sim::run_silent(program, conditions, {}, *kernels)->step_end[0]; });
    const double rate = static_cast<double>(program.rank_ops()) / cpu;
    const char* names[] = {"baseline", "avx2", "avx512"};
    fmt::print(
        "lockstep {:<38} {:>6} devices {:>9} rank-ops {:<8} {:7.1f} ms {:8.0f} M rank-ops/CPU-s  step {:.6f} s\n",
        c.name, devices, program.rank_ops(), names[static_cast<int>(isa)], 1e3 * cpu, rate * 1e-6,
        to_seconds(step).value);
  }
}

void ring() {
  const sim::OpGraph graph = ring_exchange(4096, 250);
  Ticks makespan = 0;
  const double cpu = median_cpu(5, [&] { makespan = sim::run_graph(graph)->makespan; });
  const double ops = static_cast<double>(graph.size());
  fmt::print("stored graph, ring exchange 4096 x 750: {} ops, {:.1f} M ops/CPU-s, {:.1f} bytes/op, makespan {:.6f} s\n",
             graph.size(), ops / cpu * 1e-6, static_cast<double>(graph.bytes()) / ops, to_seconds(makespan).value);
}

void oracle() {
  Shape shape;
  shape.microbatches = 8;
  const sim::Program program = pipeline_step(shape);
  const auto expansion = sim::expand(program, {}, {});
  const double cpu = median_cpu(3, [&] { static_cast<void>(sim::run_graph(expansion->graph)); });
  const double ops = static_cast<double>(expansion->graph.size());
  fmt::print("stored graph, pipeline 1024 devices, 8 microbatches: {} ops, {:.1f} M ops/CPU-s, {:.1f} bytes/op\n",
             expansion->graph.size(), ops / cpu * 1e-6, static_cast<double>(expansion->graph.bytes()) / ops);
}

}  // namespace

int main() {
  Shape barrier, skewed, dropless;
  skewed.barrier = false;
  skewed.skewed = true;
  dropless = skewed;
  dropless.dropless_sync = true;
  const std::vector<Case> cases = {
      {"barrier, equal devices", barrier, false, 0},
      {"barrier, device speeds", barrier, true, 0},
      {"barrier, device speeds, kernel noise", barrier, true, 0.05},
      {"own completion, skew, speeds", skewed, true, 0},
      {"own completion, skew, speeds, host sync", dropless, true, 0},
      {"own completion, skew, speeds, noise", skewed, true, 0.05},
  };
  for (const int devices : {1024, 4096, 16384}) {
    for (const Case& c : cases) lockstep(c, devices);
  }
  ring();
  oracle();
  return 0;
}
