#include "validation/calibrate/constant_names.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "parallelism/software.h"
#include "topology/catalog_reader.h"
#include "topology/cluster.h"

namespace stepcast::validation {
namespace {

using Catalogue = std::map<std::string, std::vector<std::string>>;

bool any_matches(const std::vector<std::string>& names, const std::string& pattern) {
  return std::any_of(names.begin(), names.end(), [&](const auto& n) { return scenarios::glob_matches(pattern, n); });
}

std::vector<std::string> names_of(const Catalogue& catalogue) {
  std::vector<std::string> names;
  for (const auto& [name, keys] : catalogue) names.push_back(name);
  return names;
}

// Keys of the entries that any of the patterns names; of all, where there is none.
std::vector<std::string> keys_of(const Catalogue& catalogue, const std::vector<std::string>& patterns) {
  std::set<std::string> keys;
  for (const auto& [name, own] : catalogue) {
    const bool concerned = patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) {
                             return scenarios::glob_matches(p, name);
                           });
    if (concerned) keys.insert(own.begin(), own.end());
  }
  return {keys.begin(), keys.end()};
}

void check_entries(const Catalogue& catalogue, const std::vector<std::string>& patterns, const std::string& member,
                   const char* what, std::vector<UnknownName>& unknown) {
  const std::vector<std::string> names = names_of(catalogue);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (any_matches(names, patterns[i])) continue;
    unknown.push_back({fmt::format("/{}/{}", member, i), fmt::format("'{}' is no {} of the catalogue{}", patterns[i],
                                                                     what, suggestion(patterns[i], names))});
  }
}

}  // namespace

Result<ConstantNames> constant_names(const std::filesystem::path& root) {
  ConstantNames names;
  const auto devices = topology::catalog_names(root / "topology" / "catalog" / "devices");
  if (!devices) return devices.errors();
  std::set<std::string> network;
  for (const std::string& name : *devices) {
    const auto cluster = topology::make_cluster(root, name, 1, {});
    if (!cluster) return cluster.errors();
    auto& keys = names.device[cluster->device.name];
    for (const auto& [key, constant] : cluster->device.provenance) keys.push_back("device." + key);
    for (const auto& [key, constant] : cluster->provenance) network.insert("cluster." + key);
  }
  names.cluster.assign(network.begin(), network.end());
  const auto profiles = parallelism::list_software(root);
  if (!profiles) return profiles.errors();
  for (const std::string& name : *profiles) {
    const auto profile = parallelism::load_software(root, name);
    if (!profile) return profile.errors();
    auto& keys = names.software[profile->name];
    for (const auto& fact : parallelism::describe(*profile)) {
      const auto value = nlohmann::ordered_json::parse(fact.value, nullptr, false);
      if (value.is_number()) keys.push_back("software." + fact.key);
      if (!value.is_object()) continue;
      for (const auto& [member, number] : value.items()) {
        if (number.is_number()) keys.push_back("software." + fact.key + "." + member);
      }
    }
  }
  return names;
}

std::vector<UnknownName> unknown_names(const ConstantNames& names, const scenarios::Adjustment& target) {
  std::vector<UnknownName> unknown;
  check_entries(names.device, target.devices, "device", "device", unknown);
  check_entries(names.software, target.software, "software", "software profile", unknown);
  if (!unknown.empty()) return unknown;  // then no key would be found either
  for (std::size_t i = 0; i < target.keys.size(); ++i) {
    const std::string& key = target.keys[i];
    const bool device = key.starts_with("device."), software = key.starts_with("software.");
    const std::vector<std::string> keys = device     ? keys_of(names.device, target.devices)
                                          : software ? keys_of(names.software, target.software)
                                                     : names.cluster;
    if (any_matches(keys, key)) continue;
    const bool named = device ? !target.devices.empty() : software && !target.software.empty();
    unknown.push_back(
        {fmt::format("/keys/{}", i),
         fmt::format("'{}' is no constant of {}{}", key,
                     device     ? (named ? "the devices that are named" : "any device")
                     : software ? (named ? "the software profiles that are named" : "any software profile")
                                : "a cluster",
                     suggestion(key, keys))});
  }
  return unknown;
}

}  // namespace stepcast::validation
