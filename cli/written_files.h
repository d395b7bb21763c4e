// The files that a command line has written, checked before anything is computed: each has a name, can be written,
// belongs to one result, and is none of the files that are read.
//
// Files are compared as the file system sees them, so that links, "./x" and paths that differ in case count.
#pragma once

#include <filesystem>
#include <string_view>

#include <boost/program_options/options_description.hpp>

#include "cli/command.h"
#include "sim/base/error.h"

namespace stepcast::cli {

// True for the options of all commands that name a file to write.
[[nodiscard]] bool names_written_file(std::string_view option);

// Whether both names lead to one file; it need not exist.
[[nodiscard]] bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// Two names for one file are errors of `arguments`; what cannot be written is returned. Files that are read are those
// of positional words, of options that take one, and of --set KEY=FILE.
[[nodiscard]] Errors check_written_files(const Command& command,
                                         const boost::program_options::options_description& options,
                                         Arguments& arguments);

}  // namespace stepcast::cli
