#include "cli/thread_limit.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace stepcast::cli {
namespace {

namespace fs = std::filesystem;

int bound_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Whole processors in a quota of time a period; a part of one counts as one.
int share_of(double quota, double period, int most) {
  if (quota <= 0 || period <= 0) return most;
  return std::clamp(static_cast<int>(std::floor(quota / period)), 1, most);
}

// cgroup v2: "max 100000" or "QUOTA PERIOD", in microseconds.
int quota_v2(const fs::path& folder, int most) {
  std::ifstream file(folder / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return most;
  return share_of(std::strtod(quota.c_str(), nullptr), period, most);
}

// cgroup v1: one file each; a quota of -1 is none.
int quota_v1(const fs::path& folder, int most) {
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return most;
  return share_of(quota, period, most);
}

// The quota of a group binds all below it, so every folder from the process's own up to the root counts. Inside a
// container the root is the container's own group.
int quota_processors(int most) {
  const fs::path root = "/sys/fs/cgroup";
  int allowed = std::min(quota_v2(root, most), quota_v1(root / "cpu", most));
  std::ifstream own("/proc/self/cgroup");
  // "0::/system.slice/job_7" for v2, "4:cpu,cpuacct:/job_7" for v1
  for (std::string line; std::getline(own, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    fs::path group = line.substr(second + 1);
    for (int depth = 0; depth < 64 && group.has_relative_path(); ++depth, group = group.parent_path()) {
      const fs::path folder = (v2 ? root : root / "cpu") / group.relative_path();
      allowed = std::min(allowed, v2 ? quota_v2(folder, most) : quota_v1(folder, most));
    }
  }
  return allowed;
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
