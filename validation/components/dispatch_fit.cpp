// Expert dispatch and combine (form of topology/collective_fits.h): DeepEP's normal kernels, HybridEP and NCCL.
#include <array>

#include <fmt/format.h>

#include "topology/collective_cost.h"
#include "topology/collectives/dispatch_model.h"
#include "validation/components/component_data.h"

namespace stepcast::validation {
namespace {

using topology::DispatchLoad;
using topology::DispatchPhaseFit;

struct Set {
  const char* device;
  const char* rows;
  bool across;  // the table has rows of two and four nodes
};

constexpr std::array sets{Set{"h100", "H100-SXM", true},  Set{"h200", "H200-SXM", false},
                          Set{"b200", "B200-SXM", false}, Set{"b300", "B300-SXM", false},
                          Set{"gb200", "GB200", false},   Set{"gb300", "GB300", false}};

constexpr double nic_rate = 0.95 * 50e9;  // what a large message gets of 400 Gb/s, as in the clusters
constexpr double fp8_bytes = 1 + 4.0 / 128;

enum Index : std::size_t { fixed, nvlink, token, copy, kb, kb_copy, join, hop, nic_share, kb_forward };

DispatchPhaseFit phase_fit(std::span<const double> x) {
  DispatchPhaseFit fit;
  fit.fixed_us = x[fixed];
  fit.nvlink_gb_per_s = x[nvlink];
  fit.token_us = x[token];
  fit.copy_us = x[copy];
  fit.kb_us = x[kb];
  fit.kb_copy_us = x[kb_copy];
  fit.join = x[join];
  if (x.size() <= hop) return fit;
  fit.hop_us = x[hop];
  fit.nic_share = x[nic_share];
  fit.kb_forward_us = x[kb_forward];
  return fit;
}

std::vector<double> values_of(const DispatchPhaseFit& fit, bool across) {
  std::vector<double> x{fit.fixed_us, fit.nvlink_gb_per_s, fit.token_us, fit.copy_us,
                        fit.kb_us,    fit.kb_copy_us,      fit.join};
  if (across) x.insert(x.end(), {fit.hop_us, fit.nic_share, fit.kb_forward_us});
  return x;
}

std::vector<Parameter> deepep_parameters(bool across) {
  constexpr double wide = 2;  // the SM terms are nearly collinear: keeps them apart from their bounds
  std::vector<Parameter> list{{"fixed_us", 35, 1, 200, wide},    {"nvlink_gb_per_s", 300, 80, 900, wide},
                              {"token_us", 0.1, 1e-4, 10, wide}, {"copy_us", 0.1, 1e-4, 10, wide},
                              {"kb_us", 0.1, 1e-4, 10, wide},    {"kb_copy_us", 0.05, 1e-4, 10, wide},
                              {"join", 8, 1.5, 30, wide}};
  if (across) {
    list.insert(
        list.end(),
        {{"hop_us", 5, 0.1, 100, wide}, {"nic_share", 0.95, 0.5, 1.05, wide}, {"kb_forward_us", 0.1, 1e-4, 10, wide}});
  }
  return list;
}

FitTask deepep_task(const ComponentData& data, const Set& set, bool dispatch) {
  const Table& table = data.dispatch;
  FitTask task;
  task.component = "dispatch";
  task.device = set.device;
  task.variant = dispatch ? "deepep dispatch" : "deepep combine";
  task.form = "fixed + (SM^q + link^q)^(1/q)";
  task.source = fmt::format("moe_a2a.csv, {}, DeepEP normal, unflagged", set.rows);
  task.parameters = deepep_parameters(set.across);
  auto loads = std::make_shared<std::vector<DispatchLoad>>();
  GroupIds ids;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (table.text(i, "device") != set.rows || table.text(i, "phase") != (dispatch ? "dispatch" : "combine") ||
        table.text(i, "library").find("DeepEP normal") == std::string_view::npos ||
        table.text(i, "notes").find("FLAG") != std::string_view::npos) {
      continue;
    }
    const int top_k = static_cast<int>(table.number(i, "topk")), experts = static_cast<int>(table.number(i, "experts"));
    const int ranks = static_cast<int>(table.number(i, "ep")), domains = static_cast<int>(table.number(i, "nodes"));
    DispatchLoad load;
    load.tokens = table.number(i, "tokens_per_rank");
    load.payload = table.number(i, "hidden") * (dispatch ? fp8_bytes : 2);
    load.ranks_reached = topology::expected_domains(ranks, top_k, 0, 0, experts);
    load.domains_reached = topology::expected_domains(domains, top_k, 0, 0, experts);
    load.domains = domains;
    load.inside = static_cast<double>(ranks) / domains;
    load.sms = table.number(i, "sms");
    load.member_nic = nic_rate;
    loads->push_back(load);
    task.measured.push_back(table.number(i, "time_us") * 1e-6);
    // A routing shape on a number of nodes: four folds never see it.
    task.groups.push_back(ids(fmt::format("{} {} {} {} {}", table.text(i, "hidden"), top_k, experts, domains,
                                          domains > 1 ? table.text(i, "sms") : "")));
  }
  task.predict = [loads](std::span<const double> x, std::size_t i) {
    const topology::DispatchParts parts = topology::dispatch_parts(phase_fit(x), (*loads)[i]);
    return parts.fixed + parts.variable;
  };
  const topology::DispatchFit& kept = topology::collective_fits(data.devices.at(set.device)).deepep;
  task.committed = values_of(dispatch ? kept.dispatch : kept.combine, set.across);
  return task;
}

// The product's own path: cluster, routing and all, judged on the published table.
FitTask published_task(const ComponentData& data, const char* device, const char* rows, const char* library,
                       topology::Dispatcher dispatcher, bool dispatch) {
  const Table& table = data.dispatch_published;
  topology::Cluster cluster;
  cluster.device = burst_device(data.devices.at(device));
  cluster.nvlink_bandwidth = cluster.device.nvlink_bandwidth;
  cluster.nic_bandwidth = gb_per_s(50);
  cluster.nic_latency = microseconds(5);
  FitTask task;
  task.component = "dispatch";
  task.device = device;
  task.variant = fmt::format("{} {}", dispatcher == topology::Dispatcher::hybridep ? "hybridep" : "all_to_all",
                             dispatch ? "dispatch" : "combine");
  task.form = "not fitted here";
  task.source = fmt::format("dispatch_published.csv, {} {}", rows, library);
  struct Row {
    topology::DispatchCall call;
    topology::GroupSpan span;
  };
  auto calls = std::make_shared<std::vector<Row>>();
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (table.text(i, "device") != rows || table.text(i, "library") != library ||
        table.text(i, "phase") != (dispatch ? "dispatch" : "combine")) {
      continue;
    }
    const auto whole = [&](const char* column) { return static_cast<int>(table.number(i, column)); };
    Row row;
    row.call.dispatcher = dispatcher;
    row.call.phase = dispatch ? topology::DispatchPhase::dispatch : topology::DispatchPhase::combine;
    row.call.tokens = table.number(i, "tokens_per_rank");
    row.call.bytes_per_token = 2 * table.number(i, "hidden");
    row.call.top_k = whole("topk");
    row.call.experts = whole("experts");
    row.call.node_limit = whole("group_limit");
    row.call.route_groups = whole("groups");
    row.span.ranks = whole("ep");
    row.span.max_per_domain = row.span.min_per_domain = std::min(whole("ep"), whole("nvlink_domain"));
    row.span.domains = row.span.nodes = row.span.ranks / row.span.max_per_domain;
    calls->push_back(row);
    task.measured.push_back(table.number(i, "time_us") * 1e-6);
    task.groups.push_back(static_cast<int>(i));
  }
  task.predict = [cluster, calls](std::span<const double>, std::size_t i) {
    const Row& row = (*calls)[i];
    return topology::dispatch_time(cluster, row.call, row.span, cluster.nic_bandwidth).balanced().value;
  };
  return task;
}

}  // namespace

std::vector<FitTask> dispatch_tasks(const ComponentData& data) {
  std::vector<FitTask> tasks;
  for (const bool dispatch : {true, false}) {
    for (const Set& set : sets) tasks.push_back(deepep_task(data, set, dispatch));
    for (const auto& [device, rows] : {std::pair{"h100", "H100"}, std::pair{"gb200", "GB200"}}) {
      tasks.push_back(published_task(data, device, rows, "HybridEP", topology::Dispatcher::hybridep, dispatch));
      tasks.push_back(
          published_task(data, device, rows, "NCCL all-to-all", topology::Dispatcher::all_to_all, dispatch));
    }
  }
  return tasks;
}

}  // namespace stepcast::validation
