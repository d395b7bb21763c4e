#include "scenarios/reliability/simulate_run.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "sim/base/rng.h"

namespace stepcast::scenarios {
namespace {

constexpr std::int64_t most_failures = 2'000'000;  // of one run, before it is given up
// Behind the purposes of a step: draws of a run are keyed by its replica, which no step is.
constexpr auto run_failure = static_cast<Purpose>(20);
constexpr double rounding = 1e-9;  // of an interval

std::size_t index(Cause cause) { return static_cast<std::size_t>(cause); }
std::size_t index(Part part) { return static_cast<std::size_t>(part); }

// Wall times of failures, one after the other.
class Failures {
 public:
  Failures(const RunPlan& plan, std::uint64_t replica)
      : plan_(plan), key_(plan.seed, replica, run_failure), rate_(plan.failure_rate()) {
    advance();
  }
  [[nodiscard]] double at() const { return at_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] Cause cause() const {
    if (plan_.scripted) return Cause::job;
    double u = uniform(key_.with(static_cast<std::uint64_t>(count_)).with(2)) * rate_;
    for (std::size_t c = 0; c + 1 < plan_.failures_per_s.size(); ++c) {
      if (u < plan_.failures_per_s[c]) return static_cast<Cause>(c);
      u -= plan_.failures_per_s[c];
    }
    return Cause::job;
  }
  void advance() {
    ++count_;
    if (plan_.scripted) {
      const auto k = static_cast<std::size_t>(count_ - 1);
      at_ = k < plan_.failures_at_s.size() ? plan_.failures_at_s[k] : never;
    } else {
      at_ = rate_ > 0 ? at_ - std::log(uniform(key_.with(static_cast<std::uint64_t>(count_)).with(1))) / rate_ : never;
    }
  }
  // Failures while nothing runs harm nobody.
  void skip_until(double t) {
    while (at_ < t) advance();
  }

 private:
  const RunPlan& plan_;
  RngKey key_;
  double rate_;
  double at_ = 0;
  std::int64_t count_ = 0;
};

class Run {
 public:
  Run(const RunPlan& plan, std::uint64_t replica)
      : plan_(plan), failures_(plan, replica), spares_(plan.spare_nodes), planned_at_(plan.planned_every_s) {}

  RunOutcome simulate() {
    while (!done_) {
      if (failures_.count() > most_failures) {
        out_.finished = false;
        break;
      }
      work();
    }
    out_.wall_s = now_;
    out_.productive_s = saved_;
    return out_;
  }

 private:
  // Adds a loss, cut at the run's end.
  void lose(Cause cause, Part part, double seconds) {
    seconds = std::min(seconds, plan_.duration_s - now_);
    out_.lost[index(cause)][index(part)] += seconds;
    now_ += seconds;
    if (now_ >= plan_.duration_s) done_ = true;
  }

  // From a restart to the next failure, planned stop or the run's end.
  void work() {
    const double cycle = plan_.interval_s + plan_.blocking_s;
    const double left = plan_.work_s - saved_;
    const double snapshots_left =
        std::isfinite(left) ? std::max(0.0, std::ceil(left / plan_.interval_s - rounding) - 1) : 0;
    const double finish = std::isfinite(left) ? left + snapshots_left * plan_.blocking_s : never;
    const double limit = plan_.duration_s - now_;
    const double planned = planned_at_ - now_;
    const double end = std::min({finish, failures_.at() - now_, planned, limit});
    if (finish <= end) {
      pass(left, snapshots_left, 0);
      saved_ = plan_.work_s;
      done_ = true;
      return;
    }
    const double cycles = std::isfinite(cycle) ? std::floor(end / cycle) : 0;
    const double rest = end - (cycles > 0 ? cycles * cycle : 0);
    const double worked = (cycles > 0 ? cycles * plan_.interval_s : 0) + std::min(rest, plan_.interval_s);
    pass(worked, cycles, std::max(0.0, rest - plan_.interval_s));
    if (limit <= end) {
      saved_ += worked;
      now_ = plan_.duration_s;
      done_ = true;
    } else if (planned <= end) {
      saved_ += worked;
      planned_stop();
    } else {
      fail(worked, cycles, end);
    }
  }

