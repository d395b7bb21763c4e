// What `sweep` and `merge` share: the sweep that is named, its files, and the summary.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "scenarios/sweep/sweep_run.h"

namespace stepcast::cli {

inline constexpr const char* sweep_positional = "sweep";

[[nodiscard]] Result<scenarios::Sweep> load_named_sweep(const Invocation& invocation);

// --results, or the sweep's name in the working folder. Errors: a prefix that is a folder or a device, a file of the
// sweep that is read, or that --output names.
[[nodiscard]] Result<scenarios::ResultFiles> result_files(const Invocation& invocation, const scenarios::Sweep& sweep);

[[nodiscard]] nlohmann::ordered_json sweep_json(const scenarios::Sweep& sweep, const scenarios::Shard& shard,
                                                const scenarios::SweepSummary& summary);
[[nodiscard]] std::string sweep_table(const scenarios::Sweep& sweep, const scenarios::Shard& shard,
                                      const scenarios::SweepSummary& summary);
// The best points.
[[nodiscard]] std::string sweep_csv(const scenarios::Sweep& sweep, const scenarios::SweepSummary& summary);

}  // namespace stepcast::cli
