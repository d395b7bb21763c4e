// The blocks that name things: calibration, software, model, cluster, and the root.
#include <array>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "models/catalog.h"
#include "scenarios/calibration.h"
#include "scenarios/draft.h"
#include "scenarios/overrides.h"
#include "sim/base/text.h"
#include "topology/device_constants.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

// Members of `source` that the scenario's block does not give; each is then known as the calibration's.
void merge_absent(Draft& draft, const char* key, const Json& source, const std::string& label) {
  Json& block = draft.tree[key];
  if (block.is_null()) block = Json::object();
  if (!block.is_object()) return;  // its reader complains
  for (const auto& [member, value] : source.items()) {
    if (block.contains(member) && !block[member].is_null()) continue;
    block[member] = value;
    draft.overrides.push_back({std::string("/") + key + pointer_step(member), label});
  }
}

// The model's block without the members that say which model it is.
Json overrides_of_model(const Json& block) {
  Json rest = block;
  for (const char* key : {"name", "config"}) rest.erase(key);
  return rest;
}

// Errors of another reader, moved to the member of the scenario that they are about.
void adopt(Draft& draft, const Errors& errors, const std::string& block, const std::string& member) {
  for (Error error : errors) {
    const std::string inner = pointer_in(error.where);
    if (!error.where.starts_with(draft.document->file + ":")) {
      error.where = draft.document->where(inner.empty() ? block + member : block + inner);
    }
    draft.errors.push_back(std::move(error));
  }
}

Result<models::Model> import_config(Draft& draft, const std::string& path, const Json& rest) {
  const auto file = draft.locate(path);
  auto model = models::read_model_file(file);
  if (!model || rest.empty()) return model;
  Json description = models::model_to_json(*model);
  description.merge_patch(rest);
  JsonDocument merged{description, "model with overrides", nullptr};
  return models::parse_model(merged, merged.root, "");
}

// All members that topology::ClusterOverrides has, by their keys.
topology::ClusterOverrides read_cluster_overrides(JsonFields& fields) {
  constexpr int many = topology::max_devices;
  constexpr double wide = 1e6;
  topology::ClusterOverrides o;
  const auto count = [&](const char* key, std::optional<int>& target) {
    if (const auto v = fields.integer(key, 1, many)) target = static_cast<int>(*v);
  };
  const auto number = [&](const char* key, std::optional<double>& target, double low, double high) {
    if (const auto v = fields.number(key, low, high)) target = *v;
  };
  count("devices", o.devices);
  count("devices_per_node", o.devices_per_node);
  count("nvlink_domain", o.nvlink_domain);
  count("domain_devices", o.domain_devices);
  count("rails", o.rails);
  count("leaf_radix", o.leaf_radix);
  number("nvlink_gb_per_s", o.nvlink_gb_per_s, 0.001, wide);
  number("nic_gb_per_s", o.nic_gb_per_s, 0.001, wide);
  number("oversubscription", o.oversubscription, 0.1, 1000);
  number("nvlink_latency_us", o.nvlink_latency_us, 0, wide);
  number("nic_latency_us", o.nic_latency_us, 0, wide);
  number("switch_latency_us", o.switch_latency_us, 0, wide);
  number("nic_efficiency", o.nic_efficiency, 0.01, 1);
  number("sustained_gemm", o.sustained_gemm, 0.01, 2);
  number("hbm_bandwidth_gb_per_s", o.hbm_bandwidth_gb_per_s, 1, wide);
  number("hbm_gib", o.hbm_gib, 0.1, wide);
  o.rail_optimised = fields.boolean("rail_optimised");
  o.pxn = fields.boolean("pxn");
  if (const auto i = fields.choice("placement", {"packed", "scattered"})) {
    o.placement = static_cast<topology::Placement>(*i);
  }
  if (const auto i = fields.choice("routing", {"sprayed", "hashed"})) o.routing = static_cast<topology::Routing>(*i);
  return o;
}

// Constants of the device that the scenario replaces, by their keys.
std::map<std::string, double> read_device_constants(JsonFields& fields) {
  std::map<std::string, double> constants;
  if (!fields.object("constants")) return constants;
  for (const auto& [key, value] : fields.find("constants")->items()) {
    if (value.is_number()) {
      constants[key] = value.get<double>();
    } else {
      fields.fail("constants", fmt::format("{} is {}; a number is expected", key, shown(value)));
    }
  }
  return constants;
}

Result<topology::Cluster> with_constants(const Draft& draft, topology::Cluster cluster,
                                         const std::map<std::string, double>& constants,
                                         const topology::ClusterOverrides& overrides) {
  if (constants.empty()) return cluster;
  auto device = topology::load_device(draft.catalog_root, cluster.device.name, constants);
  if (!device) return device.errors();
  cluster.device = std::move(*device);
  topology::ClusterOverrides of_device;
  of_device.sustained_gemm = overrides.sustained_gemm;
  of_device.hbm_bandwidth_gb_per_s = overrides.hbm_bandwidth_gb_per_s;
  of_device.hbm_gib = overrides.hbm_gib;
  return topology::apply_overrides(std::move(cluster), of_device);
}

