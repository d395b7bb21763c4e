#include "scenarios/sweep/sweep_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>

namespace stepcast::scenarios {
namespace {

namespace fs = std::filesystem;

// Points in flight a thread: enough that a long one does not stall the others, few enough to lose little.
constexpr std::size_t ahead = 8;

// The file that lines are appended to; locked against a second process.
class LineFile {
 public:
  explicit LineFile(fs::path file) : file_(std::move(file)) {}
  ~LineFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  Status open() {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) return failure();
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      return make_error(ErrorCode::unwritable, "another process writes this file", file_.string());
    }
    return Unit{};
  }
  Status cut_at(std::uintmax_t bytes) {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) return failure();
    if (::lseek(descriptor_, 0, SEEK_END) < 0) return failure();
    return Unit{};
  }
  Status append(const std::string& line) {
    std::size_t written = 0;
    while (written < line.size()) {
      const ssize_t n = ::write(descriptor_, line.data() + written, line.size() - written);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failure();
      written += static_cast<std::size_t>(n);
    }
    return Unit{};
  }

 private:
  [[nodiscard]] Error failure() const {
    return make_error(ErrorCode::unwritable, fmt::format("cannot be written: {}", std::strerror(errno)),
                      file_.string());
  }

  fs::path file_;
  int descriptor_ = -1;
};

struct Line {
  std::string text;  // empty: the point was not finished
};

class Runner {
 public:
  Runner(const Sweep& sweep, const SweepOptions& options, LineFile& file, SweepSummary& summary)
      : sweep_(sweep), options_(options), file_(file), summary_(summary), next_(summary.resumed) {}

  Errors run() {
    const auto threads = static_cast<std::size_t>(std::max(1, options_.threads));
    tbb::parallel_pipeline(
        threads * ahead,
        tbb::make_filter<void, std::int64_t>(tbb::filter_mode::serial_in_order,
                                             [this](tbb::flow_control& flow) { return take(flow); }) &
            tbb::make_filter<std::int64_t, Line>(tbb::filter_mode::parallel,
                                                 [this](std::int64_t point) { return compute(point); }) &
            tbb::make_filter<Line, void>(tbb::filter_mode::serial_in_order, [this](const Line& line) { write(line); }));
    return std::move(errors_);
  }

 private:
  [[nodiscard]] bool cancelled() const { return options_.cancelled && options_.cancelled(); }

  std::int64_t take(tbb::flow_control& flow) {
    if (next_ == summary_.points || stopped_.load() || cancelled()) {
      flow.stop();
      return 0;
    }
    return options_.shard.point(next_++);
  }

  Line compute(std::int64_t point) const {
    if (stopped_.load() || cancelled()) return {};
    const auto scenario = load_scenario(sweep_.request(point));
    if (!scenario) return {record_of(sweep_, point, scenario.errors())};
    ForecastOptions options;
    options.threads = options_.threads;
    options.critical_path = false;
    options.ignore_memory = sweep_.ignore_memory;
    options.cancelled = options_.cancelled;
    // Isolated: a thread that waits inside a point must not begin another one on top of it.
    const auto result = tbb::this_task_arena::isolate([&] { return forecast(*scenario, options); });
    if (cancelled()) return {};  // some of its sampled steps may be missing
    return {record_of(sweep_, point, result)};
  }

  // In the order of the points. After one that was not finished nothing may follow.
  void write(const Line& line) {
    if (stopped_.load()) return;
    if (line.text.empty()) {
      stopped_ = true;
      return;
    }
    if (const auto status = file_.append(line.text); !status) {
      errors_ = status.errors();
      stopped_ = true;
      return;
    }
    summary_.run += 1;
    if (options_.progress) options_.progress(summary_.run, summary_.points - summary_.resumed, summary_.resumed);
  }

  const Sweep& sweep_;
  const SweepOptions& options_;
  LineFile& file_;
  SweepSummary& summary_;
  std::int64_t next_;
  std::atomic<bool> stopped_{false};
  Errors errors_;
};

}  // namespace

Result<SweepSummary> run_sweep(const Sweep& sweep, const SweepOptions& options) {
  SweepSummary summary;
  summary.points = options.shard.size(sweep.points);
  const bool whole = options.shard.whole() && options.shard.origin.empty();  // 0/1 is a shard too
  const fs::path lines = whole ? options.files.lines() : options.files.shard(options.shard);
  summary.lines = lines.string();
  LineFile file(lines);
  if (auto status = file.open(); !status) return status.errors();
  FinishedPoints finished;
  if (!options.restart) {
    const auto before = read_finished(lines, sweep, options.shard);
    if (!before) return before.errors();
    finished = *before;
  }
  if (auto status = file.cut_at(finished.bytes); !status) return status.errors();
  summary.resumed = finished.points;
  if (Errors errors = Runner(sweep, options, file, summary).run(); !errors.empty()) return errors;
  summary.interrupted = summary.resumed + summary.run < summary.points;

  const fs::path table = whole ? options.files.table() : fs::path();
  summary.table = table.string();
  auto counts = tabulate(lines, sweep, table);
  if (!counts) return counts.errors();
  summary.counts = std::move(*counts);
  return summary;
}

}  // namespace stepcast::scenarios
