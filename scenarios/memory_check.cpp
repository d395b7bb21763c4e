#include "scenarios/memory_check.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace stepcast::scenarios {
namespace {

constexpr std::size_t named_parts = 4;

double in_gib(double bytes) { return bytes / gib(1).value; }

bool is_static(const std::string& part) {
  return part == "weights" || part == "gradients" || part == "optimizer" || part == "context" ||
         part == "gathered_parameters" || part == "gradient_buffers";
}

}  // namespace

MemoryAccount memory_account(const sim::MemoryPeak& peak, const parallelism::StepSpec& spec) {
  MemoryAccount m;
  m.by_part = peak.by_part;
  m.peak_bytes = peak.bytes;
  m.peak_rank = peak.rank.value;
  m.peak_at_s = to_seconds(peak.at).value;
  double dynamic = 0;
  for (const auto& [part, bytes] : peak.by_part) dynamic += is_static(part) ? 0 : bytes;
  const double fragmentation = dynamic * spec.software.fragmentation;
  m.allocated_bytes = peak.bytes - spec.software.context_bytes;
  m.reserved_bytes = m.allocated_bytes + fragmentation;
  if (fragmentation > 0) {
    m.by_part["fragmentation"] = fragmentation;
    m.peak_bytes += fragmentation;
  }
  m.limit_bytes = spec.cluster.device.hbm.value;
  m.fits = m.peak_bytes <= m.limit_bytes;
  return m;
}

Error memory_error(const MemoryAccount& account, const parallelism::StepSpec& spec, const std::string& advice) {
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [part, bytes] : account.by_part) parts.emplace_back(bytes, part);
  std::sort(parts.rbegin(), parts.rend());
  std::string largest;
  for (std::size_t i = 0; i < std::min(named_parts, parts.size()); ++i) {
    largest += fmt::format("{}{} {:.1f} GiB", i == 0 ? "" : ", ", parts[i].second, in_gib(parts[i].first));
  }
  return make_error(ErrorCode::infeasible,
                    fmt::format("out of memory: rank {} needs {:.1f} GiB, {} has {:.1f} GiB; "
                                "largest: {}; --ignore-memory forecasts it anyway{}{}",
                                account.peak_rank, in_gib(account.peak_bytes), spec.cluster.device.name,
                                in_gib(account.limit_bytes), largest, advice.empty() ? "" : "; ", advice));
}

}  // namespace stepcast::scenarios
