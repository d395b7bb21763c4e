// Collectives inside one NVLink domain (form of topology/collective_fits.h), and the prediction across domains, which
// has few constants of its own and is only judged.
#include <array>

#include <fmt/format.h>

#include "topology/collectives/algorithms.h"
#include "validation/components/component_data.h"

namespace stepcast::validation {
namespace {

using topology::Collective;
using topology::CollectiveFits;
using topology::InDomainFit;

struct Operation {
  const char* rows;
  Collective kind;
};

constexpr std::array operations{
    Operation{"all_reduce", Collective::all_reduce}, Operation{"all_gather", Collective::all_gather},
    Operation{"reduce_scatter", Collective::reduce_scatter}, Operation{"alltoall", Collective::all_to_all}};

struct Box {
  const char* device;
  const char* rows;
  const char* source;  // a part of the table's source column
};

constexpr std::array boxes{Box{"a100-80gb", "A100-SXM4-80GB", "aiconfigurator"},
                           Box{"h100", "H100-SXM-80GB", "aiconfigurator"},
                           Box{"h200", "H200-SXM", "aiconfigurator"},
                           Box{"b200", "B200-SXM", "aiconfigurator"},
                           Box{"b300", "B300-SXM", "aiconfigurator"},
                           Box{"gb200", "GB200", "aiconfigurator"},
                           Box{"gb300", "GB300", "aiconfigurator"}};

constexpr std::size_t least_rows = 8;

std::vector<std::size_t> rows_of(const Table& table, const char* device, const char* op, int ranks, int nodes) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const bool wanted = table.text(i, "device") == device && table.text(i, "op") == op &&
                        table.number(i, "gpus") == ranks && table.number(i, "nodes") == nodes;
    // Rows that name a kernel are hand-written ones, and rows below 1 us are rounded.
    if (wanted && table.number(i, "time_us") > 1 &&
        table.text(i, "library/notes").find("kernel=") == std::string_view::npos) {
      rows.push_back(i);
    }
  }
  return rows;
}

void fill_predict(FitTask& task, std::shared_ptr<std::vector<double>> bytes, Collective kind, int ranks,
                  double nvlink) {
  task.predict = [bytes, kind, ranks, nvlink](std::span<const double> x, std::size_t i) {
    const std::array sizes{InDomainFit{kind, ranks, x[0], x[1], x[2]}, InDomainFit{kind, ranks + 1, x[0], x[1], x[2]}};
    CollectiveFits fits;
    fits.nvlink_gb_per_s = nvlink;
    fits.in_domain = sizes;
    topology::CollectiveCall call;
    call.kind = kind;
    call.bytes = (*bytes)[i];
    call.span.ranks = ranks;
    call.fits = &fits;
    return topology::in_domain(call).time.value;
  };
}

std::optional<FitTask> in_box_task(const ComponentData& data, const Box& box, const Operation& operation, int ranks) {
  const Table& table = data.collectives;
  FitTask task;
  auto bytes = std::make_shared<std::vector<double>>();
  for (const std::size_t i : rows_of(table, box.rows, operation.rows, ranks, 1)) {
    if (table.text(i, "source").find(box.source) == std::string_view::npos) continue;
    bytes->push_back(table.number(i, "bytes"));
    task.measured.push_back(table.number(i, "time_us") * 1e-6);
    task.groups.push_back(static_cast<int>(bytes->size()));
  }
  if (bytes->size() < least_rows) return std::nullopt;
  task.component = "collective";
  task.device = box.device;
  task.variant = fmt::format("{} {}", topology::name(operation.kind), ranks);
  task.form = "alpha + f S / B + gamma sqrt(S)";
  task.source = fmt::format("collectives.csv, {}", box.rows);
  const CollectiveFits& fits = topology::collective_fits(data.devices.at(box.device));
  task.parameters = {{"alpha_us", 10, 1, 500, 0},
                     {"busbw_gb_per_s", fits.nvlink_gb_per_s * 0.8, 20, 3000, 0},
                     {"gamma_us", 5, 0.1, 200, 0}};
  fill_predict(task, bytes, operation.kind, ranks, fits.nvlink_gb_per_s);
  const InDomainFit kept = topology::in_domain_fit(fits, operation.kind, ranks);
  task.committed = {kept.alpha_us, kept.busbw_gb_per_s, kept.gamma_us};
  return task;
}

