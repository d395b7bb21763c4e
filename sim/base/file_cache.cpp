#include "sim/base/file_cache.h"

#include <system_error>

namespace stepcast {

std::optional<FileStamp> stamp_of(const std::filesystem::path& file) {
  std::error_code code;
  const auto changed = std::filesystem::last_write_time(file, code);
  if (code) return std::nullopt;
  const auto bytes = std::filesystem::file_size(file, code);
  return FileStamp{changed.time_since_epoch().count(), code ? 0 : bytes};
}

}  // namespace stepcast
