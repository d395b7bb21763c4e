#include "scenarios/reliability/run_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "models/ledger.h"
#include "scenarios/reliability/interval.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

using parallelism::StepSpec;

constexpr double hour = 3600;

// Llama 3 405B, 54 days on 16,384 H100 (arXiv 2407.21783, Table 5: 419 unexpected interruptions by cause): 268 of GPUs,
// 46 of hosts (unplanned maintenance, disks, power, boards), 42 of NICs, switches and cables, 63 of software.
constexpr double llama3_device_hours = 16384.0 * 54 * 24;
constexpr double default_device_mtbf = llama3_device_hours / 268;
constexpr double default_node_mtbf = llama3_device_hours / 8 / 46;
constexpr double default_link_mtbf = llama3_device_hours / 42;
constexpr double default_job_device_hours = llama3_device_hours / 63;

constexpr double default_storage_per_node = 2;  // GB/s: reference designs of 2024 give 0.5 to 2 a node
constexpr double default_detect_s = 60;
constexpr double default_restart_s = 300;
constexpr double default_repair_hours = 24;
constexpr double default_planned_stop_s = 1800;
constexpr double default_tokens = 1e12;
constexpr double default_interval_s = 1800;  // where nothing fails, no rule gives one
constexpr double default_pue = 1.25;
constexpr double idle_share = 0.15;  // of the board's power
constexpr double host_share = 0.45;  // of the board's power: processors, NICs, fans

// Value of a member, or its default with an entry in the list.
class Filling {
 public:
  explicit Filling(std::vector<std::string>& assumptions) : assumptions_(assumptions) {}
  double operator()(const std::optional<double>& given, double otherwise, const std::string& key,
                    const std::string& why) {
    if (given) return *given;
    assumptions_.push_back(fmt::format("reliability.{} not given: {:.5g} ({})", key, otherwise, why));
    return otherwise;
  }

 private:
  std::vector<std::string>& assumptions_;
};

void fill_failures(const StepSpec& spec, const Reliability& r, RunPlan& plan) {
  if (r.failures_at_s) {
    plan.scripted = true;
    plan.failures_at_s = *r.failures_at_s;
    return;
  }
  const double devices = spec.cluster.devices, nodes = spec.cluster.nodes();
  const std::pair<const char*, std::optional<double>> given[] = {{"device_mtbf_hours", r.device_mtbf_hours},
                                                                 {"node_mtbf_hours", r.node_mtbf_hours},
                                                                 {"link_mtbf_hours", r.link_mtbf_hours},
                                                                 {"job_mtbf_hours", r.job_mtbf_hours}};
  const double units[] = {devices, nodes, devices, 1};
  const double defaults[] = {default_device_mtbf, default_node_mtbf, default_link_mtbf,
                             default_job_device_hours / devices};
  const bool any = std::any_of(std::begin(given), std::end(given), [](const auto& g) { return g.second.has_value(); });
  std::string missing;
  for (std::size_t c = 0; c < plan.failures_per_s.size(); ++c) {
    double hours = given[c].second.value_or(any ? never : defaults[c]);
    if (!given[c].second)
      missing +=
          fmt::format("{}{}{}", missing.empty() ? "" : ", ", given[c].first, any ? "" : fmt::format(" {:.4g}", hours));
    plan.failures_per_s[c] = units[c] / (hours * hour);
  }
  if (missing.empty()) return;
  plan.assumptions.push_back(any ? fmt::format("reliability: not given, so it never fails: {}", missing)
                                 : fmt::format("reliability: no MTBF given: those of Llama 3 405B on H100 "
                                               "(arXiv 2407.21783, Table 5), a link being a device's NIC with its "
                                               "cable and port: {}",
                                               missing));
}

