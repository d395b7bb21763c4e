// What of a size can break scaling: where the groups of each kind of communication lie, microbatches, expert rows.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scenarios/forecast.h"

namespace stepcast::scenarios {

// Where the groups of one kind of communication lie.
struct GroupPlace {
  std::string words;
  int domains = 1;
  int leaf_groups = 1;
  bool crosses_leaf = false;
};

struct ScaleMarks {
  std::map<std::string, GroupPlace> places;  // by communication group
  int microbatches = 0;
  int stages = 1;
  double rows_per_expert = 0;
};

[[nodiscard]] ScaleMarks scale_marks(const Forecast& forecast);

// In words, what `now` has and `before` (null: nothing known) does not: groups that leave their NVLink domain, traffic
// that crosses a leaf switch, microbatches that run out, few rows an expert.
[[nodiscard]] std::vector<std::string> scaling_breaks(const ScaleMarks* before, const ScaleMarks& now);

}  // namespace stepcast::scenarios
