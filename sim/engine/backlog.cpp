#include "sim/engine/backlog.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"

namespace stepcast::sim {
namespace {

void raise(Ticks* to, const Ticks* from, Ticks add, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = std::max(to[i], from[i] + add);
}

bool launched(const Instruction& in) { return in.op != Opcode::host_sync && (in.flags & flag_no_launch) == 0; }

}  // namespace

Backlog::Backlog(CohortState& state, Mail& mail, const Kernels& kernels, FlowPort* flows)
    : state_(&state),
      mail_(&mail),
      kernels_(&kernels),
      flows_(flows),
      stream_writer_(stream_count, nobody),
      slot_writer_(static_cast<std::size_t>(state.cohort->slots), nobody) {}

void Backlog::depend(Node& node, std::size_t id, std::size_t on, Ticks add) {
  nodes_[on].dependents.push_back({id, add});
  ++node.missing;
}

void Backlog::read_inputs(Node& node, std::size_t id) {
  CohortState& s = *state_;
  const Instruction& in = *node.issued.instruction;
  node.ready = LaneBuffer<Ticks>(s.padded);
  Ticks* ready = node.ready.data();
  unsigned streams = in.wait_streams;
  if (in.op != Opcode::host_sync) streams |= bit(in.stream);
  for (std::size_t i = 0; i < stream_count; ++i) {
    if (((streams >> i) & 1U) == 0) continue;
    if (stream_writer_[i] != nobody) {
      depend(node, id, stream_writer_[i], 0);
    } else {
      raise(ready, s.tail(static_cast<Stream>(i)), 0, s.padded);
    }
  }
  if (in.wait_slot != none16) {
    if (slot_writer_[in.wait_slot] != nobody) {
      depend(node, id, slot_writer_[in.wait_slot], 0);
    } else {
      raise(ready, s.slot(in.wait_slot), 0, s.padded);
    }
  }
  if (!launched(in) && in.op != Opcode::host_sync) return;
  Ticks& issued = host_writer_ != nobody ? host_add_ : s.host_offset;
  if (launched(in)) issued += s.cohort->launch_ticks;
  if (host_writer_ != nobody) {
    depend(node, id, host_writer_, issued);
  } else {
    raise(ready, s.host(), issued, s.padded);
  }
}

void Backlog::issue(const Issued& issued) {
  if (open_ == 0) nodes_.clear();
  const std::size_t id = nodes_.size();
  Node node;
  node.issued = issued;
  read_inputs(node, id);
  const Instruction& in = *issued.instruction;
  if (in.op == Opcode::host_sync) {
    host_writer_ = id;
    host_add_ = 0;
  } else {
    stream_writer_[static_cast<std::size_t>(in.stream)] = id;
  }
  if (in.record_slot != none16) slot_writer_[in.record_slot] = id;
  if (node.missing == 0) runnable_.insert(id);
  nodes_.push_back(std::move(node));
  ++open_;
  pump();
}

void Backlog::pump() {
  // A completed node can only free later ones, so one ascending pass finds all.
  for (auto it = runnable_.begin(); it != runnable_.end();) {
    const std::size_t id = *it;
    if (try_complete(id)) runnable_.erase(id);
    it = runnable_.upper_bound(id);
  }
}

bool Backlog::try_complete(std::size_t id) {
  CohortState& s = *state_;
  Issued& issued = nodes_[id].issued;
  const Instruction& in = *issued.instruction;
  const Ticks* ready = nodes_[id].ready.data();
  Ticks* duration = s.scratch(2);
  Ticks* begin = s.scratch(3);
  Ticks* end = s.scratch(4);
  if (in.op == Opcode::receive) {
    const Ticks* arrival = mail_->arrival(in.target, issued.k);
    if (arrival == nullptr) return false;
    for (std::size_t i = 0; i < s.lanes; ++i) end[i] = std::max(ready[i], arrival[i]);
    mail_->take(in.target, issued.k);
    complete(id, end);
    return true;
  }
  if (in.op == Opcode::host_sync) {
    for (std::size_t i = 0; i < s.padded; ++i) end[i] = ready[i] + s.cohort->sync_ticks;
    complete(id, end);
    return true;
  }
  if (in.op == Opcode::join && issued.arrived && mail_->meeting(in.target, issued.k) == nullptr) return false;
  const float* rows = in.load == none16 ? nullptr : s.rows.rows(in.load, issued.instance);
  kernels_->duration(s, in, rows, issued.ordinal, duration);
  if (in.op == Opcode::join) {
    const std::size_t member = mail_->member(in.target, s.index);
    if (!issued.arrived) {
      const bool last = mail_->join(in.target, issued.k, member, ready, duration);
      issued.arrived = true;
      emitted_.push_back(&in);
      if (flows_ != nullptr && (in.flags & flag_shared) != 0) hold(issued, rows, last);
    }
    const Meeting* meeting = mail_->meeting(in.target, issued.k);
    if (meeting == nullptr) return false;
    mail_->resolve(in.target, *meeting, member, (in.flags & flag_largest) != 0, duration, begin, end);
    s.add_delays(in, issued.ordinal, end);
    if (meeting->delay > 0) flows_->note_delay(s.index, issued.ordinal, meeting->delay);
    mail_->take_meeting(in.target, issued.k);
    complete(id, end);
    return true;
  }
  const Ticks* from = ready;
  if (in.op == Opcode::collective) {
    const GroupPlan& plan = s.groups[in.target];
    kernels_->group_max(plan, s.padded, ready, begin);
    if ((in.flags & flag_largest) != 0) kernels_->group_max(plan, s.padded, duration, duration);
    from = begin;
  }
  for (std::size_t i = 0; i < s.padded; ++i) end[i] = from[i] + duration[i];
  const bool shared = in.op != Opcode::compute && (in.flags & flag_shared) != 0;
  if (shared && flows_ != nullptr && post(id, rows, from, end)) return true;
  if (shared) s.add_delays(in, issued.ordinal, end);
  if (in.op == Opcode::send) {
    mail_->send(in.target, issued.k, end);
    emitted_.push_back(&in);
  }
  complete(id, end);
  return true;
}

// Hands the operation over as a flow; false when it loads nothing.
bool Backlog::post(std::size_t id, const float* rows, const Ticks* begin, const Ticks* end) {
  const CohortState& s = *state_;
  Node& node = nodes_[id];
  const LinkUse& use = s.cohort->uses[node.issued.instruction->cost];
  FlowRequest request;
  request.begin = *std::max_element(begin, begin + s.lanes);
  request.end = *std::max_element(end, end + s.lanes);
  request.ports = port_ticks(use, rows, s.lanes);
  request.pattern = use.pattern;
  request.key = flows_->key(s.index, node.issued.ordinal, false);
  request.use = &use;
  request.rows = rows;
  request.lanes = s.lanes;
  if (request.end <= request.begin || !request.ports.any()) return false;
  node.end = LaneBuffer<Ticks>(s.padded);
  std::copy_n(end, s.padded, node.end.data());
  flows_->post(s.index, id, node.issued, request);
  return true;
}

// This cohort's part of a meeting on shared links; the last one to come hands it over.
void Backlog::hold(const Issued& issued, const float* rows, bool last) {
  const CohortState& s = *state_;
  const Instruction& in = *issued.instruction;
  const LinkUse& use = s.cohort->uses[in.cost];
  Meeting& meeting = mail_->meeting_at(in.target, issued.k);
  const std::uint64_t key = flows_->key(s.index, issued.ordinal, true);
  const bool first = meeting.flow.pattern < 0;
  meeting.flow.ports.raise(port_ticks(use, rows, s.lanes));
  if (first || key < meeting.flow.key) {
    meeting.flow.key = key;
    meeting.flow.pattern = use.pattern;
  }
  if (!last) return;
  Mail::bound(meeting, meeting.flow.begin, meeting.flow.end);
  if (meeting.flow.end <= meeting.flow.begin || !meeting.flow.ports.any()) return;
  meeting.held = true;
  flows_->post_join(in.target, issued.k, meeting.flow);
}

void Backlog::end_flow(std::size_t id, Ticks delay) {
  LaneBuffer<Ticks> end = std::move(nodes_[id].end);
  for (std::size_t i = 0; i < state_->padded; ++i) end.data()[i] += delay;
  const Issued issued = nodes_[id].issued;
  if (issued.instruction->op == Opcode::send) {
    mail_->send(issued.instruction->target, issued.k, end.data());
    emitted_.push_back(issued.instruction);
  }
  if (delay > 0) flows_->note_delay(state_->index, issued.ordinal, delay);
  complete(id, end.data());
}

bool Backlog::blocks(const Instruction& in) const {
  unsigned streams = in.wait_streams;
  const bool sync = in.op == Opcode::host_sync;
  if (!sync) streams |= bit(in.stream);
  for (; streams != 0; streams &= streams - 1) {
    if (stream_writer_[static_cast<std::size_t>(__builtin_ctz(streams))] != nobody) return true;
  }
  if (in.wait_slot != none16 && slot_writer_[in.wait_slot] != nobody) return true;
  if (in.record_slot != none16 && slot_writer_[in.record_slot] != nobody) return true;
  return (sync || launched(in)) && host_writer_ != nobody;
}

void Backlog::write_through(std::size_t id, const Node& node, const Ticks* end) {
  CohortState& s = *state_;
  const Instruction& in = *node.issued.instruction;
  const auto stream = static_cast<std::size_t>(in.stream);
  if (in.op == Opcode::host_sync) {
    if (host_writer_ == id) {
      std::copy_n(end, s.padded, s.host());
      s.host_offset = host_add_;
      host_writer_ = nobody;
    }
  } else if (stream_writer_[stream] == id) {
    std::copy_n(end, s.padded, s.tail(in.stream));
    stream_writer_[stream] = nobody;
  }
  if (in.record_slot != none16 && slot_writer_[in.record_slot] == id) {
    std::copy_n(end, s.padded, s.slot(in.record_slot));
    slot_writer_[in.record_slot] = nobody;
  }
}

void Backlog::complete(std::size_t id, const Ticks* end) {
  Node& node = nodes_[id];
  write_through(id, node, end);
  for (const Edge& edge : node.dependents) {
    Node& dependent = nodes_[edge.to];
    raise(dependent.ready.data(), end, edge.add, state_->padded);
    if (--dependent.missing == 0) runnable_.insert(edge.to);
  }
  node.ready = LaneBuffer<Ticks>();
  node.dependents = {};
  node.done = true;
  --open_;
}

std::vector<const Instruction*> Backlog::take_emitted() { return std::exchange(emitted_, {}); }

const Issued* Backlog::obstacle() const { return runnable_.empty() ? nullptr : &nodes_[*runnable_.begin()].issued; }

}  // namespace stepcast::sim
