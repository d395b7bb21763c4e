#include "sim/record/partition.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"

namespace stepcast::sim {
namespace {

constexpr std::array<Stream, stream_count> priority = {Stream::tp,         Stream::cp,      Stream::ep, Stream::compute,
                                                       Stream::pp_receive, Stream::pp_send, Stream::dp, Stream::copy};

std::size_t index(Category category) { return static_cast<std::size_t>(category); }

}  // namespace

PartitionRecorder::PartitionRecorder(const Program& program, const Labels& labels, const MessageLog& messages,
                                     Ticks step_begin)
    : program_(program),
      labels_(labels),
      messages_(messages),
      step_begin_(step_begin),
      received_(program.channels.size(), 0) {
  cohorts_.resize(program.cohorts.size());
  for (std::size_t c = 0; c < cohorts_.size(); ++c) {
    const std::size_t n = program.cohorts[c].ranks.size();
    Lanes& lanes = cohorts_[c];
    lanes.cursor.assign(n, step_begin);
    lanes.issued.assign(n, step_begin);
    lanes.synchronised.assign(n, step_begin);
    lanes.data_begin.assign(n, step_begin);
    lanes.data_end.assign(n, step_begin);
    lanes.end.assign(n, step_begin);
    for (auto& time : lanes.time) time.assign(n, 0);
    lanes.exposed.resize(labels.accounts().size());
  }
}

void PartitionRecorder::carry(int cohort, StreamIntervals intervals) {
  cohorts_[static_cast<std::size_t>(cohort)].streams = std::move(intervals);
}

void PartitionRecorder::on_instruction(const InstructionEvent& event) {
  Lanes& lanes = cohorts_[static_cast<std::size_t>(event.cohort)];
  const Instruction& in = *event.instruction;
  note_host(lanes, program_.cohorts[static_cast<std::size_t>(event.cohort)], event);
  if (in.op == Opcode::host_sync) return;
  const OpLabel& label = labels_.of(event.cohort, event.call, event.pc);
  if (in.op == Opcode::compute && in.stream == Stream::compute) {
    on_kernel(lanes, label, event);
  } else {
    on_communication(lanes, label, event);
  }
}

// Issue times rise along the list; instructions that the host does not issue have none.
void PartitionRecorder::note_host(Lanes& lanes, const Cohort& cohort, const InstructionEvent& event) {
  if (event.instruction->op == Opcode::host_sync) {
    lanes.synchronised.assign(event.end.begin(), event.end.end());
    return;
  }
  if ((event.instruction->flags & flag_no_launch) != 0) return;
  for (std::size_t l = 0; l < event.host.size(); ++l) lanes.issued[l] = std::max(lanes.issued[l], event.host[l]);
  if (lanes.issued_any) return;
  lanes.issued_any = true;
  if (cohort.step_host_ticks == 0) return;
  for (std::size_t l = 0; l < event.host.size(); ++l) {
    lanes.data_end[l] = event.host[l] - cohort.launch_ticks;
    lanes.data_begin[l] = lanes.data_end[l] - cohort.step_host_ticks;
  }
}

void PartitionRecorder::on_kernel(Lanes& lanes, const OpLabel& label, const InstructionEvent& event) {
  const std::size_t n = lanes.cursor.size();
  Ticks widest = 0;
  for (std::size_t l = 0; l < n; ++l) widest = std::max(widest, event.begin[l] - lanes.cursor[l]);
  if (widest > 0) {
    collect_open(lanes);
    for (std::size_t l = 0; l < n; ++l) {
      if (event.begin[l] <= lanes.cursor[l]) continue;
      sweep(lanes, l, lanes.cursor[l], event.begin[l]);
      for (const Segment& rest : gap_) {
        lanes.time[index(Category::other)][l] += rest.to - rest.from;
        note_piece(Category::other, rest.from, rest.to);
      }
      lanes.cursor[l] = event.begin[l];
    }
  }
  Ticks* const time = lanes.time[index(label.transfer)].data();
  Ticks* const cursor = lanes.cursor.data();
  const Ticks* const end = event.end.data();
  for (std::size_t l = 0; l < n; ++l) {
    const Ticks to = std::max(cursor[l], end[l]);  // a kernel before the step's begin claims nothing
    time[l] += to - cursor[l];
    if (!lanes.watched.empty() && to > cursor[l]) {
      watching_ = watched_at(lanes, l);
      note_piece(label.transfer, cursor[l], to);
    }
    cursor[l] = to;
  }
}

void PartitionRecorder::on_communication(Lanes& lanes, const OpLabel& label, const InstructionEvent& event) {
  const Instruction& in = *event.instruction;
  OpenIntervals& stream = lanes.streams[static_cast<std::size_t>(in.stream)];
  stream.drop_until(lanes.cursor);
  if (in.op != Opcode::receive) {
    stream.push().assign(label, event.ready, event.begin, event.end);
    return;
  }
  const std::size_t k = received_[in.target]++;
  message_begin_.resize(event.ready.size());
  for (std::size_t l = 0; l < event.ready.size(); ++l) {
    message_begin_[l] = std::clamp(messages_.begin(in.target, k, l), event.ready[l], event.end[l]);
  }
  stream.push().assign(label, event.ready, message_begin_, event.end);
}

void PartitionRecorder::collect_open(Lanes& lanes) {
  open_.clear();
  for (Stream s : priority) {
    OpenIntervals& stream = lanes.streams[static_cast<std::size_t>(s)];
    if (stream.empty()) continue;
    stream.drop_until(lanes.cursor);
    for (const IntervalColumn& column : stream) open_.push_back(&column);
  }
}

void PartitionRecorder::watch(RankId rank) {
  for (std::size_t c = 0; c < cohorts_.size(); ++c) {
    const std::vector<RankId>& ranks = program_.cohorts[c].ranks;
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end()) continue;
    Lanes& lanes = cohorts_[c];
    lanes.watched.resize(ranks.size(), -1);
    lanes.watched[static_cast<std::size_t>(found - ranks.begin())] = static_cast<int>(watched_.size());
    watched_.push_back({rank, {}});
    return;
  }
}

