// Two results side by side: what moved, and whether it may be called scaling.
//
// Runs that differ in model, tokens, precision, recompute, capacity, drop policy
// or router do different work: they get a throughput ratio and a list of what
// differs, never a speed-up or an efficiency.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/work_differences.h"
#include "sim/base/error.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios {

//   strong (work fixed):             speed-up = t0 / t1,               efficiency = speed-up x n0 / n1
//   weak (work per device fixed):    speed-up = (t0 / t1) x (n1 / n0), efficiency = t0 / t1
struct Scaling {
  double speedup = 1, efficiency = 1;
  std::string warning;  // efficiency above 100 %
};
[[nodiscard]] Scaling scaling(ScalingKind kind, int devices0, double seconds0, int devices1, double seconds1);

// What a comparison needs of one result.
struct RunSummary {
  std::string name;
  nlohmann::ordered_json scenario;
  int devices = 0;
  double step_time_s = 0, tokens_per_step = 0, mfu = 0, hfu = 0;
  double peak_memory_bytes = 0;
  std::map<std::string, double> breakdown_s, memory_bytes;
  std::map<std::string, std::string> spans;  // by group: "64 ranks over 8 NVLink domains"
  std::map<std::string, bool> crosses_leaf;  // by group, where the result tells it
};

// A "stepcast.forecast/1" document. Errors: another schema, missing or non-numeric fields, each with its position.
[[nodiscard]] Result<RunSummary> read_run(const JsonDocument& document);

struct Moved {
  std::string name;
  double a = 0, b = 0;
};

struct Comparison {
  enum class Kind : unsigned char {
    strong_scaling,
    weak_scaling,
    variants,        // the same work on as many devices
    different_work,  // throughput only
  };
  Kind kind = Kind::variants;
  RunSummary a, b;
  double throughput_ratio = 1;                 // tokens/s, b over a
  Scaling scaled;                              // of strong_scaling, weak_scaling; speed-up alone for variants
  std::vector<std::string> work_differences;   // "precision/recipe: bf16 -> fp8-blockwise"
  std::vector<std::string> other_differences;  // layout, software, network, ...
  std::vector<std::string> breaks;             // an EP group that now crosses the box
  std::vector<Moved> parts;                    // categories of the breakdown, largest move first
  std::vector<Moved> memory;                   // parts of the memory, largest move first
  std::vector<std::string> warnings;
};

[[nodiscard]] Comparison compare(RunSummary a, RunSummary b);

inline constexpr const char* compare_schema = "stepcast.compare/1";
[[nodiscard]] std::string_view name(Comparison::Kind kind);
// The result in one sentence.
[[nodiscard]] std::string verdict(const Comparison& comparison);
[[nodiscard]] nlohmann::ordered_json to_json(const Comparison& comparison);
[[nodiscard]] std::string to_table(const Comparison& comparison, bool colour);
[[nodiscard]] std::string to_csv(const Comparison& comparison);

}  // namespace stepcast::scenarios
