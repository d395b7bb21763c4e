// The partition of a step and its communication accounts, from hand-made events.

#include "sim/record/recorder.h"

#include <numeric>

#include <catch2/catch.hpp>

#include "record_events.h"
#include "record_reference.h"
#include "sim/record/communication.h"
#include "sim/record/labels.h"
#include "sim/record/partition.h"
#include "sim/record/pieces.h"

using namespace stepcast;
using namespace stepcast::sim;
using namespace stepcast::sim::test;

namespace {

constexpr Ticks ms = 1'000'000'000;

Ticks of(const Partition& p, Category c) { return p[static_cast<std::size_t>(c)]; }

Ticks sum(const Partition& p) { return std::accumulate(p.begin(), p.end(), Ticks{0}); }

// Tells one event a row to the recorders of a program with one cohort.
struct Session {
  explicit Session(const Program& p, Ticks begin = 0)
      : program(p), labels(p), messages(p), partition(p, labels, messages, begin), communication(p, labels) {}

  void tell(int cohort_index, int pc, Times times) {
    if (times.host.empty()) times.host.assign(times.end.size(), 0);
    const InstructionEvent e = event(program, cohort_index, pc, times);
    messages.on_instruction(e);
    partition.on_instruction(e);
    communication.on_instruction(e, partition.message_begin());
  }
  void end(std::vector<Ticks> lanes) { partition.on_step_end(0, lanes); }

  const Program& program;
  Labels labels;
  MessageLog messages;
  PartitionRecorder partition;
  CommunicationRecorder communication;
};

Program one_cohort(int ranks, std::vector<Work> works, std::vector<Instruction> instructions) {
  Program p;
  p.ranks = ranks;
  p.cohorts.push_back(cohort("stage 0", 0, ranks, std::move(works), std::move(instructions)));
  return p;
}

}  // namespace

TEST_CASE("an all-reduce of 40 ms under 31 ms of backward exposes 9") {
  Program p = one_cohort(1,
                         {work("backward", Category::gemm), work("gradients", Category::other, "all_reduce"),
                          work("adam", Category::optimizer)},
                         {op(Opcode::compute, Stream::compute, 0), op(Opcode::collective, Stream::dp, 1, 0),
                          op(Opcode::compute, Stream::compute, 0), op(Opcode::compute, Stream::compute, 2)});
  p.cohorts[0].groups.push_back(whole_group("dp", 1));
  p.cohorts[0].works[1].payload_bytes = 1e9;
  p.cohorts[0].works[1].wire_bytes = 2e9;
  p.cohorts[0].works[1].nic_share = 0.25;
  Session s(p);
  s.tell(0, 0, {{}, {0}, {0}, {10 * ms}, {}});
  s.tell(0, 1, {{}, {10 * ms}, {10 * ms}, {50 * ms}, {}});
  s.tell(0, 2, {{}, {10 * ms}, {10 * ms}, {41 * ms}, {}});
  s.tell(0, 3, {{}, {50 * ms}, {50 * ms}, {55 * ms}, {}});
  s.end({55 * ms});
  s.partition.finish(55 * ms);

  const Partition part = s.partition.by_rank()[0];
  CHECK(of(part, Category::gemm) == 41 * ms);
  CHECK(of(part, Category::exposed_dp) == 9 * ms);
  CHECK(of(part, Category::optimizer) == 5 * ms);
  CHECK(sum(part) == 55 * ms);

  const auto stats = s.communication.stats(s.partition);
  REQUIRE(stats.size() == 1);
  CHECK(stats[0].collective == "all_reduce");
  CHECK(stats[0].group == "dp");
  CHECK(stats[0].calls == 1);
  CHECK(stats[0].raw == 40 * ms);
  CHECK(stats[0].exposed_mean == 9 * ms);
  CHECK(stats[0].exposed_max == 9 * ms);
  CHECK(stats[0].payload_bytes == 1e9);
  CHECK(stats[0].nic_bytes == 0.5e9);
}

