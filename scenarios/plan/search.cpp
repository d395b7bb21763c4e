#include "scenarios/plan/search.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>

#include "scenarios/plan/exact.h"

namespace stepcast::scenarios::plan {
namespace {

constexpr std::size_t first_look = 256;  // points that are bound closely before anything is known
constexpr std::size_t round_size = 4;    // survivors simulated before the threshold moves

double thread_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Entry {
  Point point;
  std::size_t family = 0;
  double quick = 0, memory = 0;  // bounds: seconds, bytes
  double close = -1;             // negative: not known
  // Simulated: seconds and bytes; `unfit`: the memory of the lowered program is above the widest limit, or no program.
  bool simulated = false, unfit = false;
  double seconds = 0, peak = 0;

  [[nodiscard]] double bound() const { return std::max(quick, close); }
  // Seconds a sequence: what is compared when batches differ.
  [[nodiscard]] double cost(double time) const { return time / point.global_batch; }
};

}  // namespace

struct Search::State {
  const Scenario& scenario;
  const Space& space;
  SearchOptions options;
  topology::Fabric fabric;
  SearchBase base;
  std::vector<Degrees> families;
  std::vector<std::vector<std::size_t>> relatives;  // families that differ in pp only: one task, shared outlines
  std::vector<Entry> entries;                       // valid points in the order of the space
  Counts counts;
  SearchCost cost;
  bool stopped = false;

  State(const Scenario& s, const Space& sp, SearchOptions o)
      : scenario(s),
        space(sp),
        options(std::move(o)),
        fabric(s.spec.cluster),
        base{s.spec, space, fabric, options.memory_limit, smallest_speed(s.spec)} {}

  bool cancelled() {
    if (!stopped && options.cancelled && options.cancelled()) stopped = true;
    return stopped;
  }

  // Calls f(i) for 0 .. n-1 on the threads asked for; returns the CPU seconds of all calls.
  double each(std::size_t n, const char* what, const std::function<void(std::size_t)>& f) {
    const tbb::global_control control(tbb::global_control::max_allowed_parallelism,
                                      static_cast<std::size_t>(std::max(1, options.threads)));
    std::vector<double> cpu(n, 0);
    std::mutex lock;
    std::atomic<bool> stop{stopped};
    long long done = 0;
    tbb::parallel_for(
        std::size_t{0}, n,
        [&](std::size_t i) {
          if (stop) return;
          const double before = thread_cpu_seconds();
          f(i);
          cpu[i] = thread_cpu_seconds() - before;
          const std::scoped_lock hold(lock);
          ++done;
          if (options.cancelled && options.cancelled()) stop = true;
          if (what != nullptr && options.progress) options.progress(what, done, static_cast<long long>(n));
        },
        tbb::simple_partitioner());
    stopped = stop;
    return std::accumulate(cpu.begin(), cpu.end(), 0.0);
  }

  void list_families() {
    for (const int batch : space.global_batch) {
      for (const int tp : space.tp) {
        for (const int cp : space.cp) {
          for (const int pp : space.pp) {
            for (const int ep : space.ep) {
              for (const int etp : space.etp) {
                const auto n = [](int v) { return static_cast<std::int16_t>(v); };
                families.push_back({batch, n(tp), n(cp), n(pp), n(ep), n(etp)});
              }
            }
          }
        }
      }
    }
  }

  void group_relatives() {
    std::map<std::array<int, 5>, std::size_t> task;
    for (std::size_t i = 0; i < families.size(); ++i) {
      const Degrees& d = families[i];
      const auto [found, added] = task.try_emplace({d.global_batch, d.tp, d.cp, d.ep, d.etp}, relatives.size());
      if (added) relatives.emplace_back();
      relatives[found->second].push_back(i);
    }
  }

  void judge() {
    list_families();
    group_relatives();
    std::vector<std::vector<Judged>> valid(families.size());
    std::vector<std::vector<std::int64_t>> refused(families.size());
    cost.judging_cpu_s += each(relatives.size(), "groups of layouts judged", [&](std::size_t k) {
      OutlinerCache outliners;
      for (const std::size_t i : relatives[k]) valid[i] = Family(base, families[i], outliners).judge(refused[i]);
    });
    for (std::size_t i = 0; i < families.size(); ++i) {
      for (std::size_t k = 0; k < refused[i].size(); ++k) counts.refused[k] += refused[i][k];
      for (const Judged& j : valid[i]) {
        Entry e;
        e.point = j.point;
        e.family = i;
        e.quick = j.seconds;
        e.memory = j.peak_bytes;
        entries.push_back(e);
      }
    }
    counts.valid = static_cast<std::int64_t>(entries.size());
    counts.enumerated = counts.valid + std::accumulate(counts.refused.begin(), counts.refused.end(), std::int64_t{0});
    counts.pruned = counts.valid;
  }

  // Gives the close bound to those that lack it; points of one family share its outlines.
  void bind_closely(const std::vector<std::size_t>& wanted) {
    std::vector<std::vector<std::size_t>> by_family(families.size());
    for (const std::size_t i : wanted) {
      if (entries[i].close < 0) by_family[entries[i].family].push_back(i);
    }
    cost.judging_cpu_s += each(relatives.size(), "groups of layouts bound closely", [&](std::size_t k) {
      OutlinerCache outliners;
      for (const std::size_t f : relatives[k]) {
        if (by_family[f].empty()) continue;
        Family family(base, families[f], outliners);
        for (const std::size_t i : by_family[f]) entries[i].close = family.close(entries[i].point);
      }
    });
    for (const auto& list : by_family) {
      for (const std::size_t i : list) counts.closely_bound += entries[i].close >= 0 ? 1 : 0;
    }
  }

