// The options of a command as data, for completion and for the manual page: the tables that --help shows.
#pragma once

#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "cli/command.h"

namespace stepcast::cli {

// --format, --output and the others that every command takes.
void add_global_options(boost::program_options::options_description& options);

struct OptionEntry {
  std::string name;                  // "output"
  std::string letter;                // "o"; empty: none
  std::string value;                 // "FILE"; empty: a flag
  std::string words;                 // what --help says
  std::vector<std::string> choices;  // of a value such as "strong|weak"

  [[nodiscard]] bool takes_file() const { return value.find("FILE") != std::string::npos; }
  [[nodiscard]] bool takes_folder() const { return value == "DIR"; }
};

[[nodiscard]] std::vector<OptionEntry> entries_of(const boost::program_options::options_description& options);
[[nodiscard]] std::vector<OptionEntry> own_entries(const Command& command);
[[nodiscard]] std::vector<OptionEntry> global_entries();
// Words that the command's positional argument may be, as far as its synopsis lists them: "models|devices|...".
[[nodiscard]] std::vector<std::string> positional_choices(const Command& command);
[[nodiscard]] std::vector<std::string> split_choices(std::string_view text);

}  // namespace stepcast::cli
