// Programs for measuring the engines: the shape of a step, not its costs.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/conditions.h"
#include "sim/engine/op_graph.h"
#include "sim/program/program.h"

namespace stepcast::bench {

struct Shape {
  int devices = 1024;
  int stages = 16;
  int microbatches = 64;
  int layers = 4;            // a stage
  int expert_parallel = 64;  // lanes of an expert group
  int forward_ops = 70;      // a layer; with backward_ops the ~180 kernels of a DeepSeek-V3 layer and microbatch
  int backward_ops = 110;
  bool barrier = true;         // dispatch and combine end together; else each rank with its own time
  bool skewed = false;         // expert kernels and transfers depend on routed rows
  bool dropless_sync = false;  // the host waits for the dispatch's counts
};

// 1F1B over `stages` cohorts; dispatch and combine a pass and layer, sends and receives between stages, one gradient
// reduction and a join of all at the end.
[[nodiscard]] sim::Program pipeline_step(const Shape& shape);

// Rows by (load, instance, lane) from a table, the same for all cohorts and steps.
class TableLoads : public sim::LoadSource {
 public:
  TableLoads(int loads, int instances, int lanes);
  void rows(std::uint64_t step, int load, int cohort, int instance, std::span<float> rows) const override;

 private:
  std::size_t instances_, lanes_;
  std::vector<float> table_;
};

// Slow factors of 1 +- 1 %.
[[nodiscard]] std::vector<float> device_speeds(int devices);

// engine.md's ring exchange: per iteration compute, send right, receive from the left; the next compute waits for both.
[[nodiscard]] sim::OpGraph ring_exchange(int ranks, int iterations);

// CPU time of this process.
[[nodiscard]] double cpu_seconds();

}  // namespace stepcast::bench