TEST_CASE("waiting for a slower peer is kept apart from transfer") {
  Program p = one_cohort(2, {work("experts", Category::grouped_gemm), work("combine", Category::other, "all_to_all")},
                         {op(Opcode::compute, Stream::compute, 0), op(Opcode::collective, Stream::ep, 1, 0),
                          op(Opcode::compute, Stream::compute, 0)});
  p.cohorts[0].groups.push_back(whole_group("ep", 2));
  Session s(p);
  s.tell(0, 0, {{}, {0, 0}, {0, 0}, {4 * ms, 10 * ms}, {}});
  s.tell(0, 1, {{}, {4 * ms, 10 * ms}, {10 * ms, 10 * ms}, {13 * ms, 13 * ms}, {}});
  s.tell(0, 2, {{}, {13 * ms, 13 * ms}, {13 * ms, 13 * ms}, {14 * ms, 14 * ms}, {}});
  s.end({14 * ms, 14 * ms});
  s.partition.finish(14 * ms);

  const auto parts = s.partition.by_rank();
  CHECK(of(parts[0], Category::wait_ep) == 6 * ms);
  CHECK(of(parts[0], Category::exposed_ep) == 3 * ms);
  CHECK(of(parts[1], Category::wait_ep) == 0);
  CHECK(of(parts[1], Category::exposed_ep) == 3 * ms);
  const auto stats = s.communication.stats(s.partition);
  REQUIRE(stats.size() == 1);
  CHECK(stats[0].waiting == 3 * ms);
  CHECK(stats[0].raw == 3 * ms);
}

TEST_CASE("a receive is bubble until its sender sends, then exposed transfer") {
  Program p;
  p.ranks = 2;
  p.channels.push_back({"forward", 0, 1, {}});
  p.cohorts.push_back(cohort("stage 0", 0, 1, {work("layer", Category::gemm), work("send", Category::other)},
                             {op(Opcode::compute, Stream::compute, 0), op(Opcode::send, Stream::pp_send, 1, 0)}));
  p.cohorts.push_back(cohort("stage 1", 1, 1, {work("layer", Category::gemm), work("receive", Category::other)},
                             {op(Opcode::receive, Stream::pp_receive, 1, 0), op(Opcode::compute, Stream::compute, 0)}));
  Session s(p);
  s.tell(0, 0, {{}, {0}, {0}, {5 * ms}, {}});
  s.tell(0, 1, {{}, {5 * ms}, {5 * ms}, {7 * ms}, {}});
  s.tell(1, 0, {{}, {0}, {0}, {7 * ms}, {}});
  s.tell(1, 1, {{}, {7 * ms}, {7 * ms}, {12 * ms}, {}});
  s.partition.on_step_end(0, std::vector<Ticks>{7 * ms});
  s.partition.on_step_end(1, std::vector<Ticks>{12 * ms});
  s.partition.finish(12 * ms);

  const auto parts = s.partition.by_rank();
  CHECK(of(parts[1], Category::bubble) == 5 * ms);
  CHECK(of(parts[1], Category::exposed_pp) == 2 * ms);
  CHECK(of(parts[1], Category::gemm) == 5 * ms);
  // The sender's own transfer, then the wait for the other stage.
  CHECK(of(parts[0], Category::exposed_pp) == 2 * ms);
  CHECK(of(parts[0], Category::bubble) == 5 * ms);
}

TEST_CASE("late issue is the host's, the data loader's share apart") {
  Program p = one_cohort(1, {work("layer", Category::gemm)},
                         {op(Opcode::compute, Stream::compute, 0), op(Opcode::compute, Stream::compute, 0)});
  p.cohorts[0].step_host_ticks = 3 * ms;
  p.cohorts[0].launch_ticks = 1 * ms;
  Session s(p);
  s.tell(0, 0, {{4 * ms}, {4 * ms}, {4 * ms}, {4 * ms}, {}});
  s.tell(0, 1, {{5 * ms}, {6 * ms}, {6 * ms}, {8 * ms}, {}});
  s.end({8 * ms});
  s.partition.finish(9 * ms);
  const Partition part = s.partition.by_rank()[0];
  CHECK(of(part, Category::data) == 3 * ms);
  CHECK(of(part, Category::host) == 2 * ms);
  CHECK(of(part, Category::other) == 1 * ms);
  CHECK(of(part, Category::gemm) == 2 * ms);
  CHECK(of(part, Category::bubble) == 1 * ms);
  CHECK(sum(part) == 9 * ms);
}

TEST_CASE("several transfers in a gap: the order of streams decides, nothing is counted twice") {
  Program p = one_cohort(1,
                         {work("layer", Category::gemm), work("gather", Category::other, "all_gather"),
                          work("reduce", Category::other, "reduce_scatter")},
                         {op(Opcode::collective, Stream::dp, 2, 1), op(Opcode::collective, Stream::tp, 1, 0),
                          op(Opcode::compute, Stream::compute, 0)});
  p.cohorts[0].groups = {whole_group("tp", 1), whole_group("dp", 1)};
  Session s(p);
  s.tell(0, 0, {{}, {0}, {1 * ms}, {9 * ms}, {}});
  s.tell(0, 1, {{}, {2 * ms}, {3 * ms}, {5 * ms}, {}});
  s.tell(0, 2, {{}, {10 * ms}, {10 * ms}, {11 * ms}, {}});
  s.end({11 * ms});
  s.partition.finish(11 * ms);
  const Partition part = s.partition.by_rank()[0];
  CHECK(of(part, Category::exposed_tp) == 2 * ms);
  CHECK(of(part, Category::exposed_dp) == 6 * ms);
  CHECK(of(part, Category::wait_dp) == 1 * ms);
  CHECK(of(part, Category::wait_tp) == 0);
  CHECK(of(part, Category::other) == 1 * ms);
  CHECK(sum(part) == 11 * ms);
}

