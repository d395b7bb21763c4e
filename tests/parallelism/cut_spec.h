// Specifications of few layers with the shapes of catalogue models, and what lowering says of those that it refuses.
#pragma once

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "models/catalog.h"
#include "parallelism/lower.h"
#include "topology/cluster.h"

namespace stepcast::parallelism::testing {

inline const std::filesystem::path root = STEPCAST_SOURCE_DIR;

// `layers` of the model's last kind without MTP, profile generic: no noise and no skew.
inline StepSpec cut_spec(const std::string& model, const std::string& cluster, int layers, int sequence_length) {
  StepSpec spec;
  spec.model = models::load_model(root, model).value();
  spec.model.layers.assign(static_cast<std::size_t>(layers), spec.model.layers.back());
  spec.model.mtp_layers = 0;
  spec.cluster = topology::load_cluster(root, cluster).value();
  spec.software = load_software(root, "generic").value();
  spec.workload.sequence_length = sequence_length;
  return spec;
}

inline void check_refused(const StepSpec& spec, const std::string& key, const std::string& says) {
  const auto step = lower(spec);
  REQUIRE(!step.ok());
  INFO(step.errors().front().message);
  CHECK(step.errors().front().where == key);
  CHECK(step.errors().front().message.find(says) != std::string::npos);
}

}  // namespace stepcast::parallelism::testing
