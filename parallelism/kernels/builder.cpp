#include "parallelism/kernels/builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast::parallelism {
namespace {

// Beyond what 16 bits hold the program is refused once it is lowered (program_limits); until then the index only has
// to be one.
std::uint16_t index16(int value) {
  return value < 0 ? sim::none16 : static_cast<std::uint16_t>(std::min(value, sim::none16 - 1));
}

// A zero-length instruction that only waits.
sim::Work wait_work() {
  sim::Work work;
  work.name = "wait";
  return work;
}

}  // namespace

CohortBuilder::CohortBuilder(sim::Cohort& cohort, std::vector<std::string>& memory_parts)
    : cohort_(cohort), parts_(memory_parts) {}

void CohortBuilder::begin_body(std::string name) {
  body_ = sim::Body{};
  body_.name = std::move(name);
  forget_waits();
  second_ = false;
  graph_ = false;
  launches_due_ = 0;
}

int CohortBuilder::whole_launches(double launches) {
  launches_due_ += launches;
  const double whole = std::floor(launches_due_ + launch_rounding_);
  launches_due_ -= whole;
  return static_cast<int>(whole);
}

int CohortBuilder::end_body() {
  cohort_.bodies.push_back(std::move(body_));
  body_ = sim::Body{};
  return static_cast<int>(cohort_.bodies.size()) - 1;
}

void CohortBuilder::push(sim::Opcode opcode, sim::Stream stream, const topology::AffineTime& time, sim::NoiseKind noise,
                         sim::Work work, std::uint8_t waits, int wait_slot, int record_slot, int target, int load,
                         bool launch, bool largest) {
  sim::Cost cost;
  cost.base_ticks = time.base.value * ticks_per_second;
  cost.per_row_ticks = load < 0 ? 0 : time.per_row.value * ticks_per_second;
  cost.floor_ticks = time.floor.value * ticks_per_second;
  cost.noise = noise;
  cohort_.costs.push_back(cost);
  cohort_.works.push_back(std::move(work));

  sim::Instruction instruction;
  instruction.op = opcode;
  instruction.stream = stream;
  instruction.wait_streams = waits;
  instruction.flags =
      static_cast<std::uint8_t>((launch && !graph_ ? 0 : sim::flag_no_launch) | (largest ? sim::flag_largest : 0) |
                                (second_ ? sim::flag_second_instance : 0) | (beside_ ? mark_beside_exchange : 0));
  instruction.wait_slot = index16(wait_slot);
  instruction.record_slot = index16(record_slot);
  instruction.cost = index16(static_cast<int>(cohort_.costs.size()) - 1);
  instruction.target = index16(target);
  instruction.work = index16(static_cast<int>(cohort_.works.size()) - 1);
  instruction.load = index16(load);
  body_.instructions.push_back(instruction);
}

void CohortBuilder::compute(const OpSpec& op) {
  sim::Work work;
  work.name = op.name;
  work.category = op.category;
  work.layer = static_cast<std::int16_t>(op.layer);
  work.executed_flops = op.flops;
  work.flops_per_row = op.flops_per_row;
  const std::uint8_t waits = static_cast<std::uint8_t>(op.wait_streams | pending_waits_);
  const int slot = pending_slot_;
  topology::AffineTime time = op.time;
  const bool runs = time.base.value > 0 || time.per_row.value > 0 || time.floor.value > 0;
  const bool covers = runs && op.category != sim::Category::quantise;
  pending_waits_ = covers ? later_streams_ : std::uint8_t{0};
  pending_slot_ = -1;
  if (covers) later_streams_ = 0;
  if (op.launch && runs) {
    const Seconds gap = graph_ ? gap_graphed_ : gap_launched_;
    time.base = time.base + gap;
    if (time.floor.value > 0) time.floor = time.floor + gap;
  }
  push(sim::Opcode::compute, sim::Stream::compute, time, sim::NoiseKind::kernel, std::move(work), waits, slot,
       op.record_slot, -1, op.load, op.launch, false);
}

