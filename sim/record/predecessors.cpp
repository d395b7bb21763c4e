#include "sim/record/predecessors.h"

namespace stepcast::sim {
namespace {

// Keys: the streams, then the slots.
std::size_t stream_key(Stream stream) { return static_cast<std::size_t>(stream); }
std::size_t slot_key(std::uint16_t slot) { return stream_count + slot; }

bool has_key(const Instruction& in, std::size_t key) {
  if (key < stream_count) return in.op != Opcode::host_sync && stream_key(in.stream) == key;
  return in.record_slot != none16 && slot_key(in.record_slot) == key;
}

}  // namespace

Predecessors::Predecessors(const Program& program) : program_(program), tables_(program.cohorts.size()) {
  for (std::size_t c = 0; c < tables_.size(); ++c) {
    const Cohort& cohort = program.cohorts[c];
    Table& table = tables_[c];
    const std::size_t keys = stream_count + static_cast<std::size_t>(cohort.slots);
    table.slot_stream.assign(static_cast<std::size_t>(cohort.slots), Stream::compute);
    for (const Body& body : cohort.bodies) {
      std::vector<std::int32_t>& last = table.last_pc.emplace_back(keys, -1);
      for (std::size_t pc = 0; pc < body.instructions.size(); ++pc) {
        const Instruction& in = body.instructions[pc];
        if (in.op != Opcode::host_sync) last[stream_key(in.stream)] = static_cast<std::int32_t>(pc);
        if (in.record_slot == none16) continue;
        last[slot_key(in.record_slot)] = static_cast<std::int32_t>(pc);
        table.slot_stream[in.record_slot] = in.stream;
      }
    }
    table.last_call.assign(keys, std::vector<std::int32_t>(cohort.calls.size() + 1, -1));
    for (std::size_t key = 0; key < keys; ++key) {
      std::int32_t last = -1;
      for (std::size_t call = 0; call < cohort.calls.size(); ++call) {
        table.last_call[key][call] = last;
        if (table.last_pc[cohort.calls[call].body][key] >= 0) last = static_cast<std::int32_t>(call);
      }
      table.last_call[key].back() = last;
    }
  }
}

Replay::Place Predecessors::find(const Replay::Place& place, std::size_t key) const {
  const Table& table = tables_[static_cast<std::size_t>(place.cohort)];
  const Cohort& cohort = program_.cohorts[static_cast<std::size_t>(place.cohort)];
  const auto call = static_cast<std::size_t>(place.call);
  for (std::int32_t pc = place.pc - 1; pc >= 0; --pc) {
    const Instruction& in = cohort.bodies[cohort.calls[call].body].instructions[static_cast<std::size_t>(pc)];
    if (has_key(in, key)) return {place.cohort, place.call, pc};
  }
  const std::int32_t last = table.last_call[key][call];
  if (last < 0) return {};
  return {place.cohort, last, table.last_pc[cohort.calls[static_cast<std::size_t>(last)].body][key]};
}

Replay::Place Predecessors::on_stream(const Replay::Place& place, Stream stream) const {
  return find(place, stream_key(stream));
}

Replay::Place Predecessors::of_slot(const Replay::Place& place, std::uint16_t slot) const {
  return find(place, slot_key(slot));
}

Stream Predecessors::stream_of_slot(int cohort, std::uint16_t slot) const {
  return tables_[static_cast<std::size_t>(cohort)].slot_stream[slot];
}

Replay::Place Predecessors::before(Replay::Place place) const {
  const Cohort& cohort = program_.cohorts[static_cast<std::size_t>(place.cohort)];
  while (--place.pc < 0) {
    if (--place.call < 0) return {};
    const Call& call = cohort.calls[static_cast<std::size_t>(place.call)];
    place.pc = static_cast<std::int32_t>(cohort.bodies[call.body].instructions.size());
  }
  return place;
}

}  // namespace stepcast::sim
