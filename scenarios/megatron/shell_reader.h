// The arguments of a launch script: shell text, read as far as such scripts go.
//
// Assignments, arrays, quotes, comments, $NAME, ${NAME:-default}, "${ARRAY[@]}",
// $((arithmetic)) and `if` with simple tests are followed. Loops, functions,
// command substitution and here-documents are not: what they would give stays
// as it is written, and a value that needs it is an error where it is read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/megatron/arguments.h"
#include "sim/base/error.h"

namespace stepcast::scenarios::megatron {

struct ScriptText {
  ArgumentList arguments;
  std::vector<std::string> warnings;
};

// `defines` are variables that the script does not set itself, or that win over its own.
[[nodiscard]] Result<ScriptText> read_shell(std::string_view text, const std::string& file,
                                            const std::map<std::string, std::string>& defines);

}  // namespace stepcast::scenarios::megatron
