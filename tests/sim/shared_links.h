// Programs whose transfers share links: random ones, and the pipeline of the bench with its expert groups as units.
#pragma once

#include "random_program.h"
#include "tests/bench/synthetic.h"

namespace stepcast::sim::testing {

// Most transfers of the program load one to three of six links; whole cohorts are units.
inline void share_randomly(Program& program, std::uint64_t seed) {
  Draws draws(seed + 77);
  for (int l = 0; l < 6; ++l) program.link_capacity.push_back(draws.chance(70) ? 1.0 : 0.5);
  for (Cohort& cohort : program.cohorts) {
    for (const Cost& cost : cohort.costs) {
      LinkPattern pattern;
      auto& list = pattern.of_unit.emplace_back();
      for (int l = draws.below(3); l < 6; l += 1 + draws.below(4)) {
        list.push_back({l, 0.25F * static_cast<float>(1 + draws.below(4)), draws.chance(30) ? 1.0F : 0.0F});
      }
      const double part = 0.1 * (1 + draws.below(10));
      LinkUse use;
      use.nic_ticks = part * cost.base_ticks;
      use.nic_ticks_per_row = part * cost.per_row_ticks;
      use.nvlink_ticks = draws.chance(30) ? 0.5 * cost.base_ticks : 0;
      use.pattern = static_cast<std::int32_t>(program.patterns.size());
      cohort.uses.push_back(use);
      program.patterns.push_back(std::move(pattern));
    }
    for (Body& body : cohort.bodies) {
      for (Instruction& in : body.instructions) {
        const bool joins = in.op == Opcode::join && in.target % 2 == 0;  // all members of a join alike
        const bool transfer = in.op == Opcode::collective || in.op == Opcode::send;
        if (joins || (transfer && draws.chance(80))) in.flags |= flag_shared;
      }
    }
  }
}

// The bench's step with a NIC link for each unit of each stage: exchanges and hops use it fully, reductions over the
// whole stage use the NICs of all its units.
inline Program shared_pipeline(const bench::Shape& shape) {
  Program program = bench::pipeline_step(shape);
  const int lanes = shape.devices / shape.stages;
  const int units = lanes / shape.expert_parallel;
  program.link_capacity.assign(static_cast<std::size_t>(units * shape.stages), 1.0);
  for (std::size_t s = 0; s < program.cohorts.size(); ++s) {
    Cohort& cohort = program.cohorts[s];
    cohort.units = units;
    for (int lane = 0; lane < lanes; ++lane) cohort.unit_of_lane.push_back(lane / shape.expert_parallel);
    if (units == 1) cohort.unit_of_lane.clear();
    LinkPattern own, all;
    all.of_unit.resize(1);
    for (int u = 0; u < units; ++u) {
      const auto link = static_cast<std::int32_t>(s) * units + u;
      own.of_unit.push_back({{link, 1.0F, 0.0F}});
      all.of_unit[0].push_back({link, 1.0F, 0.0F});
    }
    const auto own_index = static_cast<std::int32_t>(program.patterns.size());
    program.patterns.push_back(std::move(own));
    program.patterns.push_back(std::move(all));
    for (const Cost& cost : cohort.costs) {
      cohort.uses.push_back({cost.base_ticks, cost.per_row_ticks, 0, 0, own_index});
    }
    for (Body& body : cohort.bodies) {
      for (Instruction& in : body.instructions) {
        if (in.op == Opcode::send || (in.op == Opcode::collective && in.stream == Stream::ep)) in.flags |= flag_shared;
        if (in.op != Opcode::collective || in.stream != Stream::dp) continue;
        in.flags |= flag_shared;
        cohort.uses[in.cost].pattern = own_index + 1;
      }
    }
  }
  return program;
}

}  // namespace stepcast::sim::testing
