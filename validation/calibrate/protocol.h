// The scoring protocol of validation/README.md in one run: halves, sources, models and devices left out.
//
// One fit to all rows gives the derivatives; each split is fitted on them (refit_linearly) with the same priors, and
// the rows it leaves out are forecast anew at its constants. Nothing that a split leaves out reaches its constants but
// through the point at which the derivatives were taken.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "validation/calibrate/calibrate.h"

namespace stepcast::validation {

struct ProtocolLine {
  std::string figure;
  ErrorStats stats;  // of step times
  double mean_abs = 0;
  std::string must, aim;  // as the goal states them
  std::string note;       // measured savings, cover of intervals
};

struct ProtocolSplit {
  std::string kind, left_out;  // "source", "DGXC"
  ErrorStats stats;
};

struct Protocol {
  std::vector<ProtocolLine> lines;
  std::vector<ProtocolSplit> splits;
  std::vector<std::pair<std::string, ErrorStats>> families;  // ten rows or more, fitted on all
  Calibration fitted;                                        // on all rows
  bool interrupted = false;
};

// `rows` as observe_runs gives them. Lines whose rows are missing are left out.
[[nodiscard]] Result<Protocol> run_protocol(Observations rows, const CalibrateOptions& options);

[[nodiscard]] nlohmann::ordered_json to_json(const Protocol& protocol);
[[nodiscard]] std::string to_table(const Protocol& protocol);

// Halves by a hash of what the layout is; repeats in other releases of the software fall into the same half.
[[nodiscard]] bool in_first_half(const Observation& row);
[[nodiscard]] std::string source_group(const Observation& row);
// Catalogue name of the model, of which proxies and cut depths are part.
[[nodiscard]] std::string base_model(const Observation& row);
// Spearman's rank correlation.
[[nodiscard]] double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace stepcast::validation
