#include "sim/record/output_file.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/core.h>
#include <zlib.h>

namespace stepcast::sim {
namespace {

constexpr std::size_t chunk = std::size_t{1} << 20;

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    fail("is a directory");
    return;
  }
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) {
    if (const auto real = std::filesystem::weakly_canonical(path, ignored); !ignored) path_ = real;
    partial_ = path_;
    partial_ += ".partial";
  }
  errno = 0;
  // "T": transparent, no compression.
  file_ = gzopen((partial_.empty() ? path_ : partial_).c_str(), path.extension() == ".gz" ? "wb6" : "wbT");
  if (file_ == nullptr) fail(errno != 0 ? std::strerror(errno) : "out of memory");
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) gzclose(file_);
  std::error_code ignored;
  if (!partial_.empty()) std::filesystem::remove(partial_, ignored);
}

void OutputFile::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

void OutputFile::write(std::string_view text) {
  buffer_.append(text);
  if (buffer_.size() >= chunk) flush();
}

void OutputFile::flush() {
  if (failure_.empty() && !buffer_.empty()) {
    errno = 0;
    const int written = gzwrite(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    if (written <= 0) fail(errno != 0 ? std::strerror(errno) : "write error");
  }
  buffer_.clear();
}

Status OutputFile::close() {
  flush();
  if (file_ != nullptr) {
    errno = 0;
    if (gzclose(file_) != Z_OK) fail(errno != 0 ? std::strerror(errno) : "write error");
    file_ = nullptr;
  }
  if (failure_.empty() && !partial_.empty()) {
    std::error_code error;
    std::filesystem::rename(partial_, path_, error);
    if (error) fail(error.message());
    if (!error) partial_.clear();
  }
  if (failure_.empty()) return Unit{};
  return make_error(ErrorCode::unwritable, fmt::format("cannot write: {}", failure_), path_.string());
}

}  // namespace stepcast::sim
