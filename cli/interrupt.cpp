#include "cli/interrupt.h"

#include <csignal>

#include <atomic>

#include "cli/progress.h"

namespace stepcast::cli {
namespace {

// A signal handler can reach nothing else.
std::atomic<bool> was_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// The first one asks for a partial result, a second one ends the process.
extern "C" void on_signal(int signal) {
  if (!was_interrupted.exchange(true)) return;
  clear_progress_line();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void watch_for_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return was_interrupted.load(); }

}  // namespace stepcast::cli