struct Site {
  const char* device;
  const char* rows;
  int nodes, ranks, per_domain;
  double nic_gb_per_s;
};

// Per-device NIC rates from the sources: EFA 32 x 100 Gb/s a p5 node, 8 x 400 Gb/s elsewhere.
constexpr std::array sites{Site{"h100", "H100 (p5.48xlarge)", 2, 16, 8, 50},
                           Site{"h100", "H100-SXM", 8, 64, 8, 50},
                           Site{"h200", "H200-SXM", 2, 16, 8, 50},
                           Site{"h200", "H200 (p5en.48xlarge)", 16, 128, 8, 50},
                           Site{"b200", "B200-SXM (p6-b200.48xlarge)", 4, 32, 8, 50},
                           Site{"gb200", "GB200-NVL72", 18, 72, 72, 50},
                           Site{"gb200", "GB200-NVL72", 36, 144, 72, 50},
                           Site{"gb200", "GB200-NVL72", 360, 1440, 72, 50},
                           Site{"gb300", "GB300-NVL72", 16, 64, 64, 100},
                           Site{"gb300", "GB300-NVL72", 32, 128, 64, 100}};

// Below this the fabric's own latency rules, which differs by a factor of five between sites and is an input.
constexpr double least_site_bytes = 256e6;

std::optional<FitTask> site_task(const ComponentData& data, const Site& site, const Operation& operation) {
  const Table& table = data.collectives;
  topology::Cluster cluster;
  cluster.device = burst_device(data.devices.at(site.device));
  cluster.nvlink_bandwidth = cluster.device.nvlink_bandwidth;
  cluster.nic_bandwidth = gb_per_s(site.nic_gb_per_s);
  cluster.nic_latency = microseconds(5);
  FitTask task;
  auto bytes = std::make_shared<std::vector<double>>();
  for (const std::size_t i : rows_of(table, site.rows, operation.rows, site.ranks, site.nodes)) {
    if (table.number(i, "bytes") < least_site_bytes) continue;
    bytes->push_back(table.number(i, "bytes"));
    task.measured.push_back(table.number(i, "time_us") * 1e-6);
    task.groups.push_back(static_cast<int>(bytes->size()));
  }
  if (bytes->empty()) return std::nullopt;
  topology::GroupSpan span;
  span.ranks = site.ranks;
  span.nodes = site.nodes;
  span.domains = site.ranks / site.per_domain;
  span.max_per_domain = span.min_per_domain = site.per_domain;
  task.component = "collective_across";
  task.device = site.device;
  task.variant = fmt::format("{} {} on {} domains", topology::name(operation.kind), site.ranks, span.domains);
  task.form = "not fitted";
  task.source = fmt::format("collectives.csv, {}, 256 MB and more", site.rows);
  task.predict = [cluster, bytes, span, kind = operation.kind](std::span<const double>, std::size_t i) {
    return topology::collective_time(cluster, kind, Bytes((*bytes)[i]), span, cluster.nic_bandwidth).time.value;
  };
  return task;
}

}  // namespace

std::vector<FitTask> collective_tasks(const ComponentData& data) {
  std::vector<FitTask> tasks;
  for (const Box& box : boxes) {
    for (const Operation& operation : operations) {
      for (const int ranks : {2, 4, 8}) {
        if (auto task = in_box_task(data, box, operation, ranks)) tasks.push_back(std::move(*task));
      }
    }
  }
  for (const Site& site : sites) {
    for (const Operation& operation : operations) {
      if (auto task = site_task(data, site, operation)) tasks.push_back(std::move(*task));
    }
  }
  return tasks;
}

}  // namespace stepcast::validation
