#include "cli/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace stepcast::cli {
namespace fs = std::filesystem;
namespace {

Error unwritable(const fs::path& file, int reason) {
  return make_error(ErrorCode::unwritable, fmt::format("cannot be written: {}", std::strerror(reason)), file.string());
}

Status write_all(int descriptor, std::string_view text, const fs::path& file) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return unwritable(file, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return Unit{};
}

bool is_special(const fs::path& file) {
  std::error_code ignored;
  const auto status = fs::status(file, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

fs::path temporary_beside(const fs::path& file) {
  return file.parent_path() / fmt::format(".{}.{}.part", file.filename().string(), ::getpid());
}

// A link is written through, so that it stays one.
fs::path target_of(const fs::path& file) {
  std::error_code failed;
  fs::path target = fs::weakly_canonical(file, failed);
  return failed ? file : target;
}

}  // namespace

Result<OutputFile> OutputFile::open(const fs::path& file) {
  std::error_code ignored;
  if (file.empty()) return OutputFile(file);
  if (fs::is_directory(file, ignored)) return unwritable(file, EISDIR);
  if (is_special(file)) return OutputFile(file);
  const fs::path target = target_of(file);
  if (fs::exists(target, ignored) && ::access(target.c_str(), W_OK) != 0) return unwritable(file, errno);
  const fs::path temporary = temporary_beside(target);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return unwritable(file, errno);
  ::close(descriptor);
  ::unlink(temporary.c_str());
  return OutputFile(target);
}

Status OutputFile::write(std::string_view text) const {
  if (file_.empty()) return write_all(STDOUT_FILENO, text, "standard output");
  if (is_special(file_)) {
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return unwritable(file_, errno);
    const Status status = write_all(descriptor, text, file_);
    ::close(descriptor);
    return status;
  }
  const fs::path temporary = temporary_beside(file_);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return unwritable(file_, errno);
  Status status = write_all(descriptor, text, file_);
  if (::close(descriptor) != 0 && status.ok()) status = unwritable(file_, errno);
  if (status.ok() && ::rename(temporary.c_str(), file_.c_str()) != 0) status = unwritable(file_, errno);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace stepcast::cli
