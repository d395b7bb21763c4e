// The names that a table of constants may use, taken from the catalogues: devices, software profiles, and the keys of
// each that calibration can change.
//
// A key that matches nothing would be fitted without any row feeling it, and so would a device or profile that is not.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "scenarios/calibration.h"
#include "sim/base/error.h"

namespace stepcast::validation {

struct ConstantNames {
  std::map<std::string, std::vector<std::string>> device;    // catalogue device -> "device.sustained_gemm.value", ...
  std::map<std::string, std::vector<std::string>> software;  // profile -> "software.kernel_gap_us", ...
  std::vector<std::string> cluster;                          // "cluster.nic_efficiency", ...
};

// Errors: a catalogue that cannot be read.
[[nodiscard]] Result<ConstantNames> constant_names(const std::filesystem::path& catalog_root);

// A member of the adjustment that names nothing.
struct UnknownName {
  std::string member;  // "/keys/0", below the adjustment
  std::string message;
};
[[nodiscard]] std::vector<UnknownName> unknown_names(const ConstantNames& names, const scenarios::Adjustment& target);

}  // namespace stepcast::validation
