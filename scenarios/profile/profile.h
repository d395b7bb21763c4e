// A measured step: profiler traces of one or more ranks, in the partition of a forecast.
//
// Definitions are HolisticTraceAnalysis's, per rank and on merged intervals:
//   compute = a kernel runs that is neither communication nor a copy; non-compute = only those run; idle = nothing does
//   overlap = communication time under compute / communication time, so exposed = communication - overlap
//   idle    = host wait (the next kernel was launched after the one before ended), kernel wait (a gap below 30 ns),
//   other
// In the categories of a forecast: a kernel counts as its class; exposed_* is
// communication with no kernel under it, waiting for peers included, since one
// rank's trace cannot tell it from transfer; host is host wait; the rest of the
// idle time is `other`. Where it is the pipeline's bubble, exposed_pp holds it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/profile/kernel_names.h"
#include "sim/base/error.h"
#include "sim/program/program.h"

namespace stepcast::scenarios {

using PartitionNs = std::array<std::int64_t, sim::category_count>;  // of one step; adds up to its length

struct HtaBreakdown {  // seconds a step
  double compute_s = 0, non_compute_s = 0, idle_s = 0;
  double host_wait_s = 0, kernel_wait_s = 0, other_idle_s = 0;
  double communication_s = 0, overlapped_s = 0;
  [[nodiscard]] double overlap() const { return communication_s > 0 ? overlapped_s / communication_s : 0; }
};

struct ProfiledStep {
  std::int64_t begin_ns = 0, end_ns = 0;
  PartitionNs partition{};
};

struct ProfiledRank {
  std::int64_t rank = 0;
  std::string file;
  std::vector<ProfiledStep> steps;
  HtaBreakdown hta;  // mean over its steps; zero for a forecast's own trace
};

struct ProfiledCommunication {  // mean of a rank and step
  std::string collective, group;
  double calls = 0, raw_s = 0, exposed_s = 0, bytes = 0;
};

struct ProfiledKernel {  // mean of a rank and step
  std::string name;
  std::string counted_as;
  double calls = 0, seconds = 0;
  bool recognised = true;
};

struct Profile {
  std::string name, device;
  bool of_forecast = false;  // waits and bubble are told apart
  std::int64_t world_size = -1;
  std::vector<ProfiledRank> ranks;
  std::vector<ProfiledCommunication> communication;
  std::vector<ProfiledKernel> kernels;  // the longest first
  std::vector<std::string> assumptions, warnings;

  [[nodiscard]] double step_s() const;  // mean over ranks and steps
};

struct ImportOptions {
  std::vector<std::pair<std::string, GroupKind>> groups;  // process groups whose name or description holds the text
};

// One file a rank. Errors: no file with GPU kernels, the same rank twice; a file that breaks off is a warning.
[[nodiscard]] Result<Profile> import_kineto(const std::vector<std::filesystem::path>& files,
                                            const ImportOptions& options);

inline constexpr const char* profile_schema = "stepcast.profile/1";
[[nodiscard]] nlohmann::ordered_json to_json(const Profile& profile);
[[nodiscard]] std::string to_table(const Profile& profile, bool colour);
[[nodiscard]] std::string to_csv(const Profile& profile);

}  // namespace stepcast::scenarios
