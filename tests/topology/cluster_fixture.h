// Clusters for tests: presets of the repository's catalogue, changed by overrides.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "topology/cluster.h"

namespace stepcast::topology {

inline std::filesystem::path catalog_root() { return STEPCAST_SOURCE_DIR; }

inline std::string messages(const Errors& errors) {
  std::string text;
  for (const Error& e : errors) text += e.where + ": " + e.message + "\n";
  return text;
}

inline Cluster cluster_of(const std::string& preset_and_count, const ClusterOverrides& overrides = {}) {
  auto cluster = load_cluster(catalog_root(), preset_and_count);
  INFO((cluster ? "" : messages(cluster.errors())));
  REQUIRE(cluster);
  auto changed = apply_overrides(std::move(*cluster), overrides);
  INFO((changed ? "" : messages(changed.errors())));
  REQUIRE(changed);
  return std::move(*changed);
}

}  // namespace stepcast::topology
