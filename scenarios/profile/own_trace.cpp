// A forecast's own trace, partitioned by the forecast's rules.
#include <algorithm>
#include <array>

#include "scenarios/profile/trace_file.h"

namespace stepcast::scenarios {
namespace {

using sim::Category;

// Tracks are streams in their order, from 1; gaps are given to them in this one.
constexpr std::array<sim::Stream, sim::stream_count> priority = {
    sim::Stream::tp,         sim::Stream::cp,      sim::Stream::ep, sim::Stream::compute,
    sim::Stream::pp_receive, sim::Stream::pp_send, sim::Stream::dp, sim::Stream::copy};

int rank_of_track(int track) {
  for (std::size_t i = 0; i < priority.size(); ++i) {
    if (static_cast<int>(priority[i]) + 1 == track) return static_cast<int>(i);
  }
  return static_cast<int>(priority.size());
}

struct Segment {
  std::int64_t from, to;
};

class Sweep {
 public:
  Sweep(OwnRank& rank, std::int64_t begin, std::int64_t end) : rank_(rank), begin_(begin), end_(end), cursor_(begin) {}

  PartitionNs run() {
    std::stable_sort(rank_.ops.begin(), rank_.ops.end(),
                     [](const OwnOp& a, const OwnOp& b) { return a.order < b.order; });
    for (const OwnOp& op : rank_.ops) {
      if (op.kernel) {
        kernel(op);
      } else {
        open_.push_back(&op);
      }
    }
    const std::int64_t issued = rank_.issued == absent ? begin_ : rank_.issued;
    const std::int64_t stage_end = rank_.stage_end == absent ? end_ : std::min(rank_.stage_end, end_);
    gap(cursor_, end_, issued);
    take(Category::other, begin_, stage_end);
    take(Category::bubble, begin_, end_);
    return time_;
  }

 private:
  void kernel(const OwnOp& op) {
    if (op.begin > cursor_) {
      gap(cursor_, op.begin, op.issued == absent ? begin_ : op.issued);
      for (const Segment& s : gap_) add(Category::other, s.to - s.from);
      cursor_ = op.begin;
    }
    const std::int64_t to = std::max(cursor_, op.end);
    add(op.transfer, to - cursor_);
    cursor_ = to;
  }

  void gap(std::int64_t from, std::int64_t to, std::int64_t issued) {
    gap_.assign(1, {from, to});
    std::erase_if(open_, [&](const OwnOp* op) { return op->end <= from; });
    std::stable_sort(open_.begin(), open_.end(),
                     [](const OwnOp* a, const OwnOp* b) { return rank_of_track(a->track) < rank_of_track(b->track); });
    for (const OwnOp* op : open_) take(op->transfer, op->begin, op->end);
    for (const bool bubble : {false, true}) {
      for (const OwnOp* op : open_) {
        if ((op->waiting == Category::bubble) == bubble) take(op->waiting, op->ready, op->begin);
      }
    }
    if (rank_.data_begin != absent) take(Category::data, rank_.data_begin, rank_.data_end);
    take(Category::host, from, issued);
  }

  void add(Category category, std::int64_t ns) { time_[static_cast<std::size_t>(category)] += ns; }

  // Gives what is left of the gap within [from, to) to the category.
  void take(Category category, std::int64_t from, std::int64_t to) {
    if (from >= to) return;
    std::vector<Segment> rest;
    for (const Segment& s : gap_) {
      const std::int64_t low = std::max(from, s.from), high = std::min(to, s.to);
      if (low >= high) {
        rest.push_back(s);
        continue;
      }
      add(category, high - low);
      if (s.from < low) rest.push_back({s.from, low});
      if (high < s.to) rest.push_back({high, s.to});
    }
    gap_.swap(rest);
  }

  OwnRank& rank_;
  std::int64_t begin_, end_, cursor_;
  std::vector<const OwnOp*> open_;
  std::vector<Segment> gap_;
  PartitionNs time_{};
};

}  // namespace

Category category_named(const std::string& text, bool& known) {
  known = true;
  for (int c = 0; c < sim::category_count; ++c) {
    if (text == sim::name(static_cast<Category>(c))) return static_cast<Category>(c);
  }
  known = false;
  return Category::other;
}

void OwnFile::take(const TraceEvent& event) {
  if (event.phase == "M" && event.name == "stepcast_rank" && event.pid != absent) {
    OwnRank& rank = ranks[event.pid];
    rank.issued = event.issued_ns;
    rank.stage_end = event.stage_end_ns;
    return;
  }
  if (event.phase != "X" || event.pid == absent) return;
  const std::int64_t end = event.begin_ns + event.length_ns;
  if (event.category == "step") {
    step_begin = event.begin_ns;
    step_end = end;
    return;
  }
  if (event.category == "data") {
    ranks[event.pid].data_begin = event.begin_ns;
    ranks[event.pid].data_end = end;
    return;
  }
  if (event.order == absent) return;  // waiting and issuing, which the ops themselves tell of
  OwnOp op;
  op.begin = op.ready = event.begin_ns;
  op.end = end;
  op.order = event.order;
  op.track = static_cast<int>(std::clamp<std::int64_t>(event.tid, 0, sim::stream_count + 1));
  op.issued = event.issued_ns;
  bool known = true;
  if (event.exposed_as.empty()) {
    op.kernel = true;
    op.transfer = category_named(event.category, known);
  } else {
    op.transfer = category_named(event.exposed_as, known);
    if (event.sent_ns != absent) op.begin = std::clamp(event.sent_ns, op.ready, op.end);
    if (event.ready_ns != absent) op.ready = std::min(event.ready_ns, op.begin);
    bool waits_known = true;
    if (!event.waits_as.empty()) op.waiting = category_named(event.waits_as, waits_known);
    known = known && waits_known;
  }
  if (!known) ++unknown_categories;
  ranks[event.pid].ops.push_back(op);
}

PartitionNs partition_own(OwnRank& rank, std::int64_t begin, std::int64_t end) { return Sweep(rank, begin, end).run(); }

}  // namespace stepcast::scenarios
