// Files of row ids, as --only takes them.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::cli {

// One id a line; empty lines and lines that begin with # are skipped. Errors name the flag and the file.
[[nodiscard]] Result<std::vector<std::string>> read_ids(const std::string& file, const std::string& flag);

// Warnings that name ids which are not among `known`, with the nearest that is. Error: none of `ids` is known.
[[nodiscard]] Result<std::vector<std::string>> unknown_ids(const std::vector<std::string>& ids,
                                                           const std::vector<std::string>& known,
                                                           const std::string& file, const std::string& flag);

}  // namespace stepcast::cli
