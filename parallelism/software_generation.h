// Which profile stands in for a software name that has none: the nearest generation of the same framework.
//
// A name is a framework and a version behind its last dash: megatron-core-0.13, nemo-25.09, torchtitan-2025. Versions
// are compared number by number; a year and a release of that year (25.09 and 2025) are one scale, releases such as
// 0.13 another. The newest known one that is not newer stands in, else the oldest. Guesses nothing across frameworks.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stepcast::parallelism {

// One of `known`, or nothing if no known name is of that framework. Case, spaces and underscores do not count.
[[nodiscard]] std::optional<std::string> nearest_generation(const std::vector<std::string>& known,
                                                            const std::string& name);

}  // namespace stepcast::parallelism