  // Work and complete snapshots go by; `cut` is what was spent on an incomplete one.
  void pass(double worked, double snapshots, double cut) {
    const double blocked = snapshots * plan_.blocking_s + cut;
    out_.lost[index(Cause::checkpoint)][index(Part::checkpoint)] += blocked;
    out_.events[index(Cause::checkpoint)] += static_cast<std::int64_t>(snapshots);
    now_ += worked + blocked;
  }

  void planned_stop() {
    ++out_.events[index(Cause::planned)];
    ++out_.events[index(Cause::checkpoint)];
    lose(Cause::planned, Part::checkpoint, plan_.blocking_s + plan_.write_s);
    if (!done_) lose(Cause::planned, Part::planned_stop, plan_.planned_stop_s);
    planned_at_ += plan_.planned_every_s;
    restart(Cause::planned);
  }

  void fail(double worked, double cycles, double elapsed) {
    const Cause cause = failures_.cause();
    ++out_.events[index(cause)];
    double durable = 0;
    if (cycles > 0 && elapsed > plan_.write_s) {
      durable = std::min(cycles, std::floor((elapsed - plan_.write_s) / (plan_.interval_s + plan_.blocking_s)));
    }
    const double back = durable - plan_.rollback;
    const double kept = back == 0 || !std::isfinite(plan_.interval_s) ? 0 : std::max(-saved_, back * plan_.interval_s);
    out_.lost[index(cause)][index(Part::rework)] += worked - kept;
    saved_ += kept;
    failures_.advance();
    down(cause);
  }

  void down(Cause cause) {
    lose(cause, Part::detection, plan_.detect_s);
    if ((cause == Cause::device || cause == Cause::node) && spares_ >= 0 && !done_) replace_node(cause);
    failures_.skip_until(now_);
    restart(cause);
  }

  // Failures during a restart begin it again.
  void restart(Cause cause) {
    failures_.skip_until(now_);
    while (!done_ && failures_.at() < now_ + plan_.restart_s) {
      if (failures_.count() > most_failures) return;
      lose(cause, Part::restart, failures_.at() - now_);
      cause = failures_.cause();
      ++out_.events[index(cause)];
      failures_.advance();
      if (done_) return;
      lose(cause, Part::detection, plan_.detect_s);
      if ((cause == Cause::device || cause == Cause::node) && spares_ >= 0 && !done_) replace_node(cause);
      failures_.skip_until(now_);
    }
    if (!done_) lose(cause, Part::restart, plan_.restart_s);
    // Maintenance that came due meanwhile was done meanwhile.
    while (planned_at_ < now_) planned_at_ += plan_.planned_every_s;
  }

  void replace_node(Cause cause) {
    while (!repairs_.empty() && repairs_.top() <= now_) {
      repairs_.pop();
      ++spares_;
    }
    repairs_.push(now_ + plan_.repair_s);
    if (spares_ > 0) {
      --spares_;
      return;
    }
    const double back = repairs_.top();
    repairs_.pop();
    lose(cause, Part::waiting_for_node, back - now_);
  }

  const RunPlan& plan_;
  Failures failures_;
  int spares_;
  std::priority_queue<double, std::vector<double>, std::greater<>> repairs_;  // when nodes come back
  double planned_at_;
  double now_ = 0;
  double saved_ = 0;  // work that a restart finds
  bool done_ = false;
  RunOutcome out_;
};

}  // namespace

double RunOutcome::lost_s() const {
  double sum = 0;
  for (const auto& by_part : lost) {
    for (double seconds : by_part) sum += seconds;
  }
  return sum;
}

RunOutcome simulate_run(const RunPlan& plan, std::uint64_t replica) { return Run(plan, replica).simulate(); }

}  // namespace stepcast::scenarios
