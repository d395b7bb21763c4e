// What one step did, as plain data: the end of the simulation's side, read by scenarios.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "sim/program/program.h"

namespace stepcast::sim {

using Partition = std::array<Ticks, category_count>;  // of one rank's step; adds up to the step exactly

struct CategoryStats {
  Ticks mean = 0, p50 = 0, p95 = 0, max = 0;
  RankId max_rank;
  Ticks critical_path = 0;
};

// One communicator kind and collective, summed over a rank's step and averaged over ranks.
struct CommunicationStats {
  std::string collective;    // "all_to_all"
  std::string group;         // "ep"
  std::int64_t calls = 0;    // per rank and step, mean over ranks that take part
  double payload_bytes = 0;  // per rank and step
  double wire_bytes = 0;
  double nic_bytes = 0;
  Ticks raw = 0;      // transfer time (begin to end), mean over ranks
  Ticks waiting = 0;  // ready to begin
  Ticks exposed_mean = 0, exposed_p95 = 0, exposed_max = 0;
};

struct MemoryPeak {
  double bytes = 0;
  RankId rank;
  Ticks at = 0;                           // since the step's begin
  std::map<std::string, double> by_part;  // at the peak, parts that are zero left out
  std::vector<double> peak_by_rank;
  bool returns_to_level = true;  // every rank ends the step with the bytes it began with
};

struct CriticalHop {  // one op of the critical path, from the step's begin to its end
  RankId rank;
  Category category = Category::other;
  std::string name;
  std::int32_t instance = -1;
  Ticks begin = 0, end = 0;
};

struct StepReport {
  std::uint64_t step = 0;
  Ticks begin = 0, duration = 0;
  std::vector<Partition> by_rank;
  std::array<CategoryStats, category_count> categories;
  std::vector<CommunicationStats> communication;
  MemoryPeak memory;
  double executed_flops = 0;  // over all ranks
  std::int64_t rank_ops = 0;
  std::vector<CriticalHop> critical_path;  // empty when not asked for
};

}  // namespace stepcast::sim
