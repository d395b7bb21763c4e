// A file that appears complete or not at all, gzip-compressed when its name ends in .gz.
//
// Written beside its place and renamed by close(). What is no regular file (a
// pipe, /dev/stdout) is written to directly.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sim/base/error.h"

struct gzFile_s;

namespace stepcast::sim {

class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();  // removes an unfinished file
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // The first failure is kept and told by close().
  void write(std::string_view text);
  [[nodiscard]] Status close();

 private:
  void fail(const std::string& what);
  void flush();

  std::filesystem::path path_, partial_;  // partial_ empty: written directly
  gzFile_s* file_ = nullptr;
  std::string buffer_, failure_;
};

}  // namespace stepcast::sim
