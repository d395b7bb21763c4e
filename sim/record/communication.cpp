#include "sim/record/communication.h"

#include <algorithm>

#include "sim/record/statistics.h"

namespace stepcast::sim {
namespace {

Ticks sum_of_differences(std::span<const Ticks> from, std::span<const Ticks> to) {
  Ticks sum = 0;
  for (std::size_t l = 0; l < from.size(); ++l) sum += to[l] - from[l];
  return sum;
}

double sum_of_rows(const InstructionEvent& event) {
  double sum = 0;
  for (float rows : event.rows) sum += static_cast<double>(rows);
  return sum;
}

}  // namespace

CommunicationRecorder::CommunicationRecorder(const Program& program, const Labels& labels)
    : program_(program), labels_(labels), accounts_(labels.accounts().size()) {
  for (Sums& sums : accounts_) sums.cohorts.assign(program.cohorts.size(), false);
}

void CommunicationRecorder::on_instruction(const InstructionEvent& event, std::span<const Ticks> message_begin) {
  const Work& work = *event.work;
  const double lanes = static_cast<double>(event.end.size());
  const bool by_rows = work.flops_per_row != 0 || work.payload_per_row != 0 || work.wire_per_row != 0;
  const double rows = by_rows ? sum_of_rows(event) : 0;
  executed_flops_ += work.executed_flops * lanes + work.flops_per_row * rows;

  if (event.instruction->op == Opcode::host_sync) return;
  const std::uint16_t account = labels_.of(event.cohort, event.call, event.pc).account;
  if (account == none16) return;
  Sums& sums = accounts_[account];
  sums.cohorts[static_cast<std::size_t>(event.cohort)] = true;
  if (event.instruction->op == Opcode::receive) {
    sums.waiting += sum_of_differences(event.ready, message_begin);
    return;
  }
  sums.calls += static_cast<std::int64_t>(event.end.size());
  const double wire = work.wire_bytes * lanes + work.wire_per_row * rows;
  sums.payload += work.payload_bytes * lanes + work.payload_per_row * rows;
  sums.wire += wire;
  sums.nic += wire * work.nic_share;
  sums.raw += sum_of_differences(event.begin, event.end);
  sums.waiting += sum_of_differences(event.ready, event.begin);
}

std::vector<CommunicationStats> CommunicationRecorder::stats(const PartitionRecorder& partition) const {
  std::vector<CommunicationStats> stats;
  for (std::size_t a = 0; a < accounts_.size(); ++a) {
    const Sums& sums = accounts_[a];
    std::vector<Ticks> exposed;
    const std::vector<Ticks> by_rank = partition.exposed_by_rank(a);
    for (std::size_t c = 0; c < program_.cohorts.size(); ++c) {
      if (!sums.cohorts[c]) continue;
      for (RankId rank : program_.cohorts[c].ranks) exposed.push_back(by_rank[static_cast<std::size_t>(rank.value)]);
    }
    if (exposed.empty()) continue;
    const auto ranks = static_cast<std::int64_t>(exposed.size());
    const double share = 1.0 / static_cast<double>(ranks);
    CommunicationStats s;
    s.collective = labels_.accounts()[a].collective;
    s.group = labels_.accounts()[a].group;
    s.calls = (sums.calls + ranks / 2) / ranks;
    s.payload_bytes = sums.payload * share;
    s.wire_bytes = sums.wire * share;
    s.nic_bytes = sums.nic * share;
    s.raw = sums.raw / ranks;
    s.waiting = sums.waiting / ranks;
    s.exposed_mean = mean(exposed);
    std::sort(exposed.begin(), exposed.end());
    s.exposed_p95 = percentile(exposed, 95);
    s.exposed_max = exposed.back();
    stats.push_back(std::move(s));
  }
  return stats;
}

}  // namespace stepcast::sim
