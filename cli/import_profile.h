// The kinds of `import` that read what was measured on machines: profiler traces and topologies.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "sim/base/error.h"
#include "sim/base/json_reader.h"

namespace stepcast::cli {

// PyTorch profiler traces, one a rank, as a profile. Option: group (NAME=KIND, repeatable).
[[nodiscard]] Result<Output> import_kineto(const Invocation& invocation, const std::vector<std::string>& files);

// nvidia-smi topo -m or NCCL topology XML as a box.
[[nodiscard]] Result<Output> import_topo(const Invocation& invocation, const std::vector<std::string>& files);

// A forecast beside a profile, for `compare`.
[[nodiscard]] Result<Output> compare_with_profile(const Invocation& invocation, const JsonDocument& forecast,
                                                  const JsonDocument& profile);

}  // namespace stepcast::cli
