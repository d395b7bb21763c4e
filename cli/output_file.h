// Where a result goes: standard output, or a file that appears complete or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace stepcast::cli {

class OutputFile {
 public:
  // Empty: standard output. A file is checked now, so that an unwritable one fails before the computation.
  [[nodiscard]] static Result<OutputFile> open(const std::filesystem::path& file);

  // Through a temporary file in the same folder, renamed when complete; devices and pipes are written directly.
  [[nodiscard]] Status write(std::string_view text) const;

 private:
  explicit OutputFile(std::filesystem::path file) : file_(std::move(file)) {}
  std::filesystem::path file_;
};

}  // namespace stepcast::cli
