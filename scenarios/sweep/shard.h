// Which part of a sweep's points a process runs: every N-th, from the I-th on.
//
// Points are independent, so processes need no messages: each works out its
// share from its own place among them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::scenarios {

struct Shard {
  int index = 0;  // from 0
  int count = 1;
  std::string origin;  // "--shard 3/8", "SLURM_ARRAY_TASK_ID 3 of 8"; empty: no shard

  // Points of [0, total) that are the shard's.
  [[nodiscard]] std::int64_t size(std::int64_t total) const {
    return total > index ? (total - index - 1) / count + 1 : 0;
  }
  // The k-th of them.
  [[nodiscard]] std::int64_t point(std::int64_t k) const { return index + k * count; }
  [[nodiscard]] bool whole() const { return count == 1; }
};

inline constexpr int most_shards = 1 << 20;

// "I/N" with I from 0 to N - 1.
[[nodiscard]] Result<Shard> parse_shard(const std::string& text);

// The value of a variable of the environment, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// From what schedulers and launchers tell a process: job arrays (Slurm, LSF, SGE, PBS, AWS Batch), indexed jobs of
// Kubernetes, and ranks (OpenMPI, PMI, PMIx, PALS, Flux, JSM, Slurm steps). An array of jobs of several ranks
// multiplies both. `count` is the number of shards where the scheduler does not tell it (PBS, Kubernetes); 0: not
// given.
[[nodiscard]] Result<Shard> detect_shard(const Environment& environment, int count);

}  // namespace stepcast::scenarios
