#include "topology/cluster.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/file_cache.h"
#include "topology/cluster_network.h"

namespace stepcast::topology {

namespace {

namespace fs = std::filesystem;

struct PresetFile {
  ClusterPreset preset;
  bool usual_box = false;  // the network a cluster of the bare device gets
  bool rail_optimised = true;
  bool pxn = true;
  Routing routing = Routing::sprayed;
  std::map<std::string, Constant> constants;
};

Result<PresetFile> parse_preset(const fs::path& file, const std::string& preset) {
  const auto document = read_json_file(file);
  if (!document) return document.errors();
  CatalogReader reader(*document);
  reader.object("", {"name", "summary", "device", "constants"}, {"usual_box", "rail_optimised", "pxn", "routing"});
  PresetFile read;
  read.preset = {reader.text("/name"), reader.text("/summary"), reader.text("/device")};
  if (read.preset.name != preset && reader.errors().empty()) {
    reader.fail("/name", fmt::format("found '{}', expected '{}', the file's name", read.preset.name, preset));
  }
  read.usual_box = reader.flag("/usual_box", false);
  read.rail_optimised = reader.flag("/rail_optimised", true);
  read.pxn = reader.flag("/pxn", true);
  read.routing = reader.choice("/routing", {"sprayed", "hashed"}) == "hashed" ? Routing::hashed : Routing::sprayed;
  read.constants = reader.constants("/constants", network_keys());
  if (!reader.errors().empty()) return reader.errors();
  return read;
}

Result<PresetFile> read_preset(const fs::path& root, const std::string& preset) {
  const auto file = catalog_file(root / "topology/catalog/clusters", preset, "cluster preset");
  if (!file) return file.errors();
  static FileCache<PresetFile> cache;
  return cache.get(*file, preset, [&] { return parse_preset(*file, preset); });
}

// Box numbers come from the device, network numbers from the generic fabric; the preset's own win.
Cluster assemble(Device device, const PresetFile* preset) {
  Cluster c;
  c.provenance = generic_network();
  for (const char* key : {"devices_per_node", "nvlink_domain", "nvlink_gb_per_s", "nic_gb_per_s"}) {
    c.provenance[key] = device.provenance.at(key);
  }
  c.scale_up = device.scale_up;
  if (preset != nullptr) {
    for (const auto& [key, constant] : preset->constants) c.provenance[key] = constant;
    c.rail_optimised = preset->rail_optimised;
    c.pxn = preset->pxn;
    c.routing = preset->routing;
  }
  c.provenance.try_emplace("rails", Constant{c.provenance.at("devices_per_node").value, Provenance::assumption,
                                             "one NIC and one rail a device"});
  c.device = std::move(device);
  take_network(c);
  return c;
}

Result<Cluster> of_device(const fs::path& root, const std::string& device) {
  auto loaded = load_device(root, device);
  if (!loaded) return loaded.errors();
  const auto names = catalog_names(root / "topology/catalog/clusters");
  if (!names) return names.errors();
  for (const std::string& preset : *names) {
    const auto file = read_preset(root, preset);
    if (!file) return file.errors();
    if (file->usual_box && file->preset.device == device) return assemble(std::move(*loaded), &*file);
  }
  return assemble(std::move(*loaded), nullptr);
}

Result<Cluster> of_name(const fs::path& root, const std::string& wanted) {
  const auto presets = catalog_names(root / "topology/catalog/clusters");
  if (!presets) return presets.errors();
  if (std::ranges::find(*presets, wanted) != presets->end()) {
    const auto file = read_preset(root, wanted);
    if (!file) return file.errors();
    auto device = load_device(root, file->preset.device);
    if (!device) return device.errors();
    return assemble(std::move(*device), &*file);
  }
  const auto devices = list_devices(root);
  if (!devices) return devices.errors();
  if (std::ranges::find(*devices, wanted) != devices->end()) return of_device(root, wanted);
  return make_error(ErrorCode::not_found,
                    fmt::format("unknown cluster preset '{}'{}; known: {}", wanted.substr(0, 60),
                                suggestion(wanted, *presets), fmt::join(*presets, ", ")),
                    "cluster");
}

Result<int> parse_count(const std::string& preset, const std::string& count) {
  const auto bad = [&](const std::string& what) {
    return make_error(ErrorCode::invalid,
                      fmt::format("device count '{}' {}; expected {}:COUNT with a whole number from 1 to {}",
                                  count.substr(0, 40), what, preset, max_devices),
                      "cluster");
  };
  const bool negative = count.size() > 1 && count.front() == '-';
  const std::string digits = negative ? count.substr(1) : count;
  if (digits.empty() || !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) {
    return bad(digits.empty() ? "is missing" : "is not a whole number");
  }
  if (negative) return bad("is negative");
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || value > max_devices) return bad("is too large");
  if (value == 0) return bad("is zero");
  return value;
}

}  // namespace

