// What the machine itself gives, and the stored graph and the rate solver alone: the other rows of run.sh.
#include <algorithm>
#include <cstring>
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

// A leaf-spine network: NICs, 32 a leaf, each with one flow at a time.
struct FlowCase {
  std::int32_t hosts;
  double over;   // oversubscription of the leaves
  bool in_turn;  // to all others in turn, a shifted all-to-all; else to a random one
  bool hashed;   // each flow on one uplink drawn for it; else uplinks are pooled, and a leaf couples all its flows
};

class LeafSpine {
 public:
  explicit LeafSpine(const FlowCase& c)
      : case_(c),
        leaves_(c.hosts / radix),
        planes_(c.hashed ? static_cast<std::int32_t>(radix / c.over) : 1),
        shift_(static_cast<std::size_t>(c.hosts), 0) {}

  [[nodiscard]] std::vector<double> capacity() const {
    return std::vector<double>(static_cast<std::size_t>(2 * (case_.hosts + leaves_ * planes_)), 1.0);
  }

  void start(sim::FlowSet& set, Ticks now, std::uint32_t host) {
    const auto from = static_cast<std::int32_t>(host);
    const std::int32_t hosts = case_.hosts;
    const std::int32_t to = case_.in_turn ? (from + 1 + shift_[host]++ % (hosts - 1)) % hosts : below(hosts);
    links_ = {{from, 1, 0}, {hosts + to, 1, 0}};
    if (from / radix != to / radix) {
      const auto share = case_.hashed ? 1.0F : static_cast<float>(case_.over / radix);
      const std::int32_t plane = below(planes_);
      links_.push_back({2 * hosts + from / radix * planes_ + plane, share, 0});
      links_.push_back({2 * hosts + (leaves_ + to / radix) * planes_ + plane, share, 0});
    }
    const Ticks work = 50'000'000 + below(100'000'000);
    set.start(now, work, ++started_, host, {&links_, 1, 0});
  }

 private:
  static constexpr std::int32_t radix = 32;
  std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(key_.with(++drawn_).bits % static_cast<std::uint64_t>(n));
  }

  FlowCase case_;
  std::int32_t leaves_, planes_;
  std::vector<std::int32_t> shift_;
  std::vector<sim::LinkShare> links_;
  RngKey key_{1, 0, Purpose::program_test};
  std::uint64_t drawn_ = 0, started_ = 0;
};

// A flow's begin and its end are one event each.
void flows(const FlowCase& c) {
  LeafSpine network(c);
  const std::vector<double> capacity = network.capacity();
  sim::FlowSet set(capacity);
  for (std::uint32_t h = 0; h < static_cast<std::uint32_t>(c.hosts); ++h) network.start(set, 0, h);
  std::int64_t events = 0;
  const double begin = bench::cpu_seconds();
  while (events < 400000 && bench::cpu_seconds() - begin < 5) {
    const Ticks now = set.next();
    for (std::uint32_t host = 0; set.take(now, host); events += 2) network.start(set, now, host);
  }
  const double cpu = bench::cpu_seconds() - begin;
  fmt::print("rate solver, {} flows, {:.0f}:1, {}, {} uplinks: {:.1f} k flow events per CPU-s, {:.0f} flows a solve\n",
             c.hosts, c.over, c.in_turn ? "shifted all-to-all" : "random pairs", c.hashed ? "hashed" : "pooled",
             static_cast<double>(events) / cpu * 1e-3,
             static_cast<double>(set.stats().solved_flows) / static_cast<double>(set.stats().solves));
}

void machine() {
  const double bytes = bandwidth();
  const double draw = draw_ns();
  fmt::print("memory triad {:.1f} GB/s on one thread: a graph of 24 bytes an op read once is bound at {:.0f} M ops/s\n",
             bytes * 1e-9, bytes / 24 * 1e-6);
  fmt::print("one duration with its random draw: {:.2f} ns, {:.0f} M a CPU-s: the bound of lockstep with noise\n", draw,
             1e3 / draw);
  ring();
}

}  // namespace

// --flows: the rate solver only.
int main(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--flows") != 0) machine();
  for (const std::int32_t hosts : {1024, 4096}) {
    for (const double over : {1.0, 4.0}) {
      for (const bool in_turn : {false, true}) {
        for (const bool hashed : {true, false}) flows({hosts, over, in_turn, hashed});
      }
    }
  }
  return 0;
}