void fill_checkpoint(const StepSpec& spec, const Reliability& r, RunPlan& plan, Filling& fill) {
  const double bytes_a_parameter = spec.recipe.parameter_bytes + spec.recipe.optimizer_bytes;
  const auto account = models::parameters(spec.model);
  const double derived = (account.total() + account.mtp) * bytes_a_parameter;
  const double rate_default = default_storage_per_node * spec.cluster.nodes();
  if (!r.checkpoint_write_s || !r.load_s || (r.asynchronous_checkpoint.value_or(false) && !r.checkpoint_blocking_s)) {
    plan.checkpoint_bytes =
        1e9 * fill(r.checkpoint_gb, derived / 1e9, "checkpoint_gb",
                   fmt::format("{:g} bytes a parameter: weights, master weights, moments", bytes_a_parameter));
  } else {
    plan.checkpoint_bytes = r.checkpoint_gb.value_or(derived / 1e9) * 1e9;
  }
  double rate = r.checkpoint_gb_per_s.value_or(0) * 1e9;
  if (!r.checkpoint_write_s || !r.load_s) {
    rate = 1e9 * fill(r.checkpoint_gb_per_s, rate_default, "checkpoint_gb_per_s",
                      fmt::format("{:g} GB/s of storage a node, reads and writes", default_storage_per_node));
  }
  const double write = r.checkpoint_write_s ? *r.checkpoint_write_s : plan.checkpoint_bytes / rate;
  const bool asynchronous = r.asynchronous_checkpoint.value_or(r.checkpoint_blocking_s.has_value());
  if (!asynchronous) {
    if (!r.asynchronous_checkpoint) {
      plan.assumptions.push_back("reliability.asynchronous_checkpoint not given: training waits until it is written");
    }
    plan.blocking_s = write;
    plan.write_s = 0;
  } else {
    const double copy = plan.checkpoint_bytes / spec.cluster.devices / spec.cluster.device.host_link_bandwidth.value;
    plan.blocking_s = r.checkpoint_blocking_s
                          ? *r.checkpoint_blocking_s
                          : fill({}, copy, "checkpoint_blocking_s", "copy of a device's share to the host");
    plan.write_s = std::max(0.0, write - plan.blocking_s);
  }
  plan.rollback = r.rollback_checkpoints.value_or(0);
  plan.restart_s = fill(r.restart_s, default_restart_s, "restart_s", "scheduling, start of processes, communicators");
  plan.restart_s += r.load_s ? *r.load_s : plan.checkpoint_bytes / rate;
}

void fill_interval(const Reliability& r, RunPlan& plan) {
  const double mtbf = plan.mtbf_s();
  if (r.checkpoint_interval_s) {
    plan.rule = IntervalRule::given;
    plan.interval_s = *r.checkpoint_interval_s;
  } else if (!std::isfinite(mtbf)) {
    plan.rule = IntervalRule::given;
    plan.interval_s = default_interval_s;
    plan.assumptions.push_back(
        fmt::format("reliability.checkpoint_interval_s not given and nothing fails: {:g} s", default_interval_s));
  } else {
    plan.rule = r.interval_rule == "young"     ? IntervalRule::young
                : r.interval_rule == "sampled" ? IntervalRule::sampled
                                               : IntervalRule::daly;
    plan.interval_s =
        plan.rule == IntervalRule::young ? young_interval(plan.blocking_s, mtbf) : daly_interval(plan.blocking_s, mtbf);
    if (r.interval_rule.empty())
      plan.assumptions.push_back("reliability.checkpoint_interval_s not given: Daly's optimum");
  }
  // A snapshot begins when the one before is durable.
  const double shortest = std::max(plan.step_s, plan.write_s);
  if (plan.interval_s < shortest) {
    plan.warnings.push_back(fmt::format(
        "a checkpoint every {} is not possible: {} apart, as {}", time_text(plan.interval_s), time_text(shortest),
        shortest > plan.step_s ? "the one before must be durable" : "a step takes so long"));
    plan.interval_s = shortest;
  }
}

