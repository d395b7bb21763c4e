// A catalogue device with some of its constants replaced: what a calibration or a scenario states.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "sim/base/error.h"
#include "topology/device.h"

namespace stepcast::topology {

// Keys as in Device::provenance ("gemm.bf16.e", "hbm_bandwidth_gb_per_s"). A key that the device lacks is an error at
// "cluster.constants.KEY"; ranges are those of the catalogue.
[[nodiscard]] Result<Device> load_device(const std::filesystem::path& catalog_root, const std::string& name,
                                         const std::map<std::string, double>& constants);

}  // namespace stepcast::topology
