// The events of one trace file that a partition needs, kept small. Internal to scenarios/profile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "scenarios/profile/profile.h"
#include "scenarios/profile/trace_reader.h"

namespace stepcast::scenarios {

// A kernel or copy on the GPU.
struct GpuSlice {
  std::int64_t begin = 0, end = 0;  // ns
  std::int64_t correlation = absent;
  std::uint32_t kernel = 0;   // index into kernels
  std::uint32_t account = 0;  // communication: index into accounts
  std::int32_t device = 0;
};

struct KernelName {
  std::string name;
  KernelClass what;
  bool copy = false;  // memcpy between host and device: neither compute nor communication
  std::int64_t calls = 0, total_ns = 0;
};

struct CommunicationAccount {
  std::string collective;
  GroupKind group = GroupKind::unknown;
  bool guessed = false;  // the group follows from the collective alone
};

struct Launch {
  std::int64_t correlation = 0, begin = 0, end = 0;  // ns, on the host
};

struct StepMark {
  std::string name;  // "ProfilerStep#12"
  std::int64_t begin = 0, end = 0;
};

struct KinetoFile {
  TraceInfo info;
  std::vector<GpuSlice> slices;
  std::vector<KernelName> kernels;
  std::vector<CommunicationAccount> accounts;
  std::vector<double> account_bytes;
  std::vector<Launch> launches;
  std::vector<StepMark> host_steps, device_steps;
  std::int64_t ignored_phases = 0;  // "B" and "E" pairs, async events

  void take(const TraceEvent& event, const ImportOptions& options);

 private:
  std::uint32_t kernel_of(const TraceEvent& event, bool copy);
  std::uint32_t account_of(const TraceEvent& event, const KernelClass& what, const ImportOptions& options);
  std::unordered_map<std::string, std::uint32_t> kernel_index_;
  std::map<std::string, std::uint32_t> account_index_;
};

// One rank of a trace that stepcast simulate --trace wrote.
struct OwnOp {
  std::int64_t ready = 0, begin = 0, end = 0, issued = absent, order = 0;
  int track = 0;
  sim::Category transfer = sim::Category::other, waiting = sim::Category::other;
  bool kernel = false;
};
struct OwnRank {
  std::vector<OwnOp> ops;
  std::int64_t issued = absent, stage_end = absent, data_begin = absent, data_end = absent;
};
struct OwnFile {
  TraceInfo info;
  std::map<std::int64_t, OwnRank> ranks;
  std::int64_t step_begin = absent, step_end = absent;
  std::int64_t unknown_categories = 0;

  void take(const TraceEvent& event);
};

// Partitions of the steps of one rank, by the rules of profile.h.
[[nodiscard]] Result<ProfiledRank> partition_kineto(KinetoFile& file, Profile& profile,
                                                    std::vector<std::int64_t>& exposed_by_account);
// By the rules of sim/record/partition.h, read back from the trace.
[[nodiscard]] PartitionNs partition_own(OwnRank& rank, std::int64_t begin, std::int64_t end);

[[nodiscard]] sim::Category category_named(const std::string& name, bool& known);

}  // namespace stepcast::scenarios
