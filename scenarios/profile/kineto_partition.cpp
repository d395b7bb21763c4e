// The partition of a profiled step, by sweeping over the begins and ends of its kernels.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/profile/trace_file.h"

namespace stepcast::scenarios {
namespace {

using sim::Category;

constexpr std::int64_t kernel_wait_ns = 30;  // HTA: a gap below is launch spacing of the device
constexpr std::size_t most_steps = 100'000;

Category exposed(GroupKind kind) {
  switch (kind) {
    case GroupKind::tp:
      return Category::exposed_tp;
    case GroupKind::cp:
      return Category::exposed_cp;
    case GroupKind::ep:
      return Category::exposed_ep;
    case GroupKind::pp:
      return Category::exposed_pp;
    default:
      return Category::exposed_dp;
  }
}

// Who claims an instant: computing kernels before communication, that in the order of a forecast, copies last.
int precedence(const KernelName& k, const CommunicationAccount* account) {
  if (k.copy) return 10;
  if (!k.what.communication) return 0;
  return 1 + static_cast<int>(account->group);
}

struct Window {
  std::int64_t begin, end;
};

// The slices that are active at the sweep's position.
class Active {
 public:
  explicit Active(const KinetoFile& file) : file_(file) {}
  void add(std::uint32_t slice) { slices_.push_back(slice); }
  void drop_ended(std::int64_t at) {
    std::erase_if(slices_, [&](std::uint32_t i) { return file_.slices[i].end <= at; });
  }
  [[nodiscard]] bool empty() const { return slices_.empty(); }
  [[nodiscard]] std::int64_t next_end() const {
    std::int64_t end = INT64_MAX;
    for (std::uint32_t i : slices_) end = std::min(end, file_.slices[i].end);
    return end;
  }
  [[nodiscard]] const std::vector<std::uint32_t>& slices() const { return slices_; }

 private:
  const KinetoFile& file_;
  std::vector<std::uint32_t> slices_;
};

class Partitioner {
 public:
  Partitioner(KinetoFile& file, const std::vector<std::int64_t>& launched, std::vector<std::int64_t>& exposed_ns)
      : file_(file), launched_(launched), exposed_(exposed_ns), active_(file) {}

  // Windows in ascending order. Slices are sorted by begin.
  ProfiledStep step(const Window& window, HtaBreakdown& hta) {
    ProfiledStep out{window.begin, window.end, {}};
    std::int64_t at = window.begin, idle_from = window.begin;
    while (at < window.end) {
      while (next_ < file_.slices.size() && file_.slices[next_].begin <= at) {
        active_.add(static_cast<std::uint32_t>(next_));
        ++next_;
      }
      active_.drop_ended(at);
      const std::int64_t begins = next_ < file_.slices.size() ? file_.slices[next_].begin : INT64_MAX;
      const std::int64_t to = std::min({window.end, begins, active_.next_end()});
      if (active_.empty()) {
        idle(out, hta, idle_from, to, begins <= window.end ? next_ : file_.slices.size());
      } else {
        busy(out, hta, to - at);
      }
      at = to;
      idle_from = at;
    }
    return out;
  }

 private:
  void busy(ProfiledStep& out, HtaBreakdown& hta, std::int64_t ns) {
    const GpuSlice* best = nullptr;
    int best_rank = 0;
    bool communicates = false;
    for (std::uint32_t i : active_.slices()) {
      const GpuSlice& s = file_.slices[i];
      const KernelName& k = file_.kernels[s.kernel];
      communicates = communicates || k.what.communication;
      const int rank = precedence(k, k.what.communication ? &file_.accounts[s.account] : nullptr);
      if (best == nullptr || rank < best_rank) {
        best = &s;
        best_rank = rank;
      }
    }
    const KernelName& k = file_.kernels[best->kernel];
    const double seconds = 1e-9 * static_cast<double>(ns);
    Category category = k.what.category;
    if (k.copy) category = Category::other;
    if (best_rank > 0 && !k.copy) {
      category = exposed(file_.accounts[best->account].group);
      exposed_[best->account] += ns;
    }
    out.partition[static_cast<std::size_t>(category)] += ns;
    (best_rank == 0 ? hta.compute_s : hta.non_compute_s) += seconds;
    if (communicates) hta.communication_s += seconds;
    if (communicates && best_rank == 0) hta.overlapped_s += seconds;
  }

  // `next`: the slice that ends the gap, or none.
  void idle(ProfiledStep& out, HtaBreakdown& hta, std::int64_t from, std::int64_t to, std::size_t next) {
    const std::int64_t ns = to - from;
    const double seconds = 1e-9 * static_cast<double>(ns);
    hta.idle_s += seconds;
    const bool host = next < file_.slices.size() && launched_[next] != absent && launched_[next] > from;
    out.partition[static_cast<std::size_t>(host ? Category::host : Category::other)] += ns;
    (host ? hta.host_wait_s : ns < kernel_wait_ns ? hta.kernel_wait_s : hta.other_idle_s) += seconds;
  }

