// The slot order that DualPipe and DualPipeV share (DeepSeek-AI 2024, arXiv 2412.19437;
// github.com/deepseek-ai/DualPipe).
#pragma once

#include <vector>

#include "parallelism/schedule.h"

namespace stepcast::parallelism::pipeline {

// Seen from one rank, work comes from two sides: from the near one, whose entrance is `depth` stages away of `half`,
// and from the far one, which reaches the rank later. In DualPipe the sides are the two ends of the pipeline, in
// DualPipeV the two arms of the V.
struct TwoSides {
  int half = 1;          // ranks on an arm: p/2 for DualPipe, p for DualPipeV
  int depth = 0;         // 0 .. half-1
  int microbatches = 1;  // of each side, at least 2 x half
  int near_chunk = 0;    // chunk through which the near side's work comes
  int near_first = 0;    // number of each side's first microbatch
  int far_first = 0;
};

[[nodiscard]] std::vector<Slot> two_sided_slots(const TwoSides& sides);

// Share of a rank's ideal time 2 n (f+b+w), n microbatches a side, that is idle: (half-1)(F&B + B' - 3W), with the pair
// F&B = f+b+w (no gain from co-scheduling) and B' = b+w. Exact for f = b and w <= f; else -1: rounds of unlike slots
// then meet with gaps that depend on all three.
[[nodiscard]] double two_sided_bubble(int half, int microbatches, double f, double b, double w);

}  // namespace stepcast::parallelism::pipeline
