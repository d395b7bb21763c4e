// A calibration profile: constants of devices, clusters and software that a fit or a site replaces.
//
// "cluster" and "software" hold values for members that the scenario does not give. "adjust" is a list of
// changes to catalogue constants by their keys, each for the devices and software profiles that it names:
//   {"name": "sustained level, Hopper", "keys": ["device.sustained_gemm.value"], "device": ["h100", "h200"],
//    "times": 0.97, "at_most": 1.2}
// Keys are those that `explain` shows: device.KEY (device.gemm.bf16.e), cluster.KEY (cluster.nic_efficiency),
// software.KEY (software.host_launch_us, software.host_factor.gb200). `*` stands for any characters in a key, a
// device or a profile name. What the scenario says itself always wins. Pure data and its application; no fitting.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_fields.h"

namespace stepcast::scenarios {

struct Adjustment {
  std::string name;
  std::vector<std::string> keys;
  std::vector<std::string> devices, software;  // globs; empty: all
  std::string kind;                            // "moe", "dense" or empty: both
  std::optional<double> times, value;          // exactly one
  double at_least = 0, at_most = 0;            // of the result; at_most 0: no bound

  [[nodiscard]] bool concerns(std::string_view device, std::string_view profile, bool moe) const;
  [[nodiscard]] double apply(double before) const;
};

// `*` matches any run of characters; everything else itself.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view text);

// The elements of the list "adjust" of a profile; errors go to the fields' list.
[[nodiscard]] std::vector<Adjustment> read_adjustments(JsonFields& profile);
[[nodiscard]] nlohmann::ordered_json to_json(const Adjustment& adjustment);

// New values of the keys (without `prefix`, "device.") that adjustments change, in their order. A key that no
// adjustment matches is left out.
[[nodiscard]] std::map<std::string, double> adjusted(const std::vector<Adjustment>& adjustments,
                                                     std::string_view prefix,
                                                     const std::map<std::string, double>& values);

struct Draft;
// The adjustments of the scenario's calibration, applied: new values go into the tree as if the scenario had given
// them, and software and cluster are read again. Called when device, software and model are known.
void adjust_constants(Draft& draft);

}  // namespace stepcast::scenarios