  void simulate(Entry& e) {
    parallelism::StepSpec spec = scenario.spec;
    apply(space, e.point, spec);
    const auto exact = simulate_layout(spec, options.memory_limit);
    if (!exact || exact->memory.peak_bytes > options.memory_limit) {
      e.unfit = true;
      e.seconds = exact ? 0 : -1;
      return;
    }
    e.peak = exact->memory.peak_bytes;
    e.seconds = exact->seconds;
    e.simulated = true;
  }

  void simulate_round(const std::vector<std::size_t>& round) {
    cost.simulating_cpu_s += each(round.size(), nullptr, [&](std::size_t k) { simulate(entries[round[k]]); });
    for (const std::size_t i : round) {
      const Entry& e = entries[i];
      if (!e.simulated && !e.unfit) continue;  // interrupted
      --counts.pruned;
      if (e.simulated) {
        ++counts.simulated;
      } else {
        ++(e.seconds < 0 ? counts.failed : counts.out_of_memory);
      }
    }
    if (options.progress) options.progress("layouts simulated", counts.simulated, 0);
  }

  // Simulated entries within the limit, best first.
  std::vector<std::size_t> ranking(double limit) const {
    std::vector<std::size_t> list;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].simulated && entries[i].peak <= limit) list.push_back(i);
    }
    std::sort(list.begin(), list.end(), [&](std::size_t a, std::size_t b) {
      const double x = entries[a].cost(entries[a].seconds);
      const double y = entries[b].cost(entries[b].seconds);
      return x != y ? x < y : a < b;
    });
    return list;
  }

  // What the k-th best takes: a bound at or above it cannot enter the list.
  double threshold(int top, double limit) const {
    const auto list = ranking(limit);
    if (list.size() < static_cast<std::size_t>(top)) return std::numeric_limits<double>::infinity();
    const Entry& e = entries[list[static_cast<std::size_t>(top) - 1]];
    return e.cost(e.seconds);
  }

  // Simulates open points of `pool` in the order of their bounds, until none can enter or `most` are done.
  void simulate_best(std::vector<std::size_t> pool, int top, double limit, std::size_t most) {
    std::sort(pool.begin(), pool.end(), [&](std::size_t a, std::size_t b) {
      const double x = entries[a].cost(entries[a].bound());
      const double y = entries[b].cost(entries[b].bound());
      return x != y ? x < y : a < b;
    });
    std::size_t next = 0;
    std::size_t done = 0;
    while (next < pool.size() && done < most && !cancelled()) {
      const double t = threshold(top, limit);
      std::vector<std::size_t> round;
      for (; next < pool.size() && round.size() < round_size; ++next) {
        const Entry& e = entries[pool[next]];
        if (e.simulated || e.unfit) continue;
        if (e.cost(e.bound()) >= t) return;
        round.push_back(pool[next]);
      }
      if (round.empty()) return;
      simulate_round(round);
      done += round.size();
    }
  }

  std::vector<std::size_t> open_below(double t, double limit) const {
    std::vector<std::size_t> list;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& e = entries[i];
      if (!e.simulated && !e.unfit && e.memory <= limit && e.cost(e.bound()) < t) list.push_back(i);
    }
    return list;
  }

  void run(int top, double limit) {
    // Something to beat, from the points that look best.
    std::vector<std::size_t> look = open_below(threshold(top, limit), limit);
    const auto by_quick = [&](std::size_t a, std::size_t b) {
      const double x = entries[a].cost(entries[a].bound());
      const double y = entries[b].cost(entries[b].bound());
      return x != y ? x < y : a < b;
    };
    if (look.size() > first_look) {
      std::nth_element(look.begin(), look.begin() + first_look, look.end(), by_quick);
      look.resize(first_look);
    }
    bind_closely(look);
    simulate_best(look, top, limit, std::max<std::size_t>(round_size, 2 * static_cast<std::size_t>(top)));
    // Everybody who might still win.
    while (!cancelled()) {
      const double t = threshold(top, limit);
      std::vector<std::size_t> rest = open_below(t, limit);
      if (rest.empty()) return;
      if (std::isinf(t) && rest.size() > first_look) {  // nothing to beat yet: widen the look by its size
        std::nth_element(rest.begin(), rest.begin() + first_look, rest.end(), by_quick);
        rest.resize(first_look);
      }
      bind_closely(rest);
      if (stopped) return;
      simulate_best(rest, top, limit, std::isinf(t) ? rest.size() : std::numeric_limits<std::size_t>::max());
    }
  }
};

Search::Search(const Scenario& scenario, const Space& space, SearchOptions options)
    : state_(std::make_unique<State>(scenario, space, std::move(options))) {}
Search::~Search() = default;

void Search::judge() {
  const auto start = std::chrono::steady_clock::now();
  state_->judge();
  state_->cost.wall_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Found> Search::best(int top, double limit) {
  const auto start = std::chrono::steady_clock::now();
  state_->run(top, limit);
  std::vector<Found> found;
  for (const std::size_t i : state_->ranking(limit)) {
    if (found.size() == static_cast<std::size_t>(top)) break;
    const Entry& e = state_->entries[i];
    found.push_back({e.point, e.seconds, e.bound(), e.peak});
  }
  state_->cost.wall_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

const Counts& Search::counts() const { return state_->counts; }
const SearchCost& Search::cost() const { return state_->cost; }
bool Search::interrupted() const { return state_->stopped; }

}  // namespace stepcast::scenarios::plan
