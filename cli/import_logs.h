// The kinds of `import` that read what other tools printed: nccl-tests and training logs.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "sim/base/error.h"

namespace stepcast::cli {

// Rows of nccl-tests outputs in one table; damaged lines are notes, and in JSON. Options: collective, ranks.
[[nodiscard]] Result<Output> import_nccl(const Invocation& invocation, const std::vector<std::string>& files);

// Training logs as measured runs: with --format csv a file for validate and calibrate. Options: device, devices, model,
// software, arguments (a file with the launch arguments of all of them).
[[nodiscard]] Result<Output> import_megatron_log(const Invocation& invocation, const std::vector<std::string>& files);

}  // namespace stepcast::cli
