// A sweep file: one scenario, and keys that take several values.
//
//   {"scenario": "mixtral-8x7b-h100-8",
//    "vary": [{"parallelism.tp": [1, 2, 4], "parallelism.ep": [8, 4, 2]},
//             {"workload.micro_batch": {"from": 1, "to": 8, "factor": 2}}]}
//
// Keys of one entry go together, value by value; entries are crossed, the last
// one fastest. Points are numbered in that order and never stored: a point is
// worked out from its number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

// The values of one key: a list, or a range.
struct SweepValues {
  std::string key;  // "parallelism.tp", as --set takes it
  std::vector<nlohmann::ordered_json> list;
  double from = 0, step = 0, factor = 0;  // a range: from + i step, or from factor^i
  bool whole = false;                     // its values are whole numbers
  std::int64_t count = 0;

  [[nodiscard]] nlohmann::ordered_json at(std::int64_t i) const;
};

struct SweepAxis {
  std::vector<SweepValues> keys;  // all of the same count
  std::int64_t count = 0;
};

struct Sweep {
  std::string name;
  ScenarioRequest base;
  std::vector<SweepAxis> axes;
  std::vector<std::string>
      results;  // paths of the forecast's JSON, "breakdown.exposed_ep.mean_s"; empty: the usual ones
  bool ignore_memory = false;
  std::int64_t points = 0;
  std::string digest;  // of everything that determines the results: 16 hexadecimal digits

  [[nodiscard]] std::vector<std::string> keys() const;
  // Values of a point, in the order of keys().
  [[nodiscard]] std::vector<nlohmann::ordered_json> values(std::int64_t point) const;
  // The scenario of a point.
  [[nodiscard]] ScenarioRequest request(std::int64_t point) const;
};

struct SweepRequest {
  std::filesystem::path file;  // or a name of scenarios/sweeps
  std::vector<std::string> sets;
  std::filesystem::path catalog_root;
  std::string version;  // of the product, part of the digest
};

inline constexpr std::int64_t most_points = 1'000'000'000;

// Fails with all faults of the file, with a scenario that cannot be loaded, and with a key of which no value can be
// read.
[[nodiscard]] Result<Sweep> load_sweep(const SweepRequest& request);

}  // namespace stepcast::scenarios
