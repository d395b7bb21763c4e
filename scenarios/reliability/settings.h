// The block `reliability` as the user gave it: nothing is filled in here.
//
// What is absent gets its default in reliability/plan.h, where it is listed as
// an assumption, since a step's forecast does not need any of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stepcast::scenarios {

struct Reliability {
  // Mean time between failures of one device, one node, one link (a device's NIC, its cable and switch port), and of
  // the job as a whole (software). Failures are exponential in wall time.
  std::optional<double> device_mtbf_hours, node_mtbf_hours, link_mtbf_hours, job_mtbf_hours;
  // Announced stops (maintenance, updates): every so often, each so long. A checkpoint is written first.
  std::optional<double> planned_interval_hours, planned_stop_s;
  std::optional<std::vector<double>> failures_at_s;  // wall times of a known log, instead of sampled failures

  std::string interval_rule;  // "young", "daly" or "sampled"; empty: the number, or the default
  std::optional<double> checkpoint_interval_s;
  std::optional<double> checkpoint_gb;          // one checkpoint of the whole job
  std::optional<double> checkpoint_gb_per_s;    // storage, all nodes together
  std::optional<double> checkpoint_write_s;     // until it is durable
  std::optional<double> checkpoint_blocking_s;  // of those, until training goes on
  std::optional<bool> asynchronous_checkpoint;
  std::optional<int> rollback_checkpoints;  // further back than the last durable one

  std::optional<double> detect_s, restart_s, load_s;
  std::optional<int> spare_nodes;
  std::optional<double> repair_hours;

  std::optional<double> total_tokens, duration_hours;  // until when

  std::optional<double> price_per_device_hour, price_per_kwh;
  std::string currency;
  std::optional<double> idle_power_w, busy_power_w, host_power_w;  // a device; host: its share of the node's rest
  std::optional<double> pue;                                       // facility over IT power
};

}  // namespace stepcast::scenarios