  KinetoFile& file_;
  const std::vector<std::int64_t>& launched_;  // by slice: end of its launch on the host
  std::vector<std::int64_t>& exposed_;
  Active active_;
  std::size_t next_ = 0;
};

const Launch* find_launch(const std::vector<Launch>& launches, std::int64_t correlation) {
  const auto at = std::lower_bound(launches.begin(), launches.end(), correlation,
                                   [](const Launch& l, std::int64_t c) { return l.correlation < c; });
  return at != launches.end() && at->correlation == correlation ? &*at : nullptr;
}

// A step goes from its first kernel to the first kernel of the next one; the last to its last kernel's end.
std::vector<Window> windows_of(const KinetoFile& file, const std::vector<const Launch*>& launches, Profile& profile) {
  const std::int64_t first = file.slices.front().begin;
  std::int64_t last = 0;
  for (const GpuSlice& s : file.slices) last = std::max(last, s.end);
  std::vector<StepMark> marks = file.device_steps.empty() ? file.host_steps : file.device_steps;
  const bool by_launch = file.device_steps.empty() && !file.launches.empty();
  std::sort(marks.begin(), marks.end(), [](const StepMark& a, const StepMark& b) { return a.begin < b.begin; });
  std::vector<Window> windows;
  for (const StepMark& mark : marks) {
    if (windows.size() >= most_steps) break;
    Window w{INT64_MAX, 0};
    for (std::size_t i = 0; i < file.slices.size(); ++i) {
      const std::int64_t at = by_launch ? (launches[i] == nullptr ? absent : launches[i]->begin) : file.slices[i].begin;
      if (at < mark.begin || at >= mark.end) continue;
      w.begin = std::min(w.begin, file.slices[i].begin);
      w.end = std::max(w.end, file.slices[i].end);
    }
    if (w.begin == INT64_MAX) continue;
    if (!windows.empty() && w.begin <= windows.back().begin) continue;
    if (!windows.empty()) windows.back().end = w.begin;
    windows.push_back(w);
  }
  if (!windows.empty()) return windows;
  const std::string line = "no ProfilerStep annotation with kernels: the whole trace is taken as one step";
  if (std::find(profile.assumptions.begin(), profile.assumptions.end(), line) == profile.assumptions.end()) {
    profile.assumptions.push_back(line);
  }
  return {{first, last}};
}

void keep_one_device(KinetoFile& file, Profile& profile) {
  const std::int32_t device = file.slices.front().device;
  const auto others =
      std::count_if(file.slices.begin(), file.slices.end(), [&](const GpuSlice& s) { return s.device != device; });
  if (others == 0) return;
  profile.warnings.push_back(fmt::format(
      "the file holds kernels of several devices: those of device {} are used, {} others left out", device, others));
  std::erase_if(file.slices, [&](const GpuSlice& s) { return s.device != device; });
}

}  // namespace

Result<ProfiledRank> partition_kineto(KinetoFile& file, Profile& profile, std::vector<std::int64_t>& exposed_ns) {
  if (file.slices.empty()) {
    return make_error(ErrorCode::invalid, "no GPU kernels (events of category 'kernel'): was CUDA activity recorded?");
  }
  keep_one_device(file, profile);
  std::stable_sort(file.slices.begin(), file.slices.end(),
                   [](const GpuSlice& a, const GpuSlice& b) { return a.begin < b.begin; });
  std::stable_sort(file.launches.begin(), file.launches.end(),
                   [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; });
  std::vector<const Launch*> launches(file.slices.size(), nullptr);
  std::vector<std::int64_t> launched(file.slices.size(), absent);
  for (std::size_t i = 0; i < file.slices.size(); ++i) {
    if (file.slices[i].correlation == absent) continue;
    launches[i] = find_launch(file.launches, file.slices[i].correlation);
    if (launches[i] != nullptr) launched[i] = launches[i]->end;
  }
  if (file.launches.empty()) {
    profile.warnings.push_back("no launches (category cuda_runtime): idle time cannot be told into host and other");
  }
  ProfiledRank rank;
  rank.rank = file.info.rank;
  exposed_ns.assign(file.accounts.size(), 0);
  Partitioner partitioner(file, launched, exposed_ns);
  for (const Window& window : windows_of(file, launches, profile)) {
    if (window.end > window.begin) rank.steps.push_back(partitioner.step(window, rank.hta));
  }
  if (rank.steps.empty()) return make_error(ErrorCode::invalid, "all GPU kernels have no length");
  const double share = 1.0 / static_cast<double>(rank.steps.size());
  for (double* part :
       {&rank.hta.compute_s, &rank.hta.non_compute_s, &rank.hta.idle_s, &rank.hta.host_wait_s, &rank.hta.kernel_wait_s,
        &rank.hta.other_idle_s, &rank.hta.communication_s, &rank.hta.overlapped_s}) {
    *part *= share;
  }
  return rank;
}

}  // namespace stepcast::scenarios