std::vector<WatchedRank> PartitionRecorder::watched() const {
  std::vector<WatchedRank> sorted = watched_;
  for (WatchedRank& w : sorted) {
    std::sort(w.pieces.begin(), w.pieces.end(),
              [](const PartitionPiece& a, const PartitionPiece& b) { return a.begin < b.begin; });
  }
  return sorted;
}

WatchedRank* PartitionRecorder::watched_at(const Lanes& lanes, std::size_t lane) {
  if (lanes.watched.empty() || lanes.watched[lane] < 0) return nullptr;
  return &watched_[static_cast<std::size_t>(lanes.watched[lane])];
}

void PartitionRecorder::note_piece(Category category, Ticks from, Ticks to) {
  if (watching_ != nullptr) watching_->pieces.push_back({from - step_begin_, to - step_begin_, category});
}

Ticks PartitionRecorder::take(Category category, Ticks from, Ticks to) {
  Ticks taken = 0;
  for (std::size_t i = 0; i < gap_.size();) {
    const Segment s = gap_[i];
    const Ticks lo = std::max(from, s.from);
    const Ticks hi = std::min(to, s.to);
    if (lo >= hi) {
      ++i;
      continue;
    }
    taken += hi - lo;
    note_piece(category, lo, hi);
    if (s.from < lo && hi < s.to) {
      gap_[i].to = lo;
      gap_.push_back({hi, s.to});
      ++i;
    } else if (s.from < lo) {
      gap_[i++].to = lo;
    } else if (hi < s.to) {
      gap_[i++].from = hi;
    } else {
      gap_[i] = gap_.back();
      gap_.pop_back();
    }
  }
  return taken;
}

