#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace stepcast::cli {
namespace {

constexpr std::chrono::milliseconds quiet_start{2000};
constexpr std::chrono::milliseconds rewrite_every{100};
constexpr std::chrono::milliseconds plain_every{10000};

constexpr char removal[] = "\r\x1b[K";

// A line to be removed stands on the terminal. A signal handler can reach nothing else.
std::atomic<bool> line_shown{false};
static_assert(std::atomic<bool>::is_always_lock_free);

bool is_smart(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) != 0 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// The middle gives way when the line is wider than the terminal.
std::string elide(const std::string& line, std::size_t width) {
  if (line.size() <= width || width < 8) return line;
  const std::size_t keep = width - 3;
  return line.substr(0, keep / 2) + "..." + line.substr(line.size() - (keep - keep / 2));
}

// "12.3/s", and below one a second "4.2 s each".
std::string rate_text(double per_second) {
  return per_second >= 1 ? fmt::format("{:.1f}/s", per_second) : fmt::format("{:.1f} s each", 1 / per_second);
}

}  // namespace

Progress::Progress(bool quiet) : quiet_(quiet), smart_(is_smart(STDERR_FILENO)), next_(start_ + quiet_start) {}

void Progress::update(std::string_view what, long long done, long long total) {
  if (quiet_) return;
  const auto now = Clock::now();
  if (what != what_) {
    what_ = what;
    start_ = now;
    first_ = done;
  }
  if (now < next_) return;
  next_ = now + (smart_ ? rewrite_every : plain_every);
  std::string line = total > 0 ? fmt::format("[{}/{}] {}", done, total, what) : fmt::format("[{}] {}", done, what);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (done > first_ && elapsed > 0) {
    const double rate = static_cast<double>(done - first_) / elapsed;
    line += fmt::format(", {}", rate_text(rate));
    if (total > 0) line += fmt::format(", {:.0f} s left", static_cast<double>(total - done) / rate);
  }
  if (smart_) {
    line_shown = true;
    std::fprintf(stderr, "\r%s\x1b[K", elide(line, terminal_width() - 1).c_str());
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void Progress::note(const std::string& line) {
  if (quiet_) return;
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Progress::clear() {
  if (!line_shown) return;
  std::fputs(removal, stderr);
  std::fflush(stderr);
  line_shown = false;
}

void clear_progress_line() noexcept {
  if (!line_shown) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, removal, sizeof(removal) - 1);
}

bool colour_on_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  return is_smart(STDOUT_FILENO) && (no_color == nullptr || *no_color == '\0');
}

}  // namespace stepcast::cli
