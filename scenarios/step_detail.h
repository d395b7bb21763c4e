// What a report draws of one step beyond its scorecard: a few ranks over time, memory over time, every expert's rows.
//
// The step of a forecast is evaluated again (the same bits), with recording of
// the ranks worth looking at: the stage on which the critical path spends most
// time and its neighbours in the pipeline, or without a pipeline the ranks with
// most, median and least time in kernels. Bounded: merged where there is more
// than a drawing can show, and then no time is lost, only order within a piece.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "scenarios/forecast.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

// Consecutive pieces of a rank's partition as one.
struct StripPiece {
  double begin_s = 0, end_s = 0;  // since the step's begin
  std::array<double, sim::category_count> seconds{};
  std::string doing;  // body and microbatch of the first kernel in it: "forward chunk 0, microbatch 3"
};

// One activation of a body on the compute stream.
struct StripCall {
  double begin_s = 0, end_s = 0;
  std::string body;  // "forward chunk 0"
  int instance = -1, second_instance = -1;
  int calls = 1;  // that are drawn as this one
};

struct RankStrip {
  int rank = 0;
  std::string cohort;  // "stage 3"
  std::vector<StripPiece> pieces;
  std::vector<StripCall> calls;
};

// Allocated bytes of the rank with the highest peak, in the allocator's order: times never go back.
struct MemoryTrack {
  int rank = 0;
  std::vector<std::string> parts;  // largest at the peak first
  std::vector<double> at_s;
  std::vector<std::vector<double>> bytes;  // by part, then by time
};

// Kept rows of every expert of one MoE layer in one group and microbatch.
struct LayerLoad {
  int layer = 0;  // decoder layer
  std::vector<double> rows;
};

struct RankPlace {
  std::string cohort;
  int lane = 0;
};

struct DetailLimits {
  std::size_t pieces = 320, calls = 400;  // a rank
  std::size_t memory_points = 240;
  std::size_t expert_layers = 64;
  std::size_t cells = 1600;       // of the map of ranks; one a rank where there are fewer
  std::size_t path_marks = 1500;  // of the critical path
};

struct StepDetail {
  DetailLimits limits;  // that it was made with
  double duration_s = 0;
  std::vector<RankPlace> places;     // by rank
  std::vector<std::string> cohorts;  // in the pipeline's order
  std::vector<RankStrip> strips;
  MemoryTrack memory;
  std::vector<LayerLoad> experts;   // empty for dense models
  std::vector<float> slow_factors;  // by rank; empty when all devices are alike
};

// `forecast` must have a critical path for the choice of a stage; without one the first stage is taken.
[[nodiscard]] Result<StepDetail> step_detail(const Forecast& forecast, const DetailLimits& limits = {});

}  // namespace stepcast::scenarios