void PartitionRecorder::take_into(Lanes& lanes, std::size_t lane, Category category, Ticks from, Ticks to) {
  if (from < to) lanes.time[index(category)][lane] += take(category, from, to);
}

void PartitionRecorder::sweep(Lanes& lanes, std::size_t lane, Ticks from, Ticks to) {
  gap_.assign(1, {from, to});
  watching_ = watched_at(lanes, lane);
  for (const IntervalColumn* column : open_) {
    if (column->end[lane] <= from || column->begin[lane] >= to) continue;
    const Ticks taken = take(column->label.transfer, column->begin[lane], column->end[lane]);
    lanes.time[index(column->label.transfer)][lane] += taken;
    if (column->label.account != none16) {
      auto& exposed = lanes.exposed[column->label.account];
      if (exposed.empty()) exposed.assign(lanes.cursor.size(), 0);
      exposed[lane] += taken;
    }
    if (gap_.empty()) return;
  }
  for (const bool bubble : {false, true}) {
    for (const IntervalColumn* column : open_) {
      if ((column->label.waiting == Category::bubble) != bubble) continue;
      if (column->begin[lane] <= from || column->ready[lane] >= to) continue;
      take_into(lanes, lane, column->label.waiting, column->ready[lane], column->begin[lane]);
    }
  }
  if (gap_.empty()) return;
  take_into(lanes, lane, Category::data, lanes.data_begin[lane], lanes.data_end[lane]);
  take_into(lanes, lane, Category::host, from, lanes.issued[lane]);
}

void PartitionRecorder::on_step_end(int cohort, std::span<const Ticks> end) {
  cohorts_[static_cast<std::size_t>(cohort)].end.assign(end.begin(), end.end());
}

void PartitionRecorder::finish(Ticks step_end) {
  step_end_ = step_end;
  for (Lanes& lanes : cohorts_) {
    if (lanes.end.empty()) continue;
    collect_open(lanes);
    const Ticks stage_end = std::min(step_end, *std::max_element(lanes.end.begin(), lanes.end.end()));
    for (std::size_t l = 0; l < lanes.cursor.size(); ++l) {
      STEPCAST_ASSERT(lanes.cursor[l] <= step_end);
      // No kernel behind the last synchronisation shows the host's part in the tail.
      lanes.issued[l] = std::max(lanes.issued[l], lanes.synchronised[l]);
      sweep(lanes, l, lanes.cursor[l], step_end);
      take_into(lanes, l, Category::other, step_begin_, stage_end);
      take_into(lanes, l, Category::bubble, step_begin_, step_end);
      Ticks sum = 0;
      for (const auto& time : lanes.time) sum += time[l];
      STEPCAST_ASSERT(sum == step_end - step_begin_);
    }
  }
}

std::vector<Partition> PartitionRecorder::by_rank() const {
  std::vector<Partition> partitions(static_cast<std::size_t>(program_.ranks), Partition{});
  for (std::size_t c = 0; c < cohorts_.size(); ++c) {
    const std::vector<RankId>& ranks = program_.cohorts[c].ranks;
    for (std::size_t l = 0; l < ranks.size(); ++l) {
      Partition& p = partitions[static_cast<std::size_t>(ranks[l].value)];
      for (std::size_t k = 0; k < p.size(); ++k) p[k] = cohorts_[c].time[k][l];
    }
  }
  return partitions;
}

std::vector<Ticks> PartitionRecorder::exposed_by_rank(std::size_t account) const {
  std::vector<Ticks> exposed(static_cast<std::size_t>(program_.ranks), 0);
  for (std::size_t c = 0; c < cohorts_.size(); ++c) {
    const std::vector<Ticks>& by_lane = cohorts_[c].exposed[account];
    for (std::size_t l = 0; l < by_lane.size(); ++l) {
      exposed[static_cast<std::size_t>(program_.cohorts[c].ranks[l].value)] = by_lane[l];
    }
  }
  return exposed;
}

}  // namespace stepcast::sim
