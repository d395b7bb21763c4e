// Texts of --help and --version.
#pragma once

#include <string>

#include <boost/program_options/options_description.hpp>

#include "cli/command.h"

namespace stepcast::cli {

[[nodiscard]] std::string version_text();
[[nodiscard]] std::string overview();
// `own` and `global` are the command's options and those that every command takes.
[[nodiscard]] std::string help_of(const Command& command, const boost::program_options::options_description& own,
                                  const boost::program_options::options_description& global);

}  // namespace stepcast::cli
