#include "cli/subcommand.h"

#include <algorithm>

#include <fmt/format.h>

namespace stepcast::cli {
namespace {

const Subcommand* find(std::span<const Subcommand> kinds, const std::string& name) {
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const Subcommand& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

Error unknown_kind(std::span<const Subcommand> kinds, const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const Subcommand& kind : kinds) {
    names.emplace_back(kind.name);
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", kind.name, kind.summary);
  }
  const std::string found = name.empty() ? "a kind is needed" : fmt::format("unknown kind '{}'", name);
  return make_error(ErrorCode::usage, fmt::format("{}; kinds are {}{}", found, list, suggestion(name, names)),
                    "command line");
}

}  // namespace

Result<Output> run_subcommand(const Invocation& invocation, std::span<const Subcommand> kinds,
                              std::span<const std::string_view> all_options) {
  std::vector<std::string> files = invocation.arguments.list(subcommand_positional);
  const std::string name = files.empty() ? "" : files.front();
  const Subcommand* kind = find(kinds, name);
  if (kind == nullptr) return unknown_kind(kinds, name);
  files.erase(files.begin());
  for (const std::string_view option : all_options) {
    const bool mine = std::find(kind->options.begin(), kind->options.end(), option) != kind->options.end();
    if (!mine && invocation.arguments.has(option)) {
      invocation.arguments.fail(option, fmt::format("does not belong to '{}'", kind->name));
    }
  }
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  const int count = static_cast<int>(files.size());
  if (count < kind->min_files || (kind->max_files >= 0 && count > kind->max_files)) {
    return make_error(ErrorCode::usage,
                      fmt::format("found {} file{} behind '{}'; the form is {} {}", count, count == 1 ? "" : "s",
                                  kind->name, kind->name, kind->synopsis),
                      "command line");
  }
  return kind->run(invocation, files);
}

}  // namespace stepcast::cli
