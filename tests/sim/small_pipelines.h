// One-forward-one-backward pipelines of one kernel a pass, for closed forms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "record_events.h"
#include "sim/program/program.h"

namespace stepcast::sim::test {

struct PipelineShape {
  int stages = 4, microbatches = 8, lanes = 1;
  double forward = 100, backward = 200, transfer = 0;  // ticks
  bool join = false;                                   // a free join of all stages before the next step
  NoiseKind noise = NoiseKind::none;
};

namespace detail {

enum PipelineWork : std::uint16_t { forward_work, backward_work, send_work, receive_work, join_work };

// Receives on its stream, computes when that has come, sends when that is done.
inline Body pass(const std::string& name, std::uint16_t work_index, int from_channel, int to_channel) {
  Body body;
  body.name = name;
  Instruction compute = op(Opcode::compute, Stream::compute, work_index);
  compute.flags = flag_no_launch;
  if (from_channel >= 0) {
    Instruction receive =
        op(Opcode::receive, Stream::pp_receive, receive_work, static_cast<std::uint16_t>(from_channel));
    receive.flags = flag_no_launch;
    body.instructions.push_back(receive);
    compute.wait_streams = bit(Stream::pp_receive);
  }
  body.instructions.push_back(compute);
  if (to_channel >= 0) {
    Instruction send = op(Opcode::send, Stream::pp_send, send_work, static_cast<std::uint16_t>(to_channel));
    send.flags = flag_no_launch;
    send.wait_streams = bit(Stream::compute);
    body.instructions.push_back(send);
  }
  return body;
}

}  // namespace detail

// Stage s: min(stages - 1 - s, m) forwards, then pairs, then the remaining backwards.
inline Program one_f_one_b(const PipelineShape& shape) {
  using namespace detail;
  Program p;
  p.ranks = shape.stages * shape.lanes;
  p.memory_parts = {"weights", "activations"};
  for (int s = 0; s + 1 < shape.stages; ++s) {
    p.channels.push_back({"forward " + std::to_string(s), s, s + 1, {}});
    p.channels.push_back({"backward " + std::to_string(s), s + 1, s, {}});
  }
  if (shape.join) {
    p.joins.push_back({"world", {}, {}});
    for (int s = 0; s < shape.stages; ++s) p.joins[0].cohorts.push_back(s);
  }
  for (int s = 0; s < shape.stages; ++s) {
    const bool first = s == 0, last = s + 1 == shape.stages;
    Cohort c;
    c.name = "stage " + std::to_string(s);
    for (int l = 0; l < shape.lanes; ++l) c.ranks.emplace_back(s * shape.lanes + l);
    c.works = {work("forward", Category::gemm), work("backward", Category::attention),
               work("send", Category::other, "send_receive"), work("receive", Category::other, "send_receive"),
               work("grad norm", Category::other, "all_reduce")};
    c.works[forward_work].memory = {{1, false, 64, 0}};
    c.works[backward_work].memory = {{1, true, -64, 0}};
    c.works[forward_work].executed_flops = 1000;
    c.works[backward_work].executed_flops = 2000;
    for (std::uint16_t w : {send_work, receive_work}) c.works[w].payload_bytes = c.works[w].wire_bytes = 4096;
    c.costs = {{shape.forward, 0, 0, shape.noise},
               {shape.backward, 0, 0, shape.noise},
               {shape.transfer, 0, 0, NoiseKind::none},
               {},
               {}};
    c.static_bytes = {1000, 0};
    c.bodies = {pass("forward", forward_work, first ? -1 : 2 * (s - 1), last ? -1 : 2 * s),
                pass("backward", backward_work, last ? -1 : 2 * s + 1, first ? -1 : 2 * (s - 1) + 1)};
    Instruction join = op(Opcode::join, Stream::dp, join_work, 0);
    join.flags = flag_no_launch;
    join.wait_streams = bit(Stream::compute);
    Instruction after = op(Opcode::compute, Stream::compute, join_work);  // nothing of the next step before the join
    after.flags = flag_no_launch;
    after.wait_streams = bit(Stream::dp);
    if (shape.join) c.bodies.push_back({"join", {join, after}});
    const int warm_up = std::min(shape.stages - 1 - s, shape.microbatches);
    int forwards = 0, backwards = 0;
    const auto forward = [&] { c.calls.push_back({0, forwards++, -1}); };
    const auto backward = [&] { c.calls.push_back({1, backwards++, -1}); };
    while (forwards < warm_up) forward();
    while (forwards < shape.microbatches) {
      forward();
      backward();
    }
    while (backwards < shape.microbatches) backward();
    if (shape.join) c.calls.push_back({2, -1, -1});
    p.cohorts.push_back(std::move(c));
  }
  return p;
}

}  // namespace stepcast::sim::test
