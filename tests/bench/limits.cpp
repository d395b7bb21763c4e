// What the machine itself gives, and the stored graph and the rate solver alone: the other rows of run.sh.
#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/core.h>

#include "sim/base/rng.h"
#include "sim/engine/evaluate.h"
#include "sim/engine/flows.h"
#include "sim/engine/op_graph.h"
#include "tests/bench/synthetic.h"

namespace {

using namespace stepcast;

double median_cpu(int runs, const std::function<void()>& run) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const double begin = bench::cpu_seconds();
    run();
    times.push_back(bench::cpu_seconds() - begin);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// STREAM triad, three arrays of 128 MiB.
double bandwidth() {
  const std::size_t n = std::size_t{16} << 20;
  std::vector<double> a(n, 1), b(n, 2), c(n, 3);
  const double cpu = median_cpu(5, [&] {
    for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 3 * c[i];
  });
  if (a[n / 2] < 0) fmt::print("never\n");
  return 3 * 8 * static_cast<double>(n) / cpu;
}

// One duration with noise on 1,024 lanes, again and again: the draw and the product, nothing else.
double draw_ns() {
  sim::Program program = bench::pipeline_step({});
  program.cohorts[0].ranks.resize(64);
  const std::vector<float> speeds = bench::device_speeds(1024);
  sim::Conditions conditions;
  conditions.kernel_sigma = 0.02;
  conditions.slow_by_rank = speeds;
  sim::CohortState state(program, 0, conditions);
  state.begin_step(0);
  sim::Instruction kernel;
  kernel.cost = 5;
  std::vector<Ticks> storage(state.padded + 8);
  Ticks* out = state.scratch(0);
  const int n = 200000;
  const double cpu = median_cpu(5, [&] {
    for (int i = 0; i < n; ++i) sim::kernels().duration(state, kernel, nullptr, static_cast<std::uint64_t>(i), out);
  });
  return cpu * 1e9 / (static_cast<double>(n) * static_cast<double>(state.lanes));
}

void ring() {
  const sim::OpGraph graph = bench::ring_exchange(4096, 250);
  const double cpu = median_cpu(5, [&] { static_cast<void>(sim::run_graph(graph)); });
  const double ops = static_cast<double>(graph.size());
  fmt::print("oracle, ring exchange 4,096 x 750: {:.2f} M ops, {:.1f} M ops per CPU-s, {:.1f} bytes an op\n",
             ops * 1e-6, ops / cpu * 1e-6, static_cast<double>(graph.bytes()) / ops);
}

// 4,096 NICs, 32 a leaf; each sends one flow at a time to a random other, uplinks `over` times oversubscribed.
void flows(double over) {
  constexpr std::int32_t hosts = 4096, radix = 32;
  const std::int32_t leaves = hosts / radix;
  std::vector<double> capacity(static_cast<std::size_t>(2 * hosts + 2 * leaves), 1.0);
  sim::FlowSet set(capacity);
  std::vector<std::vector<sim::LinkShare>> links(hosts);
  const RngKey key(1, 0, Purpose::program_test);
  std::uint64_t drawn = 0;
  const auto start = [&](Ticks now, std::uint32_t host) {
    const auto from = static_cast<std::int32_t>(host);
    const auto to = static_cast<std::int32_t>(key.with(++drawn).bits % hosts);
    const auto up = static_cast<float>(over / radix);
    links[host] = {{from, 1, 0}, {hosts + to, 1, 0}};
    if (from / radix != to / radix) {
      links[host].push_back({2 * hosts + from / radix, up, 0});
      links[host].push_back({2 * hosts + leaves + to / radix, up, 0});
    }
    const Ticks work = 50'000'000 + static_cast<Ticks>(key.with(++drawn).bits % 100'000'000);
    set.start(now, work, drawn, host, {&links[host], 1, 0});
  };
  for (std::uint32_t h = 0; h < hosts; ++h) start(0, h);
  std::int64_t events = 0;
  const double begin = bench::cpu_seconds();
  while (events < 40000 && bench::cpu_seconds() - begin < 10) {
    const Ticks now = set.next();
    for (std::uint32_t host = 0; set.take(now, host); events += 2) start(now, host);
  }
  const double cpu = bench::cpu_seconds() - begin;
  fmt::print("rate solver, 4,096 flows on a leaf-spine, {:.0f}:1: {:.1f} k flow events per CPU-s ({} events)\n", over,
             static_cast<double>(events) / cpu * 1e-3, events);
}

}  // namespace

int main() {
  const double bytes = bandwidth();
  const double draw = draw_ns();
  fmt::print("memory triad {:.1f} GB/s on one thread: a graph of 24 bytes an op read once is bound at {:.0f} M ops/s\n",
             bytes * 1e-9, bytes / 24 * 1e-6);
  fmt::print("one duration with its random draw: {:.2f} ns, {:.0f} M a CPU-s: the bound of lockstep with noise\n", draw,
             1e3 / draw);
  ring();
  flows(1);
  flows(4);
  return 0;
}
