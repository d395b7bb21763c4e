#include "validation/calibrate/component_rows.h"

#include <cmath>
#include <set>

#include <fmt/format.h>

#include "scenarios/scenario.h"
#include "topology/fabric.h"
#include "topology/kernel_cost.h"
#include "validation/components/csv.h"

namespace stepcast::validation {
namespace {

using Json = nlohmann::ordered_json;

constexpr double least_bytes = 8e6;
constexpr double microsecond = 1e-6;

// The cluster that the loader makes of the block under a calibration. The model has no part in it.
Result<topology::Cluster> cluster_of(const Json& cluster, const Json& calibration, const std::filesystem::path& root) {
  const Json attention = {{"heads", 8}, {"kv_heads", 8}, {"head_dim", 128}};
  Json scenario = {{"model",
                    {{"name", "component"},
                     {"hidden", 1024},
                     {"vocab", 1024},
                     {"layers", 1},
                     {"dense_ffn", 4096},
                     {"attention", attention}}},
                   {"cluster", cluster},
                   {"software", "generic"}};
  if (!calibration.empty()) scenario["calibration"] = calibration;
  scenarios::ScenarioRequest request;
  request.text = scenario.dump();
  request.text_name = "component";
  request.catalog_root = root;
  request.check_layout = false;
  auto loaded = scenarios::load_scenario(request);
  if (!loaded) return loaded.errors();
  return std::move(loaded->spec.cluster);
}

Observation component(std::string id, const std::string& family, const std::string& device, double seconds) {
  Observation o;
  o.id = std::move(id);
  o.ids = {o.id};
  o.family = family;
  o.kind = "dense";
  o.device = device;
  o.software = "generic";
  o.component = true;
  o.measured_s = seconds;
  return o;
}

struct KernelRow {
  std::string device;
  bool sustained = false;
  double m = 0, n = 0, k = 0, bytes = 0;
  std::optional<topology::Precision> precision;
};

double kernel_time(topology::Device device, const KernelRow& row) {
  if (!row.sustained) device.sustained_gemm = 1;
  if (row.m > 0) return topology::gemm_time(device, *row.precision, {row.m, row.n, row.k, 0}).value;
  return topology::membound_time(device, Bytes(row.bytes), 1).value;
}

// The reason why a row cannot be used, or empty.
std::string read_row(const Table& table, std::size_t i, bool gemm, const topology::Device& device, KernelRow& row) {
  row.device = std::string(table.text(i, "device"));
  row.sustained = table.text(i, "sustained") == "on";
  if (!(table.number(i, "time_us") > 0)) return "time_us is no time above 0";
  if (!gemm) {
    row.bytes = table.number(i, "bytes");
    return row.bytes >= 1 && row.bytes < 1e15 ? "" : "bytes is no size of 1 and more";
  }
  row.m = table.number(i, "m");
  row.n = table.number(i, "n");
  row.k = table.number(i, "k");
  for (const double extent : {row.m, row.n, row.k}) {
    if (!(extent >= 1 && extent < 1e9)) return "m, n or k is no size of 1 and more";
  }
  const std::string precision(table.text(i, "precision"));
  row.precision = topology::precision_named(precision);
  if (!row.precision || !device.gemm.contains(*row.precision))
    return fmt::format("device {} has no GEMM constants for precision '{}'", row.device, precision);
  const double rate = 2 * row.m * row.n * row.k / (table.number(i, "time_us") * microsecond);
  const double peak = device.peak_flops.at(*row.precision);
  if (rate > peak) return fmt::format("{:.4g} TFLOP/s, above the device's peak of {:.4g}", rate / 1e12, peak / 1e12);
  return {};
}

}  // namespace

Result<Observations> observe_nccl(const NcclOutput& output, const NcclSite& site, const std::filesystem::path& root) {
  Json cluster = {{"device", site.device}, {"devices", output.ranks}};
  if (output.nodes > 0 && output.ranks % output.nodes == 0) cluster["devices_per_node"] = output.ranks / output.nodes;
  if (site.nic_gb_per_s > 0) cluster["nic_gb_per_s"] = site.nic_gb_per_s;
  const auto plain = cluster_of(cluster, {}, root);
  if (!plain) return plain.errors();
  Observations out;
  const std::string family = std::filesystem::path(output.file).filename().string();
  for (const DamagedLine& d : output.damaged) out.refused.push_back({family, d.line, d.why});
  for (const NcclRow& row : output.rows) {
    if (row.bytes < least_bytes) continue;
    const NcclSide& side = row.out_of_place ? *row.out_of_place : *row.in_place;
    Observation o = component(fmt::format("{}:{}", family, row.line), family, plain->device.name, side.time_s);
    o.devices = output.ranks;
    o.forecast = [cluster, root, kind = output.kind, bytes = row.bytes](
                     const Json& calibration, const std::vector<std::string>&) -> Result<double> {
      const auto at = cluster_of(cluster, calibration, root);
      if (!at) return at.errors();
      const topology::Fabric fabric(*at);
      const auto members = topology::place_ranks(fabric, at->devices);
      const auto span = fabric.span(members);
      return topology::collective_time(*at, kind, Bytes(bytes), span, fabric.cross_domain_rate(members)).time.value;
    };
    out.rows.push_back(std::move(o));
  }
  if (out.rows.empty())
    return make_error(ErrorCode::invalid, "no row of 8 MB or more: only latency is measured", output.file);
  return out;
}

Result<Observations> observe_kernels(const std::filesystem::path& file, const std::filesystem::path& root) {
  const auto table = Table::read(file);
  if (!table) return table.errors();
  const bool gemm = table->has_column("m") && table->has_column("n") && table->has_column("k");
  if (!table->has_column("device") || !table->has_column("time_us") || (!gemm && !table->has_column("bytes"))) {
    return make_error(ErrorCode::invalid, "expected the columns device, time_us and either m, n, k, precision or bytes",
                      file.string());
  }
  Observations out;
  const std::string family = file.filename().string();
  for (std::size_t i = 0; i < table->rows(); ++i) {
    const std::string name(table->text(i, "device"));
    const auto device = topology::load_device(root, name);
    if (!device) return device.errors();
    KernelRow row;
    const std::string why = read_row(*table, i, gemm, *device, row);
    const int line = static_cast<int>(table->line(i));
    if (!why.empty()) {
      out.refused.push_back({family, line, why});
      continue;
    }
    Observation o =
        component(fmt::format("{}:{}", family, line), family, name, table->number(i, "time_us") * microsecond);
    o.forecast = [row, root](const Json& calibration, const std::vector<std::string>&) -> Result<double> {
      const auto at = cluster_of(Json{{"device", row.device}, {"devices", 1}}, calibration, root);
      if (!at) return at.errors();
      return kernel_time(at->device, row);
    };
    out.rows.push_back(std::move(o));
  }
  if (out.rows.empty()) return make_error(ErrorCode::invalid, "no row can be used", file.string());
  return out;
}

}  // namespace stepcast::validation
