// Programs of a few ops and hand-made events, to tell a recorder what an engine would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/sink.h"
#include "sim/program/program.h"

namespace stepcast::sim::test {

inline Work work(const std::string& name, Category category, const std::string& collective = {}) {
  Work w;
  w.name = name;
  w.category = category;
  w.collective = collective;
  return w;
}

inline Instruction op(Opcode opcode, Stream stream, std::uint16_t work_index, std::uint16_t target = none16) {
  Instruction in;
  in.op = opcode;
  in.stream = stream;
  in.work = work_index;
  in.cost = work_index;
  in.target = target;
  return in;
}

// A cohort of consecutive ranks with one body, called once, and one cost a work.
inline Cohort cohort(const std::string& name, int first_rank, int ranks, std::vector<Work> works,
                     std::vector<Instruction> instructions) {
  Cohort c;
  c.name = name;
  for (int r = 0; r < ranks; ++r) c.ranks.emplace_back(first_rank + r);
  c.costs.resize(works.size());
  c.works = std::move(works);
  c.bodies.push_back({name, std::move(instructions)});
  c.calls.push_back({0, 0, -1});
  return c;
}

inline GroupClass whole_group(const std::string& name, int lanes) {
  GroupClass g;
  g.name = name;
  g.group_size = lanes;
  for (int l = 0; l < lanes; ++l) g.lanes.push_back(l);
  return g;
}

// Times of one instruction on each lane.
struct Times {
  std::vector<Ticks> host, ready, begin, end;
  std::vector<float> rows;
};

// The event of instruction `pc` of the cohort's first call; borrows everything.
inline InstructionEvent event(const Program& program, int cohort_index, int pc, const Times& times) {
  const Cohort& c = program.cohorts[static_cast<std::size_t>(cohort_index)];
  InstructionEvent e;
  e.cohort = cohort_index;
  e.call = 0;
  e.pc = pc;
  e.ordinal = static_cast<std::uint64_t>(pc);
  e.instruction = &c.bodies[0].instructions[static_cast<std::size_t>(pc)];
  e.work = &c.works[e.instruction->work];
  e.instance = 0;
  e.host = times.host;
  e.ready = times.ready;
  e.begin = times.begin;
  e.end = times.end;
  e.rows = times.rows;
  return e;
}

}  // namespace stepcast::sim::test
