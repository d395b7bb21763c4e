// A scenario while it is being read: the tree, what came of it so far, and every error.
//
// Blocks are read one after the other into `spec`, which starts with the
// defaults of the software profile. Reading never stops at an error. Internal
// to scenarios/.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "parallelism/step_spec.h"
#include "scenarios/overrides.h"
#include "sim/base/error.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios {

struct Draft {
  const JsonDocument* document = nullptr;
  nlohmann::ordered_json tree;  // with flags applied and short forms expanded
  std::filesystem::path catalog_root;
  std::filesystem::path folder;     // of the scenario file; paths in it are relative to it
  std::vector<Override> overrides;  // what did not come from the scenario's text
  Errors errors;

  std::string name, description;
  parallelism::StepSpec spec;
  nlohmann::ordered_json cluster;  // as it goes into the resolved scenario: catalogue name and what was given
  nlohmann::ordered_json reliability = nlohmann::ordered_json::object();  // checked, for `run`
  nlohmann::ordered_json software_values =
      nlohmann::ordered_json::object();  // values of the profile that the scenario replaces
  bool histogram_given = false;          // routing.skew came from a list or a file
  std::string skew;                      // else its text
  std::string documents;                 // workload.document_lengths as text, "" if a list or a file
  std::vector<std::string> assumptions, warnings;
  bool model_ok = false, cluster_ok = false, software_ok = false;

  // A block of the scenario; an absent one reads as an empty object.
  [[nodiscard]] JsonFields block(const char* key);
  // Whether the scenario itself gives this value ("/parallelism/ep"; null counts as absent).
  [[nodiscard]] bool given(const std::string& pointer) const;
  void fail(const std::string& pointer, std::string message, ErrorCode code = ErrorCode::invalid);
  void assume(std::string what) { assumptions.push_back(std::move(what)); }
  // A path from the scenario: as it is if absolute, else from the scenario's folder, else from the working directory.
  [[nodiscard]] std::filesystem::path locate(const std::string& path) const;
};

// Each reads its blocks, with defaults from what was read before it; in this order.
void read_calibration(Draft& draft);  // calibration: merges into cluster and software what they do not give
void read_software(Draft& draft);     // software
void read_model(Draft& draft);        // model
void read_cluster(Draft& draft);      // cluster
void read_parallelism(Draft& draft);  // parallelism
void read_workload(Draft& draft);     // workload
void read_precision(Draft& draft);    // precision
void read_recompute(Draft& draft);    // recompute
void read_routing(Draft& draft);      // routing
void read_overlap(Draft& draft);      // overlap, offload
void read_runtime(Draft& draft);      // runtime
void read_noise(Draft& draft);        // noise: what makes sampled steps differ
void read_fabric(Draft& draft);       // fabric: how links are shared
void read_reliability(Draft& draft);  // reliability
void read_root(Draft& draft);         // name, description, seed, and the unknown blocks

// What needs several blocks: layout, stages, batch, precision of the device, expert degrees.
void settle_batch(Draft& draft);  // a global batch where none is given
void check_layout(Draft& draft);

[[nodiscard]] nlohmann::ordered_json noise_json(const parallelism::Noise& noise);

// The complete scenario, which read again gives the same specification.
[[nodiscard]] nlohmann::ordered_json resolved_json(const Draft& draft);

}  // namespace stepcast::scenarios
