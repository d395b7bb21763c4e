// Progress of a long computation: one line on standard error.
//
// On a terminal that can rewrite a line, the line is rewritten; elsewhere a
// plain line appears every ten seconds. Nothing is shown before two seconds
// have passed, and nothing at all when quiet. Called from one thread at a time.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace stepcast::cli {

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `what` in words: "sampled step"; another one begins a new count, with a rate and a rest of its own. `total` 0: not
  // known.
  void update(std::string_view what, long long done, long long total);
  // A line that stays, such as the size of a file about to be written. Not shown when quiet.
  void note(const std::string& line);
  // Removes the line, so that other output starts at the margin.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  bool quiet_;
  bool smart_;        // the terminal can rewrite a line
  std::string what_;  // of the count that runs
  long long first_ = 0;
  Clock::time_point start_ = Clock::now();  // of the count
  Clock::time_point next_;
};

// Removes a line that stands on the terminal. For a signal handler that ends the process.
void clear_progress_line() noexcept;

// Standard output is a terminal, TERM is not dumb and NO_COLOR is not set.
[[nodiscard]] bool colour_on_stdout();

}  // namespace stepcast::cli
