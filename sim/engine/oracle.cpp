#include "sim/engine/oracle.h"

#include <algorithm>

#include "sim/engine/machine.h"

namespace stepcast::sim {
namespace {

// Walks the expanded program again, with its times, to find what a lane's step ends with and what a sink is told.
class Reader {
 public:
  Reader(const Program& program, const Conditions& conditions, const RunOptions& options, const Expansion& expansion,
         const OpTimes& times)
      : program_(program), conditions_(conditions), options_(options), expansion_(expansion), times_(times) {
    for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
      const std::size_t lanes = program.cohorts[c].ranks.size();
      tails_.emplace_back(stream_count, std::vector<Ticks>(lanes, 0));
      hosts_.emplace_back(lanes, 0);
    }
  }

  RunResult run() {
    RunResult result;
    result.rank_end.assign(static_cast<std::size_t>(program_.ranks), 0);
    for (std::size_t s = 0; s < expansion_.first.size(); ++s) {
      Ticks last = 0;
      for (std::size_t c = 0; c < program_.cohorts.size(); ++c) {
        const Cohort& cohort = program_.cohorts[c];
        const std::vector<Ticks> end = step(s, c);
        for (std::size_t i = 0; i < end.size(); ++i) {
          result.rank_end[static_cast<std::size_t>(cohort.ranks[i].value)] = end[i];
          last = std::max(last, end[i]);
        }
      }
      result.step_end.push_back(last);
      result.rank_ops += program_.rank_ops();
    }
    return result;
  }

 private:
  std::vector<Ticks> step(std::size_t s, std::size_t c) {
    const Cohort& cohort = program_.cohorts[c];
    const bool last = s + 1 == expansion_.first.size();
    Sink* sink = last ? options_.sink : nullptr;
    std::size_t op = expansion_.first[s][c];
    InstructionEvent event;
    event.step = options_.first_step + s;
    event.cohort = static_cast<int>(c);
    for (std::size_t i = 0; i < hosts_[c].size(); ++i) {
      hosts_[c][i] += cohort.step_host_ticks;
      if (conditions_.stall_by_rank.empty() || event.step != conditions_.stall_step) continue;
      hosts_[c][i] += conditions_.stall_by_rank[static_cast<std::size_t>(cohort.ranks[i].value)];
    }
    for (const Call& call : cohort.calls) {
      event.call = static_cast<std::int32_t>(&call - cohort.calls.data());
      event.pc = 0;
      for (const Instruction& in : cohort.bodies[call.body].instructions) {
        instruction(c, in, call, op, event, sink);
        ++event.pc;
        ++event.ordinal;
        op += cohort.ranks.size();
      }
    }
    std::vector<Ticks> end = hosts_[c];
    for (std::size_t stream = 0; stream < stream_count; ++stream) {
      const auto id = static_cast<Stream>(stream);
      if (id == Stream::dp || id == Stream::copy) continue;
      for (std::size_t i = 0; i < end.size(); ++i) end[i] = std::max(end[i], tails_[c][stream][i]);
    }
    if (sink != nullptr) sink->on_step_end(event.step, event.cohort, end);
    return end;
  }

  void instruction(std::size_t c, const Instruction& in, const Call& call, std::size_t op, InstructionEvent& event,
                   Sink* sink) {
    const Cohort& cohort = program_.cohorts[c];
    const std::size_t lanes = cohort.ranks.size();
    const bool sync = in.op == Opcode::host_sync;
    const bool launched = !sync && (in.flags & flag_no_launch) == 0;
    if (launched) {
      for (Ticks& host : hosts_[c]) host += cohort.launch_ticks;
    }
    event.instruction = &in;
    event.work = &cohort.works[in.work];
    event.instance = (in.flags & flag_second_instance) != 0 ? call.second_instance : call.instance;
    std::vector<Ticks> ready, begin, end;
    for (std::size_t i = 0; i < lanes; ++i) {
      ready.push_back(times_.ops[op + i].ready);
      begin.push_back(times_.ops[op + i].begin);
      end.push_back(times_.ops[op + i].end);
    }
    event.ready = ready;
    event.begin = begin;
    event.end = end;
    if (sink != nullptr) {
      const std::vector<Ticks> host = launched || sync ? hosts_[c] : std::vector<Ticks>(lanes, 0);
      event.host = host;
      std::vector<float> rows;
      if (in.load != none16) {
        rows.resize(lanes);
        conditions_.loads->rows(event.step, in.load, event.cohort, event.instance, rows);
      }
      event.rows = rows;
      sink->on_instruction(event);
    }
    std::vector<Ticks>& written = sync ? hosts_[c] : tails_[c][static_cast<std::size_t>(in.stream)];
    written = std::move(end);
  }

  const Program& program_;
  const Conditions& conditions_;
  const RunOptions& options_;
  const Expansion& expansion_;
  const OpTimes& times_;
  std::vector<std::vector<std::vector<Ticks>>> tails_;  // by cohort, stream and lane
  std::vector<std::vector<Ticks>> hosts_;
};

}  // namespace

Result<RunResult> run_oracle(const Program& program, const Conditions& conditions, const RunOptions& options) {
  if (Errors errors = check_run(program, conditions, options); !errors.empty()) return errors;
  const auto expansion = expand(program, conditions, options);
  if (!expansion) return expansion.errors();
  const auto times = run_graph(expansion->graph);
  if (!times) return times.errors();
  return Reader(program, conditions, options, *expansion, *times).run();
}

}  // namespace stepcast::sim
