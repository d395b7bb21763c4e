// Best-first search over the layouts of one device count.
//
// Every point is judged: refused with a reason, or given its quick bound and a
// bound of its memory. Points whose quick bound beats what is known get the close
// bound, and those whose close bound does are simulated, best bound first, until
// no bound left is below the k-th best simulated time: what is dropped cannot win.
// Rounds have a fixed size and are merged in order, so any thread count gives the
// same result.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "scenarios/plan/family.h"
#include "scenarios/scenario.h"

namespace stepcast::scenarios::plan {

struct Found {
  Point point;
  double seconds = 0;     // simulated, sampled step 0
  double bound = 0;       // its close bound
  double peak_bytes = 0;  // as the memory account has it
};

struct Counts {
  std::int64_t enumerated = 0;
  std::vector<std::int64_t> refused = std::vector<std::int64_t>(refusal_count, 0);
  std::int64_t valid = 0;          // could run, as far as bounds say
  std::int64_t closely_bound = 0;  // of these, with the close bound
  std::int64_t simulated = 0;      // in time
  std::int64_t out_of_memory = 0;  // of the survivors, by the memory of the lowered program
  std::int64_t failed = 0;         // the lowering refused a survivor
  std::int64_t pruned = 0;         // could not win
};

struct SearchCost {
  double judging_cpu_s = 0;     // quick and close bounds
  double simulating_cpu_s = 0;  // survivors: lowering, memory, time
  double wall_s = 0;
};

struct SearchOptions {
  int threads = 1;
  double memory_limit = 0;  // bytes of a device that a layout may use
  std::function<void(const char* what, long long done, long long total)> progress;  // from one thread at a time
  std::function<bool()> cancelled;
};

class Search {
 public:
  // `scenario` with the right number of devices; kept alive by the caller, as the space.
  Search(const Scenario& scenario, const Space& space, SearchOptions options);
  ~Search();

  // Judges all points. Nothing else may be called before.
  void judge();

  // The `top` fastest layouts (most tokens a second) that use at most `limit` bytes, best first; fewer when fewer can
  // run. Later calls reuse what is known. `limit` at most that of the options.
  [[nodiscard]] std::vector<Found> best(int top, double limit);

  [[nodiscard]] const Counts& counts() const;
  [[nodiscard]] const SearchCost& cost() const;
  [[nodiscard]] bool interrupted() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::scenarios::plan
