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

Backlog::Backlog(CohortState& state, Mail& mail, const Kernels& kernels)
    : state_(&state),
      mail_(&mail),
      kernels_(&kernels),
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
      mail_->join(in.target, issued.k, member, ready, duration);
      issued.arrived = true;
      emitted_.push_back(&in);
    }
    const Meeting* meeting = mail_->meeting(in.target, issued.k);
    if (meeting == nullptr) return false;
    mail_->resolve(in.target, *meeting, member, (in.flags & flag_largest) != 0, duration, begin, end);
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
  if (in.op == Opcode::send) {
    mail_->send(in.target, issued.k, end);
    emitted_.push_back(&in);
  }
  complete(id, end);
  return true;
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
