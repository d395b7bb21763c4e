#include "cli/catalog_root.h"

#include <cstdlib>

namespace stepcast::cli {
namespace fs = std::filesystem;
namespace {

bool holds_catalog(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "models" / "catalog", ignored) ||
         fs::is_directory(folder / "topology" / "catalog", ignored);
}

Result<fs::path> named(const fs::path& folder, const char* origin) {
  if (holds_catalog(folder)) return folder;
  return make_error(ErrorCode::not_found, "'" + folder.string() + "' holds no models/catalog", origin);
}

}  // namespace

Result<fs::path> find_catalog_root(const fs::path& given) {
  if (!given.empty()) return named(given, "--catalog");
  if (const char* variable = std::getenv("STEPCAST_CATALOG"); variable != nullptr && *variable != '\0') {
    return named(variable, "STEPCAST_CATALOG");
  }
  std::error_code failed;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    const fs::path installed = executable.parent_path().parent_path() / "share" / "stepcast";
    if (holds_catalog(installed)) return installed;
    for (fs::path folder = executable.parent_path(); folder != folder.parent_path(); folder = folder.parent_path()) {
      if (holds_catalog(folder)) return folder;
    }
  }
  for (const char* configured : {STEPCAST_INSTALLED_CATALOG, STEPCAST_SOURCE_CATALOG}) {
    if (holds_catalog(configured)) return fs::path(configured);
  }
  return make_error(ErrorCode::not_found, "no catalogue found beside the executable; name its folder with --catalog",
                    "STEPCAST_CATALOG");
}

}  // namespace stepcast::cli
