// A family's schedules and the outlines of the bodies that they call. Internal to scenarios/plan.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "scenarios/plan/family.h"

namespace stepcast::scenarios::plan {

struct Family::Pipeline {
  parallelism::Schedule schedule;
  std::vector<PieceBlocks> pieces;
  std::vector<int> content;  // by piece: pieces of one number hold the same blocks
  int microbatches = 1;
  // By rank: 0 laid round the ranks, 1 V-shaped, 2 from both ends. Schedules of one shape place pieces alike.
  int shape = 0;
};

// Outlines of one piece by pass: forward, backward, input gradient, weight gradient.
struct PieceOutlines {
  Outline forward, backward, dgrad, wgrad;
};

struct Family::Bodies {
  std::vector<Outliner*> outliners;                     // by kind of stage
  std::map<std::pair<int, int>, PieceOutlines> pieces;  // by kind of stage and content
  std::map<std::array<int, 3>, Outline> pairs;          // kind of stage, content ahead, content behind
  double send_inside = 0, send_across = 0;              // an activation to the next stage

  const PieceOutlines& piece(const Pipeline& pipeline, int kind, int piece);
  const Outline& pair(const Pipeline& pipeline, int kind, int ahead, int behind);
};

struct Family::Evaluated {
  const Point* point = nullptr;
  Pipeline* pipeline = nullptr;
  Bodies* bodies = nullptr;
  const State* state = nullptr;
  const Groups* groups = nullptr;
};

}  // namespace stepcast::scenarios::plan
