#include "tests/bench/synthetic.h"

#include <algorithm>
#include <ctime>
#include <numeric>

#include "sim/base/rng.h"

namespace stepcast::bench {

using namespace sim;

namespace {

constexpr std::uint16_t cost_transfer = 0, cost_hop = 1, cost_expert = 2, cost_reduce = 3, first_kernel = 4;
constexpr int kernels = 12;
constexpr std::uint16_t group_ep = 0, group_dp = 1;

class Stage {
 public:
  Stage(const Shape& shape, int stage) : shape_(shape), stage_(stage) {}

  Cohort build() {
    cohort_.name = "stage " + std::to_string(stage_);
    const int lanes = shape_.devices / shape_.stages;
    for (int i = 0; i < lanes; ++i) cohort_.ranks.emplace_back(stage_ * lanes + i);
    cohort_.slots = 4;
    cohort_.launch_ticks = to_ticks(microseconds(1.5));
    cohort_.sync_ticks = to_ticks(microseconds(10));
    cohort_.step_host_ticks = to_ticks(microseconds(500));
    cohort_.works.resize(1);
    cohort_.static_bytes = {0};
    add_costs();
    GroupClass ep{"ep", shape_.expert_parallel, std::vector<std::int32_t>(static_cast<std::size_t>(lanes))};
    std::iota(ep.lanes.begin(), ep.lanes.end(), 0);
    GroupClass dp{"dp", lanes, ep.lanes};
    cohort_.groups = {ep, dp};
    cohort_.bodies = {pass(true), pass(false), finish()};
    add_calls();
    return std::move(cohort_);
  }

 private:
  void add_costs() {
    const bool rows = shape_.skewed;
    cohort_.costs.push_back({rows ? 2e7 : 2e8, rows ? 4e4 : 0.0, 0, NoiseKind::none});
    cohort_.costs.push_back({5e7, 0, 0, NoiseKind::none});
    cohort_.costs.push_back({rows ? 1e7 : 1e8, rows ? 2e4 : 0.0, 5e6, NoiseKind::kernel});
    cohort_.costs.push_back({2e9, 0, 0, NoiseKind::none});
    for (int i = 0; i < kernels; ++i) cohort_.costs.push_back({2e6 * (1 + i), 0, 0, NoiseKind::kernel});
  }

  Instruction kernel(int i) const {
    Instruction in;
    in.cost = static_cast<std::uint16_t>(first_kernel + i % kernels);
    return in;
  }

  void all_to_all(std::vector<Instruction>& code, int layer) const {
    Instruction in;
    in.op = Opcode::collective;
    in.stream = Stream::ep;
    in.wait_streams = bit(Stream::compute);
    in.flags = shape_.barrier ? flag_largest : 0;
    in.target = group_ep;
    in.cost = cost_transfer;
    if (shape_.skewed) in.load = static_cast<std::uint16_t>(stage_ * shape_.layers + layer);
    code.push_back(in);
    if (shape_.dropless_sync) {
      Instruction sync;
      sync.op = Opcode::host_sync;
      sync.wait_streams = bit(Stream::ep);
      code.push_back(sync);
    }
  }

  // Attention and router, dispatch beside the shared expert, experts, combine, the rest.
  void layer(std::vector<Instruction>& code, int layer, int ops) const {
    const int others = ops - 2 - 4 - (shape_.dropless_sync ? 2 : 0);
    for (int i = 0; i < others / 2; ++i) code.push_back(kernel(i));
    all_to_all(code, layer);
    for (int i = 0; i < 2; ++i) code.push_back(kernel(i));
    for (int i = 0; i < 4; ++i) {
      Instruction expert;
      expert.cost = cost_expert;
      if (i == 0) expert.wait_streams = bit(Stream::ep);
      if (shape_.skewed) expert.load = static_cast<std::uint16_t>(stage_ * shape_.layers + layer);
      code.push_back(expert);
    }
    all_to_all(code, layer);
    for (int i = 0; i < others - others / 2 - 2; ++i) {
      code.push_back(kernel(i));
      if (i == 0) code.back().wait_streams = bit(Stream::ep);
      if (i == 3) code.back().record_slot = 0;
      if (i == 5) code.back().wait_slot = 0;
    }
  }

  [[nodiscard]] std::uint16_t channel(int hop, bool forward) const {
    return static_cast<std::uint16_t>(2 * hop + (forward ? 0 : 1));
  }

  Body pass(bool forward) const {
    Body body;
    body.name = forward ? "forward" : "backward";
    const bool receives = forward ? stage_ > 0 : stage_ + 1 < shape_.stages;
    const bool sends = forward ? stage_ + 1 < shape_.stages : stage_ > 0;
    if (receives) {
      Instruction in;
      in.op = Opcode::receive;
      in.stream = Stream::pp_receive;
      in.target = channel(forward ? stage_ - 1 : stage_, forward);
      body.instructions.push_back(in);
    }
    const std::size_t first = body.instructions.size();
    for (int i = 0; i < shape_.layers; ++i) {
      layer(body.instructions, i, forward ? shape_.forward_ops : shape_.backward_ops);
    }
    if (receives) body.instructions[first].wait_streams |= bit(Stream::pp_receive);
    if (sends) {
      Instruction in;
      in.op = Opcode::send;
      in.stream = Stream::pp_send;
      in.wait_streams = bit(Stream::compute);
      in.target = channel(forward ? stage_ : stage_ - 1, forward);
      in.cost = cost_hop;
      body.instructions.push_back(in);
    }
    return body;
  }

