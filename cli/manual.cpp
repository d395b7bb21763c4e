// stepcast man: the manual page, from the option tables.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/option_table.h"
#include "cli/version.h"

namespace stepcast::cli {
namespace {

// Backslashes and dashes as roff wants them; a line must not begin with a control character.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string option_text(const OptionEntry& entry) {
  std::string head;
  if (!entry.letter.empty()) head += fmt::format("\\fB\\-{}\\fR, ", entry.letter);
  head += fmt::format("\\fB\\-\\-{}\\fR", roff(entry.name));
  if (!entry.value.empty()) head += fmt::format(" \\fI{}\\fR", roff(entry.value));
  return fmt::format(".TP\n{}\n{}\n", head, roff(entry.words));
}

std::string page() {
  std::string text = fmt::format(
      ".TH STEPCAST 1 \"\" \"stepcast {}\" \"User Commands\"\n.SH NAME\n"
      "stepcast \\- forecasts a training step of a Mixture\\-of\\-Experts model on a GPU cluster\n"
      ".SH SYNOPSIS\n.B stepcast\n.I COMMAND\n.RI [ OPTIONS ]\n.SH DESCRIPTION\n"
      "Simulates every rank of a training step (kernels, collectives, pipeline schedule, expert routing, host "
      "launches,\n"
      "memory) and says what it takes, where the time goes and what does not fit.\n.SH COMMANDS\n",
      version);
  for (const Command* command : commands()) {
    text += fmt::format(".SS {}\n{}\n.PP\n.B stepcast {}\n{}\n", roff(command->name), roff(command->summary),
                        roff(command->name), roff(command->synopsis));
    for (const OptionEntry& entry : own_entries(*command)) text += option_text(entry);
    text += ".PP\nExamples:\n.PP\n.nf\n";
    for (const std::string_view example : command->examples) text += roff(example) + "\n";
    text += ".fi\n";
  }
  text += ".SH OPTIONS OF EVERY COMMAND\n";
  for (const OptionEntry& entry : global_entries()) text += option_text(entry);
  text +=
      ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nfailed; a layout that does not fit included\n.TP\n2\nusage\n.TP\n130\n"
      "interrupted, with a valid partial result\n.SH ENVIRONMENT\n.TP\nNO_COLOR\nforbids colour when it is not "
      "empty\n.TP\n"
      "STEPCAST_CATALOG\nfolder of the catalogues, under \\-\\-catalog\n";
  return text;
}

void add_options(boost::program_options::options_description&) {}

Result<Output> run(const Invocation&) { return Output{page()}; }

}  // namespace

const Command man_command = {"man",
                             "",
                             "Writes the manual page.",
                             {"stepcast man", "stepcast man --output stepcast.1"},
                             "",
                             0,
                             add_options,
                             run,
                             false,
                             false};

}  // namespace stepcast::cli