namespace {

sim::Work comm_work(const CommSpec& op) {
  sim::Work work;
  work.name = op.name;
  work.layer = static_cast<std::int16_t>(op.layer);
  work.payload_bytes = op.payload;
  work.payload_per_row = op.payload_per_row;
  work.wire_bytes = op.wire;
  work.wire_per_row = op.wire_per_row;
  work.nic_share = op.nic_share;
  work.collective = op.collective;
  return work;
}

}  // namespace

void CohortBuilder::collective(const CommSpec& op) {
  const bool moves = op.stream != sim::Stream::dp && (op.wait_streams & sim::bit(sim::Stream::compute)) != 0;
  push(sim::Opcode::collective, op.stream, op.time, sim::NoiseKind::none, comm_work(op),
       moves ? transfer_waits(op.wait_streams) : op.wait_streams, moves ? pending_slot_ : -1, op.record_slot, op.target,
       op.load, op.launch, op.largest);
}

void CohortBuilder::collective_beside_last(const CommSpec& op) {
  auto& list = body_.instructions;
  const auto kernel = std::find_if(list.rbegin(), list.rend(), [this](const sim::Instruction& in) {
    const sim::Cost& cost = cohort_.costs[in.cost];
    return in.op == sim::Opcode::compute && in.stream == sim::Stream::compute &&
           cost.base_ticks + cost.per_row_ticks > 0;
  });
  if (kernel == list.rend()) return collective(op);
  const auto at = list.rend() - kernel - 1;
  const sim::Instruction& beside = list[static_cast<std::size_t>(at)];
  push(sim::Opcode::collective, op.stream, op.time, sim::NoiseKind::none, comm_work(op),
       static_cast<std::uint8_t>(sim::bit(sim::Stream::compute) | beside.wait_streams),
       beside.wait_slot == sim::none16 ? -1 : beside.wait_slot, op.record_slot, op.target, op.load, op.launch,
       op.largest);
  std::rotate(list.begin() + at, list.end() - 1, list.end());
}

void CohortBuilder::send(const CommSpec& op) {
  push(sim::Opcode::send, sim::Stream::pp_send, op.time, sim::NoiseKind::none, comm_work(op),
       transfer_waits(op.wait_streams), pending_slot_, op.record_slot, op.target, op.load, op.launch, false);
}

void CohortBuilder::receive(const CommSpec& op) {
  push(sim::Opcode::receive, sim::Stream::pp_receive, {}, sim::NoiseKind::none, comm_work(op), 0, -1, op.record_slot,
       op.target, -1, op.launch, false);
}

void CohortBuilder::join(const CommSpec& op) {
  push(sim::Opcode::join, op.stream, op.time, sim::NoiseKind::none, comm_work(op), op.wait_streams, -1, op.record_slot,
       op.target, -1, op.launch, true);
}

void CohortBuilder::host_sync(std::string name, std::uint8_t wait_streams) {
  sim::Work work;
  work.name = std::move(name);
  work.category = sim::Category::host;
  push(sim::Opcode::host_sync, sim::Stream::compute, {}, sim::NoiseKind::none, std::move(work),
       transfer_waits(wait_streams), pending_slot_, -1, -1, -1, true, false);
}

void CohortBuilder::copy(const OpSpec& op) {
  sim::Work work;
  work.name = op.name;
  work.category = op.category;
  work.layer = static_cast<std::int16_t>(op.layer);
  push(sim::Opcode::compute, sim::Stream::copy, op.time, sim::NoiseKind::none, std::move(work), op.wait_streams, -1,
       op.record_slot, -1, op.load, op.launch, false);
}

std::map<std::uint16_t, CohortBuilder::Held> CohortBuilder::held_since(std::size_t first) const {
  std::map<std::uint16_t, Held> held;
  for (std::size_t w = first; w < cohort_.works.size(); ++w) {
    for (const sim::MemoryEffect& m : cohort_.works[w].memory) {
      held[m.part].bytes += m.bytes;
      held[m.part].bytes_per_row += m.bytes_per_row;
    }
  }
  // Transients leave nothing but rounding.
  std::erase_if(held, [](const auto& h) { return h.second.bytes < 0.5 && h.second.bytes_per_row < 1e-3; });
  return held;
}

