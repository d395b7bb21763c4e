// The layouts that a search looks at: the product of its axes, in a stable order.
//
// A point is small and plain; the step that it stands for is made by apply() in
// place, or by load_scenario() from the flags that settings() gives. Both give
// the same step (tested).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallelism/step_spec.h"
#include "scenarios/scenario.h"
#include "sim/base/error.h"

namespace stepcast::scenarios::plan {

struct RecomputeChoice {
  std::string text;  // as `--set recompute=` takes it
  parallelism::Recompute value;
};

// What runs beside the kernels. Hiding the expert exchange is no choice of its own: paired schedules do, others cannot.
struct OverlapChoice {
  std::string name;
  bool gradients = true, parameters = true, tp = false, p2p = true;
  bool p2p_warmup_flush = true, p2p_batched = false;
  bool with_optimizer = false, delay_wgrad = false;  // the scenario's, where a point can have them
};

// Values of each axis, ascending or in the order given; the search takes their product, the last axis fastest.
struct Space {
  std::vector<int> devices, global_batch, tp, cp, pp, ep, etp, micro_batch, vpp;
  std::vector<parallelism::ScheduleKind> schedule;
  std::vector<parallelism::Sharding> sharding;
  std::vector<RecomputeChoice> recompute;
  std::vector<topology::Dispatcher> dispatcher;
  std::vector<OverlapChoice> overlap;
  bool sequence_parallel = true;  // where tp is above 1

  // Points of one combination of degrees (devices to etp), and of all.
  [[nodiscard]] std::int64_t points_a_family() const;
  [[nodiscard]] std::int64_t points() const;
};

struct Point {
  int devices = 0, global_batch = 0;
  std::int16_t tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1, etp = 1, micro_batch = 1;
  parallelism::ScheduleKind schedule = parallelism::ScheduleKind::one_f_one_b;
  parallelism::Sharding sharding = parallelism::Sharding::zero1;
  std::uint8_t recompute = 0, overlap = 0;  // index into the space
  topology::Dispatcher dispatcher = topology::Dispatcher::all_to_all;
  friend bool operator==(const Point&, const Point&) = default;
};

// What the user restricts; empty: the default, which the scenario's model and cluster give.
struct SpaceRequest {
  std::vector<int> devices, global_batch, tp, cp, pp, ep, etp, micro_batch, vpp;
  bool free_batch = false;  // instead of global_batch: the scenario's, its halves and doubles down to 1/4 and up to 4
  std::vector<std::string> schedule, sharding, recompute, dispatcher, overlap;
};

// Names that the axes take.
[[nodiscard]] std::vector<std::string> schedule_names();
[[nodiscard]] const std::vector<std::string>& sharding_names();
[[nodiscard]] const std::vector<std::string>& overlap_names();  // profile, all, none

// Errors name the flag (`--schedule`) and what is allowed.
[[nodiscard]] Result<Space> make_space(const Scenario& scenario, const SpaceRequest& request);

// Writes the point into a step that began as the scenario's own.
void apply(const Space& space, const Point& point, parallelism::StepSpec& spec);

// The same as `--set` flags.
[[nodiscard]] std::vector<std::string> settings(const Space& space, const Point& point);

// "tp 2, pp 8 x 4, ep 64, mbs 1, interleaved, zero1, ..."
[[nodiscard]] std::string words(const Space& space, const Point& point);

// Slots that hold two microbatches, so that each hides the other's expert exchange.
[[nodiscard]] bool paired(parallelism::ScheduleKind kind);

}  // namespace stepcast::scenarios::plan