  Body finish() const {
    Body body;
    body.name = "optimizer";
    Instruction reduce;
    reduce.op = Opcode::collective;
    reduce.stream = Stream::dp;
    reduce.wait_streams = bit(Stream::compute);
    reduce.flags = flag_largest;
    reduce.target = group_dp;
    reduce.cost = cost_reduce;
    Instruction norm = reduce;
    norm.op = Opcode::join;
    norm.target = 0;
    norm.cost = cost_hop;
    Instruction step = kernel(0);
    step.wait_streams = bit(Stream::dp);
    body.instructions = {reduce, norm, step};
    return body;
  }

  void add_calls() {
    const int warm = std::min(shape_.stages - 1 - stage_, shape_.microbatches);
    int backward = 0;
    for (int forward = 0; forward < shape_.microbatches; ++forward) {
      cohort_.calls.push_back({0, forward, -1});
      if (forward >= warm) cohort_.calls.push_back({1, backward++, -1});
    }
    while (backward < shape_.microbatches) cohort_.calls.push_back({1, backward++, -1});
    cohort_.calls.push_back({2, -1, -1});
  }

  const Shape& shape_;
  int stage_;
  Cohort cohort_;
};

}  // namespace

Program pipeline_step(const Shape& shape) {
  Program program;
  program.ranks = shape.devices;
  for (int s = 0; s < shape.stages; ++s) program.cohorts.push_back(Stage(shape, s).build());
  for (int s = 0; s + 1 < shape.stages; ++s) {
    program.channels.push_back({"activations", s, s + 1, {}});
    program.channels.push_back({"gradients", s + 1, s, {}});
  }
  JoinClass all{"norm", std::vector<std::int32_t>(static_cast<std::size_t>(shape.stages)), {}};
  std::iota(all.cohorts.begin(), all.cohorts.end(), 0);
  program.joins.push_back(all);
  program.memory_parts = {"none"};
  program.loads = shape.skewed ? shape.stages * shape.layers : 0;
  return program;
}

TableLoads::TableLoads(int loads, int instances, int lanes)
    : instances_(static_cast<std::size_t>(instances)),
      lanes_(static_cast<std::size_t>(lanes)),
      table_(static_cast<std::size_t>(loads) * instances_ * lanes_) {
  const RngKey key(1, 0, Purpose::program_test);
  for (std::size_t i = 0; i < table_.size(); ++i) {
    table_[i] = static_cast<float>(2000 + 4000 * uniform(key.with(i)) * uniform(key.with(i + table_.size())));
  }
}

void TableLoads::rows(std::uint64_t, int load, int, int instance, std::span<float> rows) const {
  const std::size_t at = (static_cast<std::size_t>(load) * instances_ + static_cast<std::size_t>(instance)) * lanes_;
  std::copy_n(table_.begin() + static_cast<std::ptrdiff_t>(at), rows.size(), rows.begin());
}

std::vector<float> device_speeds(int devices) {
  const RngKey key(1, 0, Purpose::device_speed);
  std::vector<float> slow;
  for (int i = 0; i < devices; ++i) {
    slow.push_back(static_cast<float>(0.99 + 0.02 * uniform(key.with(static_cast<std::uint64_t>(i)))));
  }
  return slow;
}

OpGraph ring_exchange(int ranks, int iterations) {
  OpGraphBuilder builder;
  const auto n = static_cast<std::uint32_t>(ranks);
  const RngKey key(1, 0, Purpose::program_test);
  const Ticks latency = to_ticks(microseconds(3));
  std::uint32_t last_sends = 0, last_receives = 0;
  for (int i = 0; i < iterations; ++i) {
    std::uint32_t first = 0;
    for (std::uint32_t r = 0; r < n; ++r) {
      const double draw = uniform(key.with(r).with(static_cast<std::uint64_t>(i)));
      const std::uint32_t op = builder.add_op(to_ticks(microseconds(100 * (0.9 + 0.2 * draw))));
      if (r == 0) first = op;
      if (i == 0) continue;
      builder.add_edge(last_sends + r, op);
      builder.add_edge(last_receives + r, op);
    }
    for (std::uint32_t r = 0; r < n; ++r) builder.add_edge(first + r, builder.add_op(latency));
    for (std::uint32_t r = 0; r < n; ++r) {
      const std::uint32_t op = builder.add_op(0);
      builder.add_edge(first + r, op);
      builder.add_edge(first + n + (r + n - 1) % n, op, 0, true);
    }
    last_sends = first + n;
    last_receives = first + 2 * n;
  }
  return *std::move(builder).build();
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace stepcast::bench