std::string_view name(Placement placement) { return placement == Placement::packed ? "packed" : "scattered"; }
std::string_view name(Routing routing) { return routing == Routing::sprayed ? "sprayed" : "hashed"; }

std::optional<Placement> placement_named(std::string_view text) {
  if (text == "packed") return Placement::packed;
  if (text == "scattered") return Placement::scattered;
  return std::nullopt;
}

std::optional<Routing> routing_named(std::string_view text) {
  if (text == "sprayed") return Routing::sprayed;
  if (text == "hashed") return Routing::hashed;
  return std::nullopt;
}

Result<std::vector<ClusterPreset>> list_clusters(const fs::path& catalog_root) {
  const auto names = catalog_names(catalog_root / "topology/catalog/clusters");
  if (!names) return names.errors();
  std::vector<ClusterPreset> presets;
  Errors errors;
  for (const std::string& preset : *names) {
    auto file = read_preset(catalog_root, preset);
    if (file) {
      presets.push_back(std::move(file->preset));
    } else {
      errors.insert(errors.end(), file.errors().begin(), file.errors().end());
    }
  }
  if (!errors.empty()) return errors;
  return presets;
}

Result<Cluster> load_cluster(const fs::path& catalog_root, const std::string& preset_and_count) {
  const std::size_t colon = preset_and_count.find(':');
  const std::string preset = preset_and_count.substr(0, colon);
  auto cluster = of_name(catalog_root, preset);
  if (!cluster) return cluster.errors();
  const auto count = parse_count(preset, colon == std::string::npos ? "" : preset_and_count.substr(colon + 1));
  if (!count) return count.errors();
  cluster->name = fmt::format("{}:{}", preset, *count);
  ClusterOverrides overrides;
  overrides.devices = *count;
  return apply_overrides(std::move(*cluster), overrides);
}

Result<Cluster> make_cluster(const fs::path& catalog_root, const std::string& device, int devices,
                             const ClusterOverrides& overrides) {
  auto cluster = of_device(catalog_root, device);
  if (!cluster) return cluster.errors();
  cluster->name = "inline";
  ClusterOverrides with_count = overrides;
  if (!with_count.devices) with_count.devices = devices;
  return apply_overrides(std::move(*cluster), with_count);
}

namespace {

// Writes overrides into the provenance map, checked against the keys' ranges.
class Overrider {
 public:
  Overrider(std::map<std::string, Constant>& constants, Errors& errors) : constants_(constants), errors_(errors) {}

  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (!value) return;
    for (const ConstantKey& known : network_keys()) {
      if (known.key == key && checked(key, static_cast<double>(*value), known.minimum, known.maximum)) {
        constants_[key] = {static_cast<double>(*value), Provenance::given, "stated in the scenario"};
      }
    }
  }

  bool checked(const char* key, double value, double minimum, double maximum) {
    if (value >= minimum && value <= maximum) return true;
    errors_.push_back(make_error(ErrorCode::invalid,
                                 fmt::format("found {}, allowed: {} to {}", value, minimum, maximum),
                                 fmt::format("cluster.{}", key)));
    return false;
  }

  // A number that was one per device of a box stays so when the box changes.
  void follow(const char* key, double before, bool stated) {
    const double now = constants_.at("devices_per_node").value;
    if (stated || now == before || constants_.at(key).value != before) return;
    constants_[key] = {now, Provenance::assumption, "follows devices_per_node"};
  }