TEST_CASE("a gather of the step before delays the first kernel, one that outlives the step is cut") {
  Program p = one_cohort(1, {work("layer", Category::gemm), work("parameters", Category::other, "all_gather")},
                         {op(Opcode::compute, Stream::compute, 0), op(Opcode::collective, Stream::dp, 1, 0)});
  p.cohorts[0].groups.push_back(whole_group("dp", 1));
  Session s(p, 100 * ms);
  StreamIntervals before;
  before[static_cast<std::size_t>(Stream::dp)].push().assign(s.labels.of(0, 0, 1), std::vector<Ticks>{95 * ms},
                                                             std::vector<Ticks>{95 * ms}, std::vector<Ticks>{104 * ms});
  s.partition.carry(0, std::move(before));
  s.tell(0, 0, {{}, {104 * ms}, {104 * ms}, {110 * ms}, {}});
  s.tell(0, 1, {{}, {110 * ms}, {110 * ms}, {119 * ms}, {}});
  s.end({110 * ms});
  s.partition.finish(112 * ms);
  const Partition part = s.partition.by_rank()[0];
  CHECK(of(part, Category::gemm) == 6 * ms);
  CHECK(of(part, Category::exposed_dp) == 6 * ms);
  CHECK(sum(part) == 12 * ms);
}

TEST_CASE("partition, memory and communication equal a slow evaluation on random programs") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    Program program = testing::random_program(seed, false);
    decorate(program, seed);
    REQUIRE(check(program).empty());
    const testing::HashedLoads loads(seed);
    Conditions conditions;
    conditions.seed = seed;
    conditions.loads = &loads;
    conditions.kernel_sigma = 0.1 * static_cast<double>(seed % 3);
    RecordOptions options;
    options.step = seed % 3;
    options.critical_path = false;
    const auto report = record_step(program, conditions, options);
    REQUIRE(report.ok());

    testing::KeepingSink before, step;
    RunOptions run;
    run.first_step = options.step - std::min<std::uint64_t>(options.step, 1);
    if (options.step > 0) {
      run.sink = &before;
      REQUIRE(run_lockstep(program, conditions, run).ok());
      run.steps = 2;
    }
    run.sink = &step;
    REQUIRE(run_lockstep(program, conditions, run).ok());
    const ReferencePartition reference(program, before, step, report->begin, report->begin + report->duration);
    double largest = 0;
    for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
      for (std::size_t l = 0; l < program.cohorts[c].ranks.size(); ++l) {
        const auto rank = static_cast<std::size_t>(program.cohorts[c].ranks[l].value);
        CHECK(report->by_rank[rank] == reference.of(c, l));
        CHECK(report->memory.peak_by_rank[rank] == reference_peak(program, step, c, l));
        largest = std::max(largest, report->memory.peak_by_rank[rank]);
      }
    }
    std::vector<RankId> some;
    for (int rank = program.ranks - 1; rank >= 0; rank -= 2) some.emplace_back(rank);
    const auto pieces = record_pieces(program, conditions, options, some);
    REQUIRE(pieces.ok());
    REQUIRE(pieces->size() == some.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      const WatchedRank& watched = (*pieces)[i];
      REQUIRE(watched.rank == some[i]);
      Partition total{};
      Ticks at = 0;
      bool tiles = true;
      for (const PartitionPiece& piece : watched.pieces) {
        tiles = tiles && piece.begin == at && piece.end > at;
        at = piece.end;
        total[static_cast<std::size_t>(piece.category)] += piece.end - piece.begin;
      }
      CHECK(tiles);
      CHECK(at == report->duration);
      CHECK(total == report->by_rank[static_cast<std::size_t>(watched.rank.value)]);
    }
    CHECK(report->memory.bytes == largest);
    double parts = 0;
    for (const auto& [part, bytes] : report->memory.by_part) parts += bytes;
    CHECK(parts == report->memory.bytes);
  }
}
