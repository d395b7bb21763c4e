#include "cli/help.h"

#include <sstream>

#include <fmt/format.h>

#include "cli/version.h"

namespace stepcast::cli {

std::string version_text() { return fmt::format("stepcast {} ({})\n", version, git_description); }

std::string overview() {
  std::string text =
      "stepcast forecasts a training step of a Mixture-of-Experts model on a GPU cluster.\n\n"
      "usage: stepcast COMMAND [OPTIONS]\n\n";
  for (const Command* command : commands()) text += fmt::format("  {:<10} {}\n", command->name, command->summary);
  text +=
      "\n  stepcast COMMAND --help   options and two examples of a command\n"
      "  stepcast --version        version and git description\n\n"
      "Exit codes: 0 done, 1 failed (a layout that does not fit included), 2 usage, 130 interrupted.\n";
  return text;
}

std::string help_of(const Command& command, const boost::program_options::options_description& own,
                    const boost::program_options::options_description& global) {
  std::ostringstream options;
  if (!own.options().empty()) options << own << '\n';
  options << global;
  std::string text = fmt::format("usage: stepcast {} {}\n\n{}\n\n{}\nExamples:\n", command.name, command.synopsis,
                                 command.summary, options.str());
  for (const std::string_view example : command.examples) text += fmt::format("  {}\n", example);
  return text;
}

}  // namespace stepcast::cli