// The preset is loaded with one device and then given its count, so that the count is judged with the box of the
// overrides and not with the preset's.
Result<topology::Cluster> load_cluster(const Draft& draft, const std::optional<std::string>& preset,
                                       const std::optional<std::string>& device, topology::ClusterOverrides overrides) {
  if (device) return topology::make_cluster(draft.catalog_root, *device, *overrides.devices, overrides);
  const auto colon = preset->find(':');
  if (colon != std::string::npos) {
    auto counted = topology::load_cluster(draft.catalog_root, *preset);
    const std::string count = preset->substr(colon + 1);
    const bool whole = !count.empty() && count.size() < 8 && count.find_first_not_of("0123456789") == std::string::npos;
    if (!whole || std::stoi(count) < 1 || std::stoi(count) > topology::max_devices) return counted;
    if (!overrides.devices) overrides.devices = std::stoi(count);
  }
  const std::string name = preset->substr(0, colon);
  auto cluster = topology::load_cluster(draft.catalog_root, name + ":1");
  if (!cluster) return cluster;
  cluster->name = fmt::format("{}:{}", name, *overrides.devices);
  return topology::apply_overrides(std::move(*cluster), overrides);
}

void adopt_cluster_errors(Draft& draft, const Errors& errors) {
  constexpr std::string_view prefix = "cluster.";
  const bool preset = draft.given("/cluster/preset");
  for (Error error : errors) {
    std::string pointer = preset ? "/cluster/preset" : "/cluster/device";
    if (error.where.starts_with(prefix)) pointer = "/cluster/" + error.where.substr(prefix.size());
    if (!draft.given(pointer) && draft.given("/cluster/devices") && pointer == "/cluster/devices_per_node") {
      pointer = "/cluster/devices";
    }
    // A fault inside the catalogue keeps its own place.
    if (error.where.find(".json") == std::string::npos) error.where = draft.document->where(pointer);
    draft.errors.push_back(std::move(error));
  }
}

}  // namespace

void read_calibration(Draft& draft) {
  if (!draft.given("/calibration")) return;
  JsonFields fields = draft.block("calibration");
  const auto file = fields.text("file");
  if (!file) {
    // An inline profile: its own members.
    Json profile = draft.tree["calibration"];
    if (!profile.is_object()) return;
    for (const char* key : {"cluster", "software"}) {
      if (fields.object(key)) merge_absent(draft, key, profile[key], "calibration");
    }
    fields.find("adjust");  // adjust_constants reads it, when device and software are known
    for (const char* key : {"schema", "name", "report"}) fields.find(key);
    fields.refuse_unknown({"file"});
    return;
  }
  fields.refuse_unknown({"cluster", "software", "adjust"});
  const auto profile = read_json_file(draft.locate(*file));
  if (!profile) {
    for (const Error& error : profile.errors()) {
      draft.fail("/calibration", fmt::format("calibration {}: {} ({})", *file, error.message, error.where), error.code);
    }
    return;
  }
  JsonFields members(*profile, profile->root, "", draft.errors);
  for (const char* key : {"cluster", "software"}) {
    if (members.object(key)) merge_absent(draft, key, profile->root[key], "calibration " + *file);
  }
  if (const Json* adjust = members.find("adjust")) {
    static_cast<void>(read_adjustments(members));  // faults at their place in the file
    draft.tree["calibration"]["adjust"] = *adjust;
  }
  for (const char* key : {"schema", "name", "report"}) members.find(key);
  members.refuse_unknown();
  draft.assume(
      fmt::format("calibration {}: replaces values of the cluster and the software that the scenario does not "
                  "give",
                  *file));
}

namespace {

// A value by device under a name that no device has would be a value that does nothing: a slip of a known name is an
// error, another name (a device of another catalogue in a profile) is said.
void check_device_names(Draft& draft) {
  const auto devices = topology::list_devices(draft.catalog_root);
  if (!devices || !draft.tree.contains("software") || !draft.tree["software"].is_object()) return;
  std::vector<std::string> known = *devices;
  known.emplace_back("default");
  const Json& block = draft.tree["software"];
  for (const std::string& key : parallelism::software_keys_by_device()) {
    if (!block.contains(key) || !block[key].is_object()) continue;
    for (const auto& [device, value] : block[key].items()) {
      if (std::find(known.begin(), known.end(), device) != known.end()) continue;
      const std::string small = lower_case(device);
      if (nearest_name(small, known)) {
        draft.fail(fmt::format("/software/{}{}", key, pointer_step(device)),
                   fmt::format("unknown device {}{}", shown_name(device), suggestion(small, known)));
      } else {
        draft.assume(fmt::format("software.{} of {}: no device of the catalogue, without effect", key, device));
      }
    }
  }
}

}  // namespace

