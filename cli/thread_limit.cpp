#include "cli/thread_limit.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace stepcast::cli {
namespace {

int bound_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// cgroup v2: "max 100000" or "QUOTA PERIOD", in microseconds.
int quota_processors(int most) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return most;
  const double share = std::strtod(quota.c_str(), nullptr) / period;
  return share >= 1 ? std::min(most, static_cast<int>(std::floor(share))) : 1;
}

int slurm_processors(int most) {
  const char* text = std::getenv("SLURM_CPUS_PER_TASK");
  if (text == nullptr) return most;
  const long n = std::strtol(text, nullptr, 10);
  return n >= 1 && n < most ? static_cast<int>(n) : most;
}

}  // namespace

int available_threads() { return slurm_processors(quota_processors(bound_processors())); }

}  // namespace stepcast::cli
