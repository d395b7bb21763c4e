// Which layers each virtual stage holds.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::parallelism {

struct StageContent {
  int first_layer = 0;  // decoder layers first_layer .. first_layer + layers - 1
  int layers = 0;
  bool embedding = false;
  int mtp_layers = 0;
  bool loss = false;
};

struct StageSplit {
  std::vector<StageContent> pieces;  // by virtual stage
  std::string how;                   // in words, for `assumptions`: "61 layers over 16 stages: 3 + 13x4 + 2x3 (...)"
};

struct SplitRequest {
  int layers = 0;
  int mtp_layers = 0;
  int virtual_stages = 1;
  std::vector<int> stage_layers = {};  // explicit, one a virtual stage; empty: not given
  std::string pipeline_layout = {};    // Megatron string "Et*3|(tt|)*29,m|L"; empty: not given
};

// Without an explicit split: with MTP layers, these (twice) and the loss count as layers of the last piece; else evenly
// when layers divide; else embedding and loss counted as layers when layers + 2 divides (a piece may then hold nothing
// else); else the remainder goes to middle stages. MTP layers and loss on the last piece unless the string places them.
//
// Layout string: E embedding, t decoder layer, m MTP layer, L loss, '|' ends a stage, t*n or (...)*n repeats, commas
// and spaces mean nothing. Errors name the character, counted from 1.
[[nodiscard]] Result<StageSplit> split_stages(const SplitRequest& request);

}  // namespace stepcast::parallelism
