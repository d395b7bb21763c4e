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

// Cuts a list's traffic between places of `per_place` lanes: each pair of places is a part, and takes its share of two
// links in three.
inline LinkParts cut_list(const std::vector<LinkShare>& list, int lanes, int per_place) {
  LinkParts cut;
  for (int lane = 0; lane < lanes; ++lane) {
    if (lane % per_place == 0) cut.places.emplace_back();
    cut.places.back().push_back(lane);
  }
  const int places = static_cast<int>(cut.places.size());
  const auto loads = [&](int a, int b, std::size_t at) {
    return a != b && (a + 2 * b + static_cast<int>(at)) % 3 != 0;
  };
  std::vector<float> users(list.size(), 0);
  for (int a = 0; a < places; ++a) {
    for (int b = 0; b < places; ++b) {
      for (std::size_t at = 0; at < list.size(); ++at) users[at] += loads(a, b, at) ? 1.0F : 0.0F;
    }
  }
  for (int a = 0; a < places; ++a) {
    for (int b = 0; b < places; ++b) {
      if (a == b) continue;
      LinkParts::Part part{a, b, 1.0 + a % 2, {}};
      for (std::size_t at = 0; at < list.size(); ++at) {
        if (!loads(a, b, at)) continue;
        part.loads.push_back({static_cast<std::int32_t>(at), list[at].nic / users[at], list[at].nvlink / users[at]});
      }
      cut.parts.push_back(std::move(part));
    }
  }
  return cut;
}

// Every transfer of the program in parts: boxes of two lanes, NICs of one; a third of the links are hashed uplinks.
inline void cut_traffic(Program& program) {
  for (std::size_t l = 0; l < program.link_capacity.size(); ++l) {
    program.flow_rule.kinds.push_back(static_cast<LinkKind>(l % 4));
  }
  for (Cohort& cohort : program.cohorts) {
    for (std::size_t i = 0; i < cohort.uses.size(); ++i) {
      LinkUse& use = cohort.uses[i];
      use.rows_leave = i % 2 == 0;
      LinkPattern& pattern = program.patterns[static_cast<std::size_t>(use.pattern)];
      if (!pattern.boxes.empty()) continue;
      const auto lists = static_cast<int>(pattern.of_unit.size());
      const int lanes = static_cast<int>(cohort.ranks.size()) / (lists > 1 ? cohort.units : 1);
      for (const auto& list : pattern.of_unit) {
        pattern.boxes.push_back(cut_list(list, lanes, 2));
        pattern.nics.push_back(cut_list(list, lanes, 1));
      }
    }
  }
}

inline constexpr std::optional<FlowLevel> every_level[] = {std::nullopt, FlowLevel::macro, FlowLevel::box,
                                                           FlowLevel::nic};

}  // namespace stepcast::sim::testing
