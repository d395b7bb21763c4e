// Google Benchmark of the engines on the synthetic step; see rates.cpp for rates per CPU-second in one table.
#include <benchmark/benchmark.h>

#include "sim/engine/lockstep.h"
#include "sim/engine/oracle.h"
#include "tests/bench/synthetic.h"

namespace {

using namespace stepcast;
using namespace stepcast::bench;

void lockstep_barrier(benchmark::State& state) {
  Shape shape;
  shape.devices = static_cast<int>(state.range(0));
  const sim::Program program = pipeline_step(shape);
  const std::vector<float> speeds = device_speeds(shape.devices);
  sim::Conditions conditions;
  conditions.slow_by_rank = speeds;
  conditions.kernel_sigma = 1e-3 * static_cast<double>(state.range(1));
  for (auto _ : state) benchmark::DoNotOptimize(sim::run_lockstep(program, conditions, {}));
  state.SetItemsProcessed(state.iterations() * program.rank_ops());
}
BENCHMARK(lockstep_barrier)->Args({1024, 0})->Args({1024, 50})->Args({4096, 0})->Unit(benchmark::kMillisecond);

void lockstep_skewed(benchmark::State& state) {
  Shape shape;
  shape.devices = static_cast<int>(state.range(0));
  shape.barrier = false;
  shape.skewed = true;
  const sim::Program program = pipeline_step(shape);
  const TableLoads loads(program.loads, shape.microbatches, shape.devices / shape.stages);
  const std::vector<float> speeds = device_speeds(shape.devices);
  sim::Conditions conditions;
  conditions.slow_by_rank = speeds;
  conditions.loads = &loads;
  for (auto _ : state) benchmark::DoNotOptimize(sim::run_lockstep(program, conditions, {}));
  state.SetItemsProcessed(state.iterations() * program.rank_ops());
}
BENCHMARK(lockstep_skewed)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

void stored_graph_ring(benchmark::State& state) {
  const sim::OpGraph graph = ring_exchange(4096, static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(sim::run_graph(graph));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.size()));
}
BENCHMARK(stored_graph_ring)->Arg(250)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
