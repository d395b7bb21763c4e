// Finds the folder that holds the catalogues: models/, topology/, parallelism/, scenarios/.
#pragma once

#include <filesystem>

#include "sim/base/error.h"

namespace stepcast::cli {

// In this order: `given` (--catalog), STEPCAST_CATALOG, share/stepcast beside the executable's folder, the source tree
// around the executable, share/stepcast of the configured prefix, the configured source tree. A folder that was named
// and holds no catalogue is an error.
[[nodiscard]] Result<std::filesystem::path> find_catalog_root(const std::filesystem::path& given);

}  // namespace stepcast::cli
