// From a row of measured runs to a scenario: the rules, all in one place.
//
// What the row says is used as it stands. What it leaves open takes the usual
// default of its framework, is named in `assumed`, and comes with the other values
// it may have had, so that the forecast is a range. Nothing is keyed to a row's id
// or family.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "validation/runs.h"

namespace stepcast::validation {

// Another value that an open field may have had.
struct Alternative {
  std::string field;              // "micro_batch"
  std::vector<std::string> sets;  // overrides as --set takes them
};

struct MappedRun {
  nlohmann::ordered_json scenario;
  std::vector<std::string> assumed;
  std::vector<Alternative> alternatives;
};

// Fails with the reason when the row is out of scope or says too little (no layout, an unknown model without a shape).
[[nodiscard]] Result<MappedRun> map_run(const MeasuredRun& run, const std::filesystem::path& catalog_root);

}  // namespace stepcast::validation
