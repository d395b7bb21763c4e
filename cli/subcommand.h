// The kinds of `import` and `export`: one entry of a table each.
//
// A kind is the first word after the command. It adds its own options, which
// are refused for the other kinds. The table of a command is in its file.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace stepcast::cli {

struct Subcommand {
  std::string_view name;                  // "megatron"
  std::string_view synopsis;              // after the name: "FILE [--cluster NAME:N]"
  std::string_view summary;               // one line
  int min_files, max_files;               // -1: any number
  std::vector<std::string_view> options;  // of those that the command adds, which this kind takes
  Result<Output> (*run)(const Invocation& invocation, const std::vector<std::string>& files);
};

inline constexpr const char* subcommand_positional = "words";

// Runs the kind that the first word names. `all_options` are those that the command adds for any kind.
[[nodiscard]] Result<Output> run_subcommand(const Invocation& invocation, std::span<const Subcommand> kinds,
                                            std::span<const std::string_view> all_options);

}  // namespace stepcast::cli
