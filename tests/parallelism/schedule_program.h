// A schedule as a program with one kernel a slot and free communication: what its closed form speaks of. A piece's
// activations of one microbatch are one byte, from its forward's begin to the end of what gives its weight gradient.
#pragma once

#include <map>
#include <tuple>

#include "parallelism/schedule.h"
#include "sim/program/program.h"

namespace stepcast::parallelism::testing {

struct SlotTimes {
  Ticks forward = 0, input_gradient = 0, weight_gradient = 0;
};

class ScheduleProgram {
 public:
  ScheduleProgram(const Schedule& schedule, SlotTimes times, int lanes) : schedule_(schedule), times_(times) {
    program_.ranks = lanes * schedule.shape.stages;
    program_.memory_parts = {"activations"};
    program_.cohorts.resize(static_cast<std::size_t>(schedule.shape.stages));
    for (int r = 0; r < schedule.shape.stages; ++r) stage(r, lanes);
    sim::JoinClass all;
    all.name = "barrier";
    for (int r = 0; r < schedule.shape.stages; ++r) all.cohorts.push_back(r);
    program_.joins.push_back(all);
  }

  [[nodiscard]] const sim::Program& program() const { return program_; }

 private:
  int channel(int from, int from_chunk, int to, int to_chunk, bool backward) {
    const auto [it, added] = channels_.try_emplace({from, from_chunk, to, to_chunk, backward}, 0);
    if (added) {
      it->second = static_cast<int>(program_.channels.size());
      program_.channels.push_back({"p2p", from, to, {}});
    }
    return it->second;
  }

  void push(sim::Cohort& c, sim::Body& body, sim::Opcode op, sim::Stream stream, Ticks ticks, int target,
            std::uint8_t waits, double bytes, bool pair = false) {
    sim::Work work;
    work.name = "slot";
    work.category = sim::Category::gemm;
    if (bytes != 0) work.memory.push_back({0, bytes < 0, bytes, 0});
    if (pair) work.memory = {{0, false, 1, 0}, {0, true, -1, 0}};
    c.costs.push_back({static_cast<double>(ticks), 0, 0, sim::NoiseKind::none});
    c.works.push_back(work);
    sim::Instruction i;
    i.op = op;
    i.stream = stream;
    i.wait_streams = waits;
    i.flags = sim::flag_no_launch | sim::flag_largest;
    i.cost = static_cast<std::uint16_t>(c.costs.size() - 1);
    i.work = static_cast<std::uint16_t>(c.works.size() - 1);
    i.target = target < 0 ? sim::none16 : static_cast<std::uint16_t>(target);
    body.instructions.push_back(i);
  }

  void move(sim::Cohort& c, sim::Body& body, int rank, int chunk, int microbatch, bool backward, bool receive) {
    const int piece = schedule_.virtual_stage[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
    const int other = piece + ((backward == receive) ? 1 : -1);
    if (other < 0 || other >= schedule_.virtual_stages) return;
    const auto place = schedule_.owner(other, microbatch);
    if (place.rank == rank) return;
    if (receive) {
      push(c, body, sim::Opcode::receive, sim::Stream::pp_receive, 0,
           channel(place.rank, place.chunk, rank, chunk, backward), 0, 0);
    } else {
      push(c, body, sim::Opcode::send, sim::Stream::pp_send, 0, channel(rank, chunk, place.rank, place.chunk, backward),
           sim::bit(sim::Stream::compute), 0);
    }
  }

  void stage(int rank, int lanes) {
    auto& c = program_.cohorts[static_cast<std::size_t>(rank)];
    for (int l = 0; l < lanes; ++l) c.ranks.emplace_back(rank * lanes + l);
    c.static_bytes = {0};
    const auto wait = sim::bit(sim::Stream::pp_receive);
    for (const Slot& s : schedule_.ranks[static_cast<std::size_t>(rank)]) {
      sim::Body body;
      Ticks ticks = 0;
      double bytes = 0;
      if (s.kind == SlotKind::forward || s.kind == SlotKind::forward_backward) {
        ticks += times_.forward;
        bytes += 1;
        move(c, body, rank, s.chunk, s.microbatch, false, true);
      }
      const bool both = s.kind == SlotKind::forward_backward;
      if (s.kind == SlotKind::backward || both) ticks += times_.input_gradient + times_.weight_gradient;
      if (s.kind == SlotKind::backward_input) ticks += times_.input_gradient;
      if (s.kind == SlotKind::backward_weight) ticks += times_.weight_gradient;
      if (s.kind == SlotKind::backward || s.kind == SlotKind::backward_weight) bytes -= 1;
      const bool backward = s.kind == SlotKind::backward || s.kind == SlotKind::backward_input || both;
      const int chunk = both ? s.second_chunk : s.chunk;
      const int microbatch = both ? s.second_microbatch : s.microbatch;
      if (backward) move(c, body, rank, chunk, microbatch, true, true);
      push(c, body, sim::Opcode::compute, sim::Stream::compute, ticks, -1, wait, both ? 0 : bytes, both);
      if (s.kind == SlotKind::forward || both) move(c, body, rank, s.chunk, s.microbatch, false, false);
      if (backward) move(c, body, rank, chunk, microbatch, true, false);
      sim::Call call;
      call.body = static_cast<std::uint16_t>(c.bodies.size());
      call.instance = s.microbatch;
      c.bodies.push_back(std::move(body));
      c.calls.push_back(call);
    }
    sim::Body end;
    push(c, end, sim::Opcode::join, sim::Stream::dp, 0, 0, sim::bit(sim::Stream::compute), 0);
    push(c, end, sim::Opcode::compute, sim::Stream::compute, 0, -1, sim::bit(sim::Stream::dp), 0);
    sim::Call call;
    call.body = static_cast<std::uint16_t>(c.bodies.size());
    c.bodies.push_back(std::move(end));
    c.calls.push_back(call);
  }

  const Schedule& schedule_;
  SlotTimes times_;
  sim::Program program_;
  std::map<std::tuple<int, int, int, int, bool>, int> channels_;
};

}  // namespace stepcast::parallelism::testing
