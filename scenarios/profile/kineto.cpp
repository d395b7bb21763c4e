// What is kept of a PyTorch profiler trace, and its files put together.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/profile/trace_file.h"

namespace stepcast::scenarios {
namespace {

constexpr std::size_t most_names = 100'000;  // distinct kernels of a file
constexpr std::size_t shown_kernels = 30;

double element_bytes(const std::string& type) {
  std::string t;
  for (const char c : type) t += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (t.find("float8") != std::string::npos || t.find("byte") != std::string::npos ||
      t.find("char") != std::string::npos || t.find("int8") != std::string::npos || t == "bool") {
    return 1;
  }
  if (t.find("bfloat16") != std::string::npos || t.find("half") != std::string::npos ||
      t.find("float16") != std::string::npos || t.find("short") != std::string::npos) {
    return 2;
  }
  if (t.find("double") != std::string::npos || t.find("long") != std::string::npos ||
      t.find("int64") != std::string::npos) {
    return 8;
  }
  return t.empty() ? 0 : 4;
}

bool starts(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

struct Totals {
  std::map<std::pair<std::string, std::string>, ProfiledCommunication> communication;
  std::map<std::string, ProfiledKernel> kernels;
  int files = 0;
};

void add_totals(const KinetoFile& file, const std::vector<std::int64_t>& exposed, double steps, Totals& totals) {
  ++totals.files;
  std::vector<double> raw(file.accounts.size(), 0), calls(file.accounts.size(), 0);
  for (const GpuSlice& s : file.slices) {
    if (!file.kernels[s.kernel].what.communication) continue;
    raw[s.account] += 1e-9 * static_cast<double>(s.end - s.begin);
    calls[s.account] += 1;
  }
  for (std::size_t a = 0; a < file.accounts.size(); ++a) {
    const CommunicationAccount& account = file.accounts[a];
    auto& row = totals.communication[{account.collective, std::string(name(account.group))}];
    row.collective = account.collective;
    row.group = name(account.group);
    row.calls += calls[a] / steps;
    row.raw_s += raw[a] / steps;
    row.bytes += file.account_bytes[a] / steps;
    row.exposed_s += 1e-9 * static_cast<double>(exposed[a]) / steps;
  }
  for (const KernelName& k : file.kernels) {
    auto& row = totals.kernels[k.name];
    row.name = k.name;
    row.counted_as = k.copy ? "copy" : k.what.communication ? "communication" : sim::name(k.what.category);
    row.recognised = k.what.recognised || k.copy;
    row.calls += static_cast<double>(k.calls) / steps;
    row.seconds += 1e-9 * static_cast<double>(k.total_ns) / steps;
  }
}

void finish(Totals totals, Profile& profile) {
  const double n = std::max(1, totals.files);
  for (auto& [key, row] : totals.communication) {
    row.calls /= n;
    row.raw_s /= n;
    row.bytes /= n;
    row.exposed_s /= n;
    profile.communication.push_back(row);
  }
  double unknown = 0, all = 0;
  for (auto& [key, row] : totals.kernels) {
    row.calls /= n;
    row.seconds /= n;
    all += row.seconds;
    if (!row.recognised) unknown += row.seconds;
    profile.kernels.push_back(row);
  }
  std::stable_sort(profile.kernels.begin(), profile.kernels.end(),
                   [](const ProfiledKernel& a, const ProfiledKernel& b) { return a.seconds > b.seconds; });
  if (unknown > 0.01 * all) {
    std::vector<std::string> names;
    for (const ProfiledKernel& k : profile.kernels) {
      if (!k.recognised && names.size() < 5) names.push_back(k.name.substr(0, 60));
    }
    profile.warnings.push_back(
        fmt::format("{:.1f} % of the kernel time has names that no pattern knows, counted as "
                    "memory_bound: {}",
                    100 * unknown / all, fmt::join(names, "; ")));
  }
  if (profile.kernels.size() > shown_kernels) profile.kernels.resize(shown_kernels);
}

void warn_of_file(const std::string& file, const TraceInfo& info, Profile& profile) {
  if (!info.broken.empty()) {
    profile.warnings.push_back(fmt::format("{}: breaks off ({}); what comes before is used", file, info.broken));
  }
  if (info.malformed > 0) {
    profile.warnings.push_back(fmt::format("{}: {} of {} events have no usable times or are none, left out", file,
                                           info.malformed, info.events));
  }
}

Status add_own(OwnFile& file, const std::string& name, Profile& profile) {
  if (file.step_begin == absent || file.ranks.empty()) {
    return make_error(ErrorCode::unreadable, "a trace of stepcast without its step or its ranks", name);
  }
  if (file.unknown_categories > 0) {
    profile.warnings.push_back(
        fmt::format("{}: {} ops of unknown category, counted as other", name, file.unknown_categories));
  }
  profile.of_forecast = true;
  for (auto& [id, rank] : file.ranks) {
    ProfiledRank out;
    out.rank = id;
    out.file = name;
    out.steps.push_back({file.step_begin, file.step_end, partition_own(rank, file.step_begin, file.step_end)});
    profile.ranks.push_back(std::move(out));
  }
  return Unit{};
}

Status add_kineto(KinetoFile& file, const std::string& name, Profile& profile, Totals& totals) {
  std::vector<std::int64_t> exposed;
  auto rank = partition_kineto(file, profile, exposed);
  if (!rank) {
    Errors errors = rank.errors();
    for (Error& e : errors) e.where = name;
    return errors;
  }
  if (file.ignored_phases > 0) {
    profile.warnings.push_back(
        fmt::format("{}: {} begin and end events are not read, only complete ones (ph X)", name, file.ignored_phases));
  }
  std::string guessed;
  for (const CommunicationAccount& a : file.accounts) {
    if (a.guessed) {
      guessed += fmt::format("{}{} as {}", guessed.empty() ? "" : ", ", a.collective, scenarios::name(a.group));
    }
  }
  if (!guessed.empty()) {
    const std::string line =
        fmt::format("process groups without a name that tells their kind: {} (--group NAME=KIND)", guessed);
    if (std::find(profile.assumptions.begin(), profile.assumptions.end(), line) == profile.assumptions.end()) {
      profile.assumptions.push_back(line);
    }
  }
  add_totals(file, exposed, static_cast<double>(rank->steps.size()), totals);
  rank->file = name;
  if (file.info.rank < 0) rank->rank = static_cast<std::int64_t>(profile.ranks.size());
  if (!file.info.device.empty()) profile.device = file.info.device;
  if (file.info.world_size > 0) profile.world_size = file.info.world_size;
  profile.ranks.push_back(std::move(*rank));
  return Unit{};
}

}  // namespace

std::uint32_t KinetoFile::kernel_of(const TraceEvent& event, bool copy) {
  std::string key = event.name.empty() ? "(no name)" : event.name;
  // RCCL's one kernel runs every collective: the argument names it.
  if (!event.collective.empty()) key += " " + event.collective;
  if (kernel_index_.size() >= most_names && !kernel_index_.contains(key)) key = "(further names)";
  const auto [at, fresh] = kernel_index_.try_emplace(key, static_cast<std::uint32_t>(kernels.size()));
  if (fresh) {
    KernelName k;
    k.name = event.name;
    k.what = classify_kernel(event.name);
    k.copy = copy;
    if (k.what.communication && !event.collective.empty()) {
      if (const auto named = collective_name(event.collective); named != "unknown") k.what.collective = named;
    }
    kernels.push_back(std::move(k));
  }
  return at->second;
}

std::uint32_t KinetoFile::account_of(const TraceEvent& event, const KernelClass& what, const ImportOptions& options) {
  GroupKind kind = what.group;
  for (const auto& [text, given] : options.groups) {
    if (event.group_description.find(text) != std::string::npos || event.group_name == text) kind = given;
  }
  if (kind == GroupKind::unknown) kind = group_kind(event.group_description);
  if (kind == GroupKind::unknown) kind = group_kind(event.group_name);
  const bool guessed = kind == GroupKind::unknown;
  if (guessed) kind = usual_group(what.collective);
  const std::string key = fmt::format("{}/{}/{}", what.collective, name(kind), guessed ? 1 : 0);
  const auto [at, fresh] = account_index_.try_emplace(key, static_cast<std::uint32_t>(accounts.size()));
  if (fresh) {
    accounts.push_back({what.collective, kind, guessed});
    account_bytes.push_back(0);
  }
  const double elements = static_cast<double>(std::max({event.in_elements, event.out_elements, std::int64_t{0}}));
  account_bytes[at->second] += elements * element_bytes(event.element_type);
  return at->second;
}

void KinetoFile::take(const TraceEvent& event, const ImportOptions& options) {
  if (event.phase != "X") {
    if (event.phase == "B" || event.phase == "E") ++ignored_phases;
    return;
  }
  const std::int64_t end = event.begin_ns + event.length_ns;
  const std::string& c = event.category;
  const bool copy = c == "gpu_memcpy" || c == "Memcpy";
  const bool set = c == "gpu_memset" || c == "Memset";
  if (c == "kernel" || c == "Kernel" || copy || set) {
    // Copies within the device are memory-bound work of its own.
    const bool host_copy = copy && event.name.find("DtoD") == std::string::npos;
    GpuSlice slice;
    slice.begin = event.begin_ns;
    slice.end = end;
    slice.correlation = event.correlation;
    slice.device = static_cast<std::int32_t>(std::clamp<std::int64_t>(event.pid, -1, 1 << 30));
    slice.kernel = kernel_of(event, host_copy);
    KernelName& k = kernels[slice.kernel];
    if (copy || set) k.what.recognised = true;
    ++k.calls;
    k.total_ns += event.length_ns;
    if (k.what.communication) slice.account = account_of(event, k.what, options);
    slices.push_back(slice);
  } else if (c == "cuda_runtime" || c == "cuda_driver" || c == "Runtime" || c == "hip_runtime") {
    if (event.correlation != absent) launches.push_back({event.correlation, event.begin_ns, end});
  } else if (starts(event.name, "ProfilerStep#")) {
    (c == "gpu_user_annotation" ? device_steps : host_steps).push_back({event.name, event.begin_ns, end});
  }
}

Result<Profile> import_kineto(const std::vector<std::filesystem::path>& files, const ImportOptions& options) {
  Profile profile;
  Totals totals;
  Errors errors;
  std::set<std::int64_t> seen;
  for (const auto& path : files) {
    KinetoFile kineto;
    OwnFile own;
    bool known = false, is_own = false;
    const auto each = [&](const TraceEvent& event) {
      if (!known) {
        // A forecast's trace begins with metadata that only it has.
        is_own = event.phase == "M" && event.name == "process_name" && event.label == "step";
        known = true;
      }
      if (is_own) {
        own.take(event);
      } else {
        kineto.take(event, options);
      }
    };
    const auto info = read_trace_events(path, each);
    if (!info) {
      errors.insert(errors.end(), info.errors().begin(), info.errors().end());
      continue;
    }
    const std::string name = path.string();
    warn_of_file(name, *info, profile);
    kineto.info = *info;
    own.info = *info;
    const std::size_t before = profile.ranks.size();
    const auto added = is_own ? add_own(own, name, profile) : add_kineto(kineto, name, profile, totals);
    if (!added) errors.insert(errors.end(), added.errors().begin(), added.errors().end());
    for (std::size_t i = before; i < profile.ranks.size(); ++i) {
      if (seen.insert(profile.ranks[i].rank).second) continue;
      errors.push_back(make_error(ErrorCode::invalid,
                                  fmt::format("rank {} is in another file as well", profile.ranks[i].rank), name));
    }
    if (profile.name.empty()) profile.name = path.stem().string();
  }
  if (!errors.empty()) return errors;
  if (profile.ranks.empty()) return make_error(ErrorCode::usage, "a trace file is needed", "import kineto");
  finish(std::move(totals), profile);
  return profile;
}

}  // namespace stepcast::scenarios
