#include "scenarios/strip_pieces.h"

#include <algorithm>
#include <numeric>

#include "sim/record/dependencies.h"

namespace stepcast::scenarios {
namespace {

double seconds(Ticks ticks) { return to_seconds(ticks).value; }

std::vector<StripPiece> merged(const std::vector<sim::PartitionPiece>& pieces, Ticks least) {
  std::vector<StripPiece> out;
  Ticks open_since = 0;
  bool open = false;  // the last piece still takes short ones
  for (const sim::PartitionPiece& piece : pieces) {
    const bool is_long = piece.end - piece.begin >= least;
    const auto category = static_cast<std::size_t>(piece.category);
    const bool same = !out.empty() && !open && out.back().seconds[category] > 0;  // two kernels of one category
    if (is_long ? !same : !(open && piece.end - open_since <= 2 * least)) {
      StripPiece next;
      next.begin_s = seconds(piece.begin);
      out.push_back(next);
      open = !is_long;
      open_since = piece.begin;
    }
    out.back().end_s = seconds(piece.end);
    out.back().seconds[category] += seconds(piece.end - piece.begin);
  }
  return out;
}

// Running bytes by part, in issue order.
class RunningMemory {
 public:
  RunningMemory(const sim::Program& program, const std::vector<double>& fixed) : program_(program), bytes_(fixed) {
    bytes_.resize(program.memory_parts.size(), 0);
  }

  void apply(const sim::TimelineOp& op, bool at_end) {
    for (const sim::MemoryEffect& m : sim::work_of(program_, op).memory) {
      if (m.at_end == at_end) bytes_[m.part] += m.bytes + m.bytes_per_row * static_cast<double>(op.rows);
    }
  }
  [[nodiscard]] const std::vector<double>& bytes() const { return bytes_; }
  [[nodiscard]] double total() const { return std::accumulate(bytes_.begin(), bytes_.end(), 0.0); }

 private:
  const sim::Program& program_;
  std::vector<double> bytes_;
};

struct Bin {
  double at = 0, total = -1;
  std::vector<double> bytes;
};

std::vector<std::size_t> parts_by_size(const sim::Program& program, const sim::MemoryPeak& peak,
                                       const std::vector<Bin>& bins) {
  std::vector<std::pair<double, std::size_t>> sized;
  for (std::size_t p = 0; p < program.memory_parts.size(); ++p) {
    double most = 0;
    for (const Bin& bin : bins) most = std::max(most, bin.bytes[p]);
    const auto at_peak = peak.by_part.find(program.memory_parts[p]);
    if (most > 0.5) sized.emplace_back(at_peak == peak.by_part.end() ? 0 : -at_peak->second, p);
  }
  std::stable_sort(sized.begin(), sized.end());
  std::vector<std::size_t> order;
  for (const auto& [bytes, part] : sized) order.push_back(part);
  return order;
}

}  // namespace

std::vector<StripPiece> merged_pieces(const std::vector<sim::PartitionPiece>& pieces, std::size_t most) {
  if (pieces.empty()) return {};
  const Ticks duration = pieces.back().end - pieces.front().begin;
  std::vector<StripPiece> out = merged(pieces, 0);
  // Runs of up to `least` in length: at most three pieces for each such length of the step.
  for (Ticks least = std::max<Ticks>(1, duration / static_cast<Ticks>(16 * most)); out.size() > most;
       least += least / 2 + 1) {
    out = merged(pieces, least);
  }
  return out;
}

MemoryTrack memory_track(const sim::Program& program, const sim::Timeline& timeline, const sim::MemoryPeak& peak,
                         std::size_t most) {
  MemoryTrack track;
  track.rank = peak.rank.value;
  const Ticks duration = timeline.step_end - timeline.step_begin;
  const auto first = std::find_if(timeline.ops.begin(), timeline.ops.end(),
                                  [&](const sim::TimelineOp& op) { return op.rank == peak.rank; });
  if (first == timeline.ops.end() || duration <= 0) return track;
  RunningMemory running(program, program.cohorts[static_cast<std::size_t>(first->cohort)].static_bytes);
  std::vector<Bin> bins(most);
  Ticks now = 0;
  const auto note = [&](Ticks at) {
    now = std::clamp(at - timeline.step_begin, now, duration);
    Bin& bin =
        bins[std::min(most - 1, static_cast<std::size_t>(static_cast<double>(now) / static_cast<double>(duration) *
                                                         static_cast<double>(most)))];
    const double total = running.total();
    if (total > bin.total) bin = {seconds(now), total, running.bytes()};
  };
  note(timeline.step_begin);
  for (auto op = first; op != timeline.ops.end() && op->rank == peak.rank; ++op) {
    if (sim::work_of(program, *op).memory.empty()) continue;
    running.apply(*op, false);
    note(op->begin);
    running.apply(*op, true);
    note(op->end);
  }
  std::erase_if(bins, [](const Bin& bin) { return bin.total < 0; });
  for (const Bin& bin : bins) track.at_s.push_back(bin.at);
  for (const std::size_t part : parts_by_size(program, peak, bins)) {
    track.parts.push_back(program.memory_parts[part]);
    auto& bytes = track.bytes.emplace_back();
    for (const Bin& bin : bins) bytes.push_back(bin.bytes[part]);
  }
  return track;
}

}  // namespace stepcast::scenarios
