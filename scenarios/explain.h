// What a scenario resolves to and why, before anything is simulated.
//
// Resolved keys with their origin, constants of the hardware with provenance,
// where ranks sit, which layers each stage holds, and the kernels and messages
// of one layer with the time that each has alone (balanced or sampled rows of
// the first microbatch on the stage's first rank).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "parallelism/layout.h"
#include "scenarios/scenario.h"
#include "sim/base/error.h"
#include "topology/device.h"

namespace stepcast::scenarios {

struct ExplainOptions {
  std::vector<int> ranks;  // rows of the rank map; empty: the first rank of each stage
  int layer = -1;          // whose kernels; negative: the first MoE layer, or the first
};

struct RankRow {
  int rank = 0, device = 0, node = 0, domain = 0, stage = 0;
  int tp = 0, cp = 0, dp = 0, etp = 0, ep = 0, edp = 0;
};

struct GroupRow {
  std::string name;  // "tp", "ep", ...
  std::string lies;  // "8 ranks in one NVLink domain"
};

struct OpRow {
  std::string body;  // "forward chunk 0"
  std::string name, category, stream;
  double alone_s = 0;
  double executed_flops = 0, payload_bytes = 0, wire_bytes = 0;
};

struct Explanation {
  nlohmann::ordered_json resolved;
  std::vector<std::pair<std::string, std::string>> origins;
  std::vector<topology::Fact> facts;
  std::string layout;  // "tp 8 x cp 1 x dp 16 x pp 16; etp 1 x ep 8 x edp 16"
  std::string stage_split;
  std::vector<std::string> stages;  // "stage 0: embedding, layers 0-3"
  std::vector<RankRow> ranks;
  std::vector<GroupRow> groups;
  int layer = -1;
  std::vector<OpRow> ops;
  std::vector<std::string> assumptions, warnings;
  Errors faults;  // why the scenario cannot be lowered; the rest is then empty
};

// Errors: a rank or a layer that does not exist.
[[nodiscard]] Result<Explanation> explain(const Scenario& scenario, const ExplainOptions& options);

inline constexpr const char* explain_schema = "stepcast.explain/1";
[[nodiscard]] nlohmann::ordered_json to_json(const Explanation& explanation);
[[nodiscard]] std::string to_table(const Explanation& explanation, bool colour);
[[nodiscard]] std::string to_csv(const Explanation& explanation);

}  // namespace stepcast::scenarios