void fill_money(const StepSpec& spec, const Reliability& r, const RunStep& step, RunPlan& plan, Filling& fill) {
  plan.price_per_device_hour = r.price_per_device_hour.value_or(-1);
  plan.price_per_kwh = r.price_per_kwh.value_or(-1);
  plan.currency = r.currency;
  plan.utilisation = step.busy_share;
  const double board = board_power_w(spec.cluster.device.name);
  if (board == 0 && !r.busy_power_w) {
    plan.warnings.push_back(
        fmt::format("no power is known of {}: give reliability.busy_power_w for energy", spec.cluster.device.name));
    return;
  }
  plan.busy_w = fill(r.busy_power_w, board, "busy_power_w", "the board's, data sheet");
  plan.idle_w = fill(r.idle_power_w, idle_share * plan.busy_w, "idle_power_w", "15 % of busy_power_w");
  plan.host_w = fill(r.host_power_w, host_share * plan.busy_w, "host_power_w", "45 % of busy_power_w");
  plan.pue = fill(r.pue, default_pue, "pue", "facility over IT power");
}

}  // namespace

double RunPlan::failure_rate() const {
  double rate = 0;
  for (double r : failures_per_s) rate += r;
  return rate;
}

double RunPlan::mtbf_s() const {
  const double rate = failure_rate();
  return rate > 0 ? 1 / rate : never;
}

double RunPlan::tokens_per_s_between_checkpoints() const {
  return std::isfinite(interval_s) ? tokens_per_s() * interval_s / (interval_s + blocking_s) : tokens_per_s();
}

RunPlan make_run_plan(const StepSpec& spec, const Reliability& r, const RunStep& step) {
  RunPlan plan;
  plan.step_s = step.step_s;
  plan.tokens_per_step = step.tokens_per_step;
  plan.devices = spec.cluster.devices;
  plan.devices_per_node = spec.cluster.devices_per_node;
  plan.seed = spec.seed;
  Filling fill(plan.assumptions);
  fill_failures(spec, r, plan);
  if (r.planned_interval_hours) {
    plan.planned_every_s = *r.planned_interval_hours * hour;
    plan.planned_stop_s = fill(r.planned_stop_s, default_planned_stop_s, "planned_stop_s", "maintenance");
  }
  fill_checkpoint(spec, r, plan, fill);
  plan.detect_s = fill(r.detect_s, default_detect_s, "detect_s", "until a failure is noticed and the job stopped");
  if (r.spare_nodes) {
    plan.spare_nodes = *r.spare_nodes;
    plan.repair_s = fill(r.repair_hours, default_repair_hours, "repair_hours", "until a failed node comes back") * hour;
  } else if (plan.failures_per_s[0] + plan.failures_per_s[1] > 0) {
    plan.assumptions.push_back(
        "reliability.spare_nodes not given: a failed node is replaced at once, and no spare is paid for");
  }
  if (r.duration_hours) {
    plan.duration_s = *r.duration_hours * hour;
  } else {
    const double tokens = fill(r.total_tokens, default_tokens, "total_tokens", "a trillion");
    plan.work_s = tokens / plan.tokens_per_step * plan.step_s;
  }
  fill_interval(r, plan);
  fill_money(spec, r, step, plan, fill);
  return plan;
}

// Thermal design power of the module or board, watts, as in the vendors' data sheets.
double board_power_w(const std::string& device) {
  static const std::pair<const char*, double> table[] = {
      {"a100-40gb", 400}, {"a100-80gb", 400}, {"b200", 1000},     {"b300", 1400},
      {"gb200", 1200},    {"gb300", 1400},    {"h100", 700},      {"h200", 700},
      {"h20", 400},       {"h800", 700},      {"mi300x", 750},    {"h100-500w-96gb", 500},
      {"mi325x", 1000},   {"mi355x", 1400},   {"v100-16gb", 300}, {"v100-32gb", 300},
  };
  for (const auto& [name, watts] : table) {
    if (device == name) return watts;
  }
  return 0;
}

std::string_view name(Cause cause) {
  static constexpr std::string_view names[] = {"device", "node", "link", "job", "planned", "checkpoint"};
  return names[static_cast<std::size_t>(cause)];
}

std::string_view name(Part part) {
  static constexpr std::string_view names[] = {"checkpoint", "rework",           "detection",
                                               "restart",    "waiting_for_node", "planned_stop"};
  return names[static_cast<std::size_t>(part)];
}

std::string_view name(IntervalRule rule) {
  static constexpr std::string_view names[] = {"given", "young", "daly", "sampled"};
  return names[static_cast<std::size_t>(rule)];
}

}  // namespace stepcast::scenarios
