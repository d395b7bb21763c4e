// Everything that determines a whole run, resolved: what the run-level simulation reads.
//
// Times are double seconds: a run of months does not fit the engine's picoseconds.
// A run alternates between work and being down. While it works, every
// `interval_s` of work a snapshot blocks it for `blocking_s`; the snapshot is
// durable `write_s` later. A failure throws away the work since the last
// durable snapshot; then the job is down for detection, restart (loading
// included) and, where no spare node is left, until one is repaired.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "parallelism/step_spec.h"
#include "scenarios/reliability/settings.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

enum class Cause : unsigned char { device, node, link, job, planned, checkpoint };
inline constexpr int cause_count = 6;
enum class Part : unsigned char { checkpoint, rework, detection, restart, waiting_for_node, planned_stop };
inline constexpr int part_count = 6;
[[nodiscard]] std::string_view name(Cause cause);
[[nodiscard]] std::string_view name(Part part);

enum class IntervalRule : unsigned char { given, young, daly, sampled };
[[nodiscard]] std::string_view name(IntervalRule rule);

inline constexpr double never = std::numeric_limits<double>::infinity();

struct RunPlan {
  double step_s = 0, tokens_per_step = 0;
  int devices = 0, devices_per_node = 1;
  double work_s = never;      // work to be done, without any loss
  double duration_s = never;  // or wall time after which to stop; one of the two is finite

  std::array<double, 4> failures_per_s{};  // device, node, link, job: all units together
  bool scripted = false;
  std::vector<double> failures_at_s;  // scripted: wall times, ascending; count as `job`
  double planned_every_s = never, planned_stop_s = 0;

  IntervalRule rule = IntervalRule::given;
  double interval_s = never;  // of work, between two snapshots
  double blocking_s = 0;
  double write_s = 0;  // behind the blocking part, in the background
  int rollback = 0;    // snapshots further back than the last durable one
  double checkpoint_bytes = 0;

  double detect_s = 0, restart_s = 0;  // restart: loading included
  int spare_nodes = -1;                // negative: as many as it takes
  double repair_s = 0;

  double price_per_device_hour = -1, price_per_kwh = -1;  // negative: not given
  std::string currency;
  double idle_w = 0, busy_w = 0, host_w = 0, pue = 1;  // a device and its share of the host
  double utilisation = 1;                              // share of the step in which a device runs a kernel

  std::uint64_t seed = 1;
  std::vector<std::string> assumptions, warnings;

  [[nodiscard]] double failure_rate() const;  // a second, without planned stops
  [[nodiscard]] double mtbf_s() const;        // infinite without failures
  [[nodiscard]] double tokens_per_s() const { return tokens_per_step / step_s; }
  [[nodiscard]] double power_w(double use) const { return (host_w + idle_w + (busy_w - idle_w) * use) * pue; }
  // Rate between two snapshots: their tokens over the wall time between them.
  [[nodiscard]] double tokens_per_s_between_checkpoints() const;
};

// The step that the run repeats.
struct RunStep {
  double step_s = 0, tokens_per_step = 0;
  double busy_share = 1;  // of a device's step with a kernel running
};

// Fills in what the block leaves out; every default is an assumption of the plan. The interval is set by its rule,
// except `sampled`, which starts from Daly's.
[[nodiscard]] RunPlan make_run_plan(const parallelism::StepSpec& spec, const Reliability& settings,
                                    const RunStep& step);

// Power of the board by data sheet, watts; 0 if the device is not in the table.
[[nodiscard]] double board_power_w(const std::string& device);

}  // namespace stepcast::scenarios