void CohortBuilder::free(const std::map<std::uint16_t, Held>& held) {
  for (const auto& [index, h] : held) last_memory().push_back({index, true, -h.bytes, -h.bytes_per_row});
}

void CohortBuilder::alloc(const std::map<std::uint16_t, Held>& held) {
  for (const auto& [index, h] : held) last_memory().push_back({index, false, h.bytes, h.bytes_per_row});
}

std::vector<sim::MemoryEffect>& CohortBuilder::last_memory() {
  if (body_.instructions.empty()) {
    sim::Work carrier;
    carrier.name = "memory";
    push(sim::Opcode::compute, sim::Stream::compute, {}, sim::NoiseKind::none, std::move(carrier), 0, -1, -1, -1, -1,
         false, false);
  }
  return cohort_.works.back().memory;
}

std::uint16_t CohortBuilder::part(std::string_view name) {
  const auto found = std::find(parts_.begin(), parts_.end(), name);
  if (found != parts_.end()) return static_cast<std::uint16_t>(found - parts_.begin());
  parts_.emplace_back(name);
  return static_cast<std::uint16_t>(parts_.size() - 1);
}

void CohortBuilder::alloc(std::string_view part_name, double bytes, double bytes_per_row) {
  if (bytes == 0 && bytes_per_row == 0) return;
  last_memory().push_back({part(part_name), false, bytes, bytes_per_row});
}

void CohortBuilder::free(std::string_view part_name, double bytes, double bytes_per_row) {
  if (bytes == 0 && bytes_per_row == 0) return;
  last_memory().push_back({part(part_name), true, -bytes, -bytes_per_row});
}

void CohortBuilder::transient(std::string_view part_name, double bytes, double bytes_per_row) {
  alloc(part_name, bytes, bytes_per_row);
  free(part_name, bytes, bytes_per_row);
}

int CohortBuilder::new_slot() { return cohort_.slots++; }

int CohortBuilder::shared_slot(const std::string& name) {
  const auto [found, added] = shared_slots_.try_emplace(second_ ? name + ".second" : name, 0);
  if (added) found->second = new_slot();
  return found->second;
}

void CohortBuilder::wait_next(std::uint8_t streams, int slot) {
  pending_waits_ = static_cast<std::uint8_t>(pending_waits_ | streams);
  if (slot >= 0) {
    if (pending_slot_ >= 0) {
      push(sim::Opcode::compute, sim::Stream::compute, {}, sim::NoiseKind::none, wait_work(), 0, pending_slot_, -1, -1,
           -1, false, false);
    }
    pending_slot_ = slot;
  }
}

void CohortBuilder::wait_now() {
  const std::uint8_t waits = transfer_waits(0);
  if (waits != 0 || pending_slot_ >= 0) {
    push(sim::Opcode::compute, sim::Stream::compute, {}, sim::NoiseKind::none, wait_work(), waits, pending_slot_, -1,
         -1, -1, false, false);
  }
  forget_waits();
}

void CohortBuilder::forget_waits() {
  pending_waits_ = 0;
  pending_slot_ = -1;
  later_streams_ = 0;
}

std::uint8_t CohortBuilder::transfer_waits(std::uint8_t own) const {
  return static_cast<std::uint8_t>(own | pending_waits_ | later_streams_);
}

void CohortBuilder::second_instance(bool on) {
  second_ = on;
  forget_waits();
}

sim::Instruction CohortBuilder::wait_instruction(sim::Stream stream, int slot, bool second) {
  push(sim::Opcode::compute, stream, {}, sim::NoiseKind::none, wait_work(), 0, slot, -1, -1, -1, false, false);
  sim::Instruction wait = body_.instructions.back();
  body_.instructions.pop_back();
  if (second) wait.flags |= sim::flag_second_instance;
  return wait;
}

}  // namespace stepcast::parallelism
