#include "cli/option_table.h"

#include <boost/program_options/value_semantic.hpp>

namespace stepcast::cli {
namespace po = boost::program_options;

void add_global_options(po::options_description& options) {
  options.add_options()("format", po::value<std::string>()->value_name("table|json|csv"), "table is the default")(
      "output,o", po::value<std::string>()->value_name("FILE"), "write the result to FILE, complete or not at all")(
      "threads,j", po::value<std::string>()->value_name("N"), "worker threads; 0 (default): what the machine allows")(
      "seed", po::value<std::string>()->value_name("N"), "seed of the random draws, over that of the scenario")(
      "set", po::value<std::vector<std::string>>()->composing()->value_name("KEY=VALUE"),
      "override a scenario key, as in parallelism.ep=32; repeatable")(
      "catalog", po::value<std::string>()->value_name("DIR"), "folder of the catalogues, over STEPCAST_CATALOG")(
      "quiet,q", "no progress and no notes on standard error")("help,h", "this text");
}

std::vector<std::string> split_choices(std::string_view text) {
  std::vector<std::string> choices;
  if (text.find('|') == std::string_view::npos || text.find(' ') != std::string_view::npos) return choices;
  while (true) {
    const auto bar = text.find('|');
    choices.emplace_back(text.substr(0, bar));
    if (bar == std::string_view::npos) return choices;
    text.remove_prefix(bar + 1);
  }
}

std::vector<OptionEntry> entries_of(const po::options_description& options) {
  std::vector<OptionEntry> entries;
  for (const auto& option : options.options()) {
    OptionEntry entry;
    entry.name = option->long_name();
    const std::string shown = option->format_name();  // "-o [ --output ]" where there is a letter
    if (shown.size() > 2 && shown[0] == '-' && shown[1] != '-') entry.letter = shown.substr(1, 1);
    if (option->semantic()->max_tokens() > 0) entry.value = option->format_parameter();
    entry.words = option->description();
    entry.choices = split_choices(entry.value);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<OptionEntry> own_entries(const Command& command) {
  po::options_description options;
  command.add_options(options);
  return entries_of(options);
}

std::vector<OptionEntry> global_entries() {
  po::options_description options;
  add_global_options(options);
  return entries_of(options);
}

std::vector<std::string> positional_choices(const Command& command) { return split_choices(command.synopsis); }

}  // namespace stepcast::cli