 private:
  std::map<std::string, Constant>& constants_;
  Errors& errors_;
};

void override_device(Device& device, const ClusterOverrides& o, Overrider& check) {
  const auto set = [&](const char* flag, const char* key, const std::optional<double>& value, double low, double high) {
    if (!value || !check.checked(flag, *value, low, high)) return false;
    device.provenance[key] = {*value, Provenance::given, "stated in the scenario"};
    return true;
  };
  if (set("sustained_gemm", "sustained_gemm.value", o.sustained_gemm, 0.05, 2)) {
    // Power and clocks act on all products alike.
    const double clocks = *o.sustained_gemm / device.sustained_gemm;  // which attention's tensor work runs at too
    device.sustained_fp8 *= clocks;
    for (auto& [generation, fit] : device.attention) {
      fit.e_forward *= clocks;
      fit.e_backward *= clocks;
    }
    device.sustained_gemm = *o.sustained_gemm;
  }
  if (set("hbm_bandwidth_gb_per_s", "hbm_bandwidth_gb_per_s", o.hbm_bandwidth_gb_per_s, 1, 1e6)) {
    device.hbm_bandwidth = gb_per_s(*o.hbm_bandwidth_gb_per_s);
  }
  if (set("hbm_gib", "hbm_usable_gib", o.hbm_gib, 1, 1e5)) device.hbm = gib(*o.hbm_gib);
}

}  // namespace

Result<Cluster> apply_overrides(Cluster cluster, const ClusterOverrides& o) {
  Errors errors;
  complete(cluster);
  Overrider set(cluster.provenance, errors);
  const double box_before = cluster.devices_per_node;
  set("devices_per_node", o.devices_per_node);
  set("nvlink_domain", o.nvlink_domain);
  set("domain_devices", o.domain_devices);
  set("rails", o.rails);
  set("leaf_radix", o.leaf_radix);
  set("nvlink_gb_per_s", o.nvlink_gb_per_s);
  set("nic_gb_per_s", o.nic_gb_per_s);
  set("oversubscription", o.oversubscription);
  set("nvlink_latency_us", o.nvlink_latency_us);
  set("nic_latency_us", o.nic_latency_us);
  set("switch_latency_us", o.switch_latency_us);
  set("nic_efficiency", o.nic_efficiency);
  set.follow("nvlink_domain", box_before, o.nvlink_domain.has_value());
  set.follow("rails", box_before, o.rails.has_value());
  override_device(cluster.device, o, set);
  if (o.rail_optimised) cluster.rail_optimised = *o.rail_optimised;
  if (o.pxn) cluster.pxn = *o.pxn;
  if (o.placement) cluster.placement = *o.placement;
  if (o.routing) cluster.routing = *o.routing;
  if (o.devices) {
    cluster.devices = *o.devices;
    const std::size_t colon = cluster.name.find(':');
    if (colon != std::string::npos) cluster.name = fmt::format("{}:{}", cluster.name.substr(0, colon), *o.devices);
  }
  if (!errors.empty()) return errors;
  take_network(cluster);
  errors = settle(cluster);
  if (!errors.empty()) return errors;
  return cluster;
}

std::vector<Fact> describe(const Cluster& cluster) {
  std::vector<Fact> facts;
  const auto computed = [&](const char* key, double value) {
    facts.push_back({key, value, {}, Provenance::given, "from the scenario"});
  };
  computed("devices", cluster.devices);
  computed("nodes", cluster.nodes());
  computed("nvlink_domains", cluster.domains());
  computed("nvlink_domain_used", cluster.nvlink_domain);
  for (const auto& [key, constant] : cluster.provenance) {
    facts.push_back(
        {key, constant.value, key == "leaf_radix" ? "nodes" : unit_of(key), constant.provenance, constant.source});
  }
  for (Fact& fact : describe(cluster.device)) {
    fact.key = "device." + fact.key;
    facts.push_back(std::move(fact));
  }
  return facts;
}

}  // namespace stepcast::topology