void read_software(Draft& draft) {
  JsonFields fields = draft.block("software");
  const auto name = fields.text("name");
  if (!name) draft.assume("software not named: profile generic");
  auto profile = parallelism::load_software(draft.catalog_root, name.value_or("generic"));
  if (!profile) {
    for (const Error& e : profile.errors()) {
      const bool unknown = e.where.empty();
      draft.errors.push_back(unknown ? make_error(e.code, e.message, draft.document->where("/software/name")) : e);
    }
    return;
  }
  draft.spec.software = std::move(*profile);
  const std::size_t before = draft.errors.size();
  parallelism::read_software_values(fields, "scenario", draft.spec.software);
  fields.refuse_unknown();
  check_device_names(draft);
  draft.software_ok = draft.errors.size() == before;
  if (const auto block = draft.tree.find("software"); block != draft.tree.end() && block->is_object()) {
    draft.software_values = *block;
    draft.software_values.erase("name");
  }
}

void read_model(Draft& draft) {
  if (!draft.given("/model")) {
    draft.fail("/model",
               "key 'model' is missing: a catalogue name, the path of a model file or config.json, or a description");
    return;
  }
  const Json& block = draft.tree["model"];
  JsonFields fields = draft.block("model");
  if (!block.is_object()) return;
  const auto name = fields.text("name");
  const auto config = fields.text("config");
  const bool description = fields.has("hidden") && fields.has("vocab") && !config;
  if (!name && !config && !description) {
    if (!fields.has("name") && !fields.has("config")) {
      draft.fail("/model",
                 "the model needs a catalogue 'name', a 'config' (path of a model file or config.json), or a whole "
                 "description (hidden, vocab, layers, attention, ...)");
    }
    return;
  }
  const Json rest = overrides_of_model(block);
  auto model = description    ? models::parse_model(*draft.document, block, "/model")
               : config       ? import_config(draft, *config, rest)
               : rest.empty() ? models::load_model(draft.catalog_root, *name)
                              : models::load_model(draft.catalog_root, *name, rest);
  if (!model) {
    if (config && rest.empty()) {
      // Positions inside the config stand, so they are kept; where it cannot be read, the scenario's key is named too.
      for (Error e : model.errors()) {
        if (e.where.find(':') == std::string::npos || e.code == ErrorCode::not_found) {
          e = make_error(e.code, fmt::format("{}: {}", *config, e.message), draft.document->where("/model/config"));
        }
        draft.errors.push_back(std::move(e));
      }
    } else {
      adopt(draft, model.errors(), "/model", config ? "/config" : "/name");
    }
    return;
  }
  draft.spec.model = std::move(*model);
  draft.model_ok = true;
  if (draft.spec.model.mtp_layers > 0 && !draft.given("/model/mtp_layers") && !description) {
    draft.assume(fmt::format("model {}: its {} MTP module(s) are trained (model.mtp_layers 0 leaves them out)",
                             draft.spec.model.name, draft.spec.model.mtp_layers));
  }
}

void read_cluster(Draft& draft) {
  if (!draft.given("/cluster")) {
    draft.fail("/cluster", "key 'cluster' is missing: \"h800:2048\", or an object with device and devices");
    return;
  }
  if (!draft.tree["cluster"].is_object()) {
    static_cast<void>(draft.block("cluster"));
    return;
  }
  JsonFields fields = draft.block("cluster");
  const std::size_t before = draft.errors.size();
  const auto preset = fields.text("preset");
  const auto device = fields.text("device");
  const topology::ClusterOverrides overrides = read_cluster_overrides(fields);
  const std::map<std::string, double> constants = read_device_constants(fields);
  fields.refuse_unknown();
  if (preset && device) draft.fail("/cluster/device", "the cluster has a preset and a device; give one of them");
  if (!preset && !device && !fields.has("preset") && !fields.has("device")) {
    draft.fail("/cluster", "the cluster needs a preset (\"h800\" or \"h800:2048\") or a device");
  }
  const bool counted = preset && preset->find(':') != std::string::npos;
  if (!counted && !fields.has("devices")) draft.fail("/cluster", "key 'devices' of the cluster is missing");
  if (draft.errors.size() != before) return;

  auto cluster = load_cluster(draft, preset, device, overrides);
  if (cluster) cluster = with_constants(draft, std::move(*cluster), constants, overrides);
  if (!cluster) {
    adopt_cluster_errors(draft, cluster.errors());
    return;
  }
  draft.spec.cluster = std::move(*cluster);
  draft.cluster_ok = true;
  draft.cluster = draft.tree["cluster"];
  if (counted) draft.cluster["preset"] = preset->substr(0, preset->find(':'));
  draft.cluster["devices"] = draft.spec.cluster.devices;
}

void read_root(Draft& draft) {
  JsonFields fields(*draft.document, draft.tree, "", draft.errors);
  fields.read("name", draft.name);
  fields.read("description", draft.description);
  std::string schema;
  fields.read("schema", schema);
  if (const auto seed = fields.integer("seed", 0, std::numeric_limits<std::int64_t>::max())) {
    draft.spec.seed = static_cast<std::uint64_t>(*seed);
  }
  for (const char* key :
       {"model", "cluster", "parallelism", "workload", "precision", "recompute", "routing", "software", "overlap",
        "runtime", "noise", "fabric", "offload", "reliability", "calibration"}) {
    fields.find(key);
  }
  fields.refuse_unknown();
}

}  // namespace stepcast::scenarios
