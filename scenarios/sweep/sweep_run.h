// Runs the points of a sweep, or of one shard of it, and appends their lines in order.
//
// Points run on several threads; a line is written when all before it are, so
// a file is at any moment the beginning of the complete one. Memory holds the
// points in flight only, a few a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "scenarios/sweep/records.h"
#include "scenarios/sweep/shard.h"
#include "scenarios/sweep/sweep_file.h"
#include "sim/base/error.h"

namespace stepcast::scenarios {

struct SweepOptions {
  Shard shard;
  ResultFiles files;
  int threads = 1;
  bool restart = false;             // leave finished points aside and begin again
  std::function<bool()> cancelled;  // polled between points and sampled steps
  // Called from one thread at a time: points of this run that are done, all of this run, and those finished before.
  std::function<void(std::int64_t done, std::int64_t total, std::int64_t before)> progress;
};

struct SweepSummary {
  std::int64_t points = 0;   // of the shard
  std::int64_t resumed = 0;  // finished before
  std::int64_t run = 0;      // now
  bool interrupted = false;
  ResultCounts counts;  // of the file
  std::string lines, table;
};

// A whole sweep writes PREFIX.jsonl and PREFIX.csv, a shard its own PREFIX.shard-I-of-N.jsonl. A second process on the
// same file is refused.
[[nodiscard]] Result<SweepSummary> run_sweep(const Sweep& sweep, const SweepOptions& options);

struct MergeSummary {
  int shards = 0;
  ResultCounts counts;
  std::string lines, table;
};

// Joins the files of all shards into PREFIX.jsonl and PREFIX.csv. `shards` 0: as many as the files' names say. Errors:
// every shard that is missing or incomplete, with what it lacks.
[[nodiscard]] Result<MergeSummary> merge_shards(const Sweep& sweep, const ResultFiles& files, int shards);

}  // namespace stepcast::scenarios
