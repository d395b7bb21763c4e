// One line of JSON a point: what a sweep's results are made of, and the table made from them.
//
//   {"sweep":"9e3779b97f4a7c15","point":3,"values":{"parallelism.tp":2},"step_time_s":1.25,...}
//   {"sweep":"9e3779b97f4a7c15","point":4,"values":{"parallelism.tp":4},"error":{"kind":"invalid",...}}
//
// A line depends on its point alone, so that shards and resumed runs give the
// same bytes. A file of results holds a shard's points in their order, without
// gaps; what a killed process has left of its last line is cut off.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/forecast.h"
#include "scenarios/sweep/shard.h"
#include "scenarios/sweep/sweep_file.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

// The line of a point, with its line end.
[[nodiscard]] std::string record_of(const Sweep& sweep, std::int64_t point, const Result<Forecast>& forecast);

// How every line of a point begins.
[[nodiscard]] std::string record_start(const Sweep& sweep, std::int64_t point);

// Whole lines at the beginning of a file, checked against the shard's points.
struct FinishedPoints {
  std::int64_t points = 0;
  std::uintmax_t bytes = 0;  // of those lines; what stands behind is an unfinished line
};
// A file that is not there holds none. Errors: lines of another sweep, another version or another shard, and lines that
// no forecast can have written.
[[nodiscard]] Result<FinishedPoints> read_finished(const std::filesystem::path& file, const Sweep& sweep,
                                                   const Shard& shard);

// What a file of results holds, in numbers.
struct ResultCounts {
  std::int64_t points = 0, done = 0;
  std::map<std::string, std::int64_t> failed;  // by kind of error
  std::vector<nlohmann::ordered_json> best;    // most tokens a second, at most five, best first
  std::vector<std::string> nowhere;            // paths of the sweep's results that none of these forecasts has
};

// Reads the lines of `results` one by one and writes `table` as CSV, complete or not at all; an empty path: counts
// only.
[[nodiscard]] Result<ResultCounts> tabulate(const std::filesystem::path& results, const Sweep& sweep,
                                            const std::filesystem::path& table);

// PREFIX.jsonl, PREFIX.csv, and PREFIX.shard-2-of-8.jsonl.
struct ResultFiles {
  std::filesystem::path prefix;
  [[nodiscard]] std::filesystem::path lines() const;
  [[nodiscard]] std::filesystem::path table() const;
  [[nodiscard]] std::filesystem::path shard(const Shard& shard) const;
};

}  // namespace stepcast::scenarios
