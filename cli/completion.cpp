// stepcast completion: scripts for shells, from the option tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/option_table.h"
#include "cli/scenario_options.h"

namespace stepcast::cli {
namespace {

constexpr std::string_view library =
    "$(stepcast list scenarios --format csv --quiet 2>/dev/null | tail -n +2 | cut -d, -f1)";

std::string replaced(std::string_view text, char what, std::string_view with) {
  std::string out;
  for (const char c : text) {
    if (c == what) {
      out += with;
    } else {
      out += c;
    }
  }
  return out;
}

std::vector<OptionEntry> all_entries(const Command& command) {
  std::vector<OptionEntry> entries = own_entries(command);
  const std::vector<OptionEntry> global = global_entries();
  entries.insert(entries.end(), global.begin(), global.end());
  return entries;
}

std::string names_of_commands() {
  std::vector<std::string_view> names;
  for (const Command* command : commands()) names.push_back(command->name);
  return fmt::format("{}", fmt::join(names, " "));
}

bool takes_scenario(const Command& command) { return command.positional == scenario_positional; }

std::string bash_value(const OptionEntry& entry) {
  if (!entry.choices.empty())
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))", fmt::join(entry.choices, " "));
  if (entry.takes_folder()) return "COMPREPLY=($(compgen -d -- \"$cur\"))";
  return entry.takes_file() ? "COMPREPLY=($(compgen -f -- \"$cur\"))" : "COMPREPLY=()";
}

std::string bash_case(const Command& command) {
  std::string words, values;
  for (const OptionEntry& entry : all_entries(command)) {
    words += fmt::format("{}--{}", words.empty() ? "" : " ", entry.name);
    if (entry.value.empty()) continue;
    const std::string pattern =
        entry.letter.empty() ? "--" + entry.name : fmt::format("--{}|-{}", entry.name, entry.letter);
    values += fmt::format("        {}) {}; return ;;\n", pattern, bash_value(entry));
  }
  std::string free = "compgen -f -- \"$cur\"";
  if (const auto choices = positional_choices(command); !choices.empty()) {
    free = fmt::format("compgen -W '{}' -- \"$cur\"", fmt::join(choices, " "));
  } else if (takes_scenario(command)) {
    free = fmt::format("compgen -W \"{}\" -- \"$cur\"; compgen -f -- \"$cur\"", library);
  }
  return fmt::format(
      "    {})\n      case $prev in\n{}      esac\n      if [[ $cur == -* ]]; then\n"
      "        COMPREPLY=($(compgen -W '{}' -- \"$cur\"))\n      else\n        COMPREPLY=($({}))\n      fi ;;\n",
      command.name, values, words, free);
}

std::string bash_script() {
  std::string text = fmt::format(
      "# bash completion of stepcast; source it, or put it into a folder of bash-completion.\n"
      "_stepcast() {{\n  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version' -- \"$cur\"))\n    return\n  fi\n  case ${{COMP_WORDS[1]}} "
      "in\n",
      names_of_commands());
  for (const Command* command : commands()) text += bash_case(*command);
  return text + "  esac\n}\ncomplete -o filenames -F _stepcast stepcast\n";
}

// Within single quotes of a zsh specification.
std::string zsh_words(std::string_view words) {
  std::string text = replaced(words, '\'', "'\\''");
  for (const char special : {'[', ']', ':'}) text = replaced(text, special, std::string{'\\', special});
  return text;
}

std::string zsh_value(const OptionEntry& entry) {
  if (entry.value.empty()) return "";
  const std::string name = zsh_words(entry.choices.empty() ? entry.value : entry.name);
  if (!entry.choices.empty()) return fmt::format(":{}:({})", name, fmt::join(entry.choices, " "));
  return fmt::format(":{}:{}", name, entry.takes_folder() ? "_files -/" : entry.takes_file() ? "_files" : " ");
}

std::string zsh_script() {
  std::string text = "#compdef stepcast\n_stepcast() {\n  local -a commands\n  commands=(\n";
  for (const Command* command : commands()) {
    text += fmt::format("    '{}:{}'\n", command->name, zsh_words(command->summary));
  }
  text += "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n";
  text += "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const Command* command : commands()) {
    text += fmt::format("    {})\n      _arguments", command->name);
    for (const OptionEntry& entry : all_entries(*command)) {
      const std::string tail = fmt::format("[{}]{}", zsh_words(entry.words), zsh_value(entry));
      const std::string again = entry.name == "set" ? "*" : "";
      text += fmt::format(" \\\n        '{}--{}{}'", again, entry.name, tail);
      if (!entry.letter.empty()) text += fmt::format(" \\\n        '-{}{}'", entry.letter, tail);
    }
    const auto choices = positional_choices(*command);
    if (!choices.empty()) {
      text += fmt::format(" \\\n        '*: :({})'", fmt::join(choices, " "));
    } else {
      text += takes_scenario(*command)
                  ? " \\\n        \"*: :($(stepcast list scenarios --format csv --quiet 2>/dev/null | "
                    "tail -n +2 | cut -d, -f1))\" \\\n        '*: :_files'"
                  : " \\\n        '*: :_files'";
    }
    text += " ;;\n";
  }
  return text + "  esac\n}\n_stepcast \"$@\"\n";
}

std::string fish_quoted(std::string_view words) {
  return "'" + replaced(replaced(words, '\\', "\\\\"), '\'', "\\'") + "'";
}

std::string fish_script() {
  std::string text = "# fish completion of stepcast\ncomplete -c stepcast -n __fish_use_subcommand -f\n";
  for (const Command* command : commands()) {
    text += fmt::format("complete -c stepcast -n __fish_use_subcommand -a {} -d {}\n", command->name,
                        fish_quoted(command->summary));
  }
  for (const Command* command : commands()) {
    const std::string here = fmt::format("complete -c stepcast -n '__fish_seen_subcommand_from {}'", command->name);
    for (const OptionEntry& entry : all_entries(*command)) {
      text += fmt::format("{} -l {}", here, entry.name);
      if (!entry.letter.empty()) text += " -s " + entry.letter;
      if (!entry.value.empty()) text += entry.takes_file() || entry.takes_folder() ? " -r -F" : " -x";
      if (!entry.choices.empty()) text += fmt::format(" -a '{}'", fmt::join(entry.choices, " "));
      text += fmt::format(" -d {}\n", fish_quoted(entry.words));
    }
    const auto choices = positional_choices(*command);
    if (!choices.empty()) text += fmt::format("{} -f -a '{}'\n", here, fmt::join(choices, " "));
    if (takes_scenario(*command)) {
      text +=
          here + " -a '(stepcast list scenarios --format csv --quiet 2>/dev/null | tail -n +2 | string split -f1 ,)'\n";
    }
  }
  return text;
}

void add_options(boost::program_options::options_description&) {}

Result<Output> run(const Invocation& invocation) {
  const auto shells = invocation.arguments.list("shell");
  const std::string shell = shells.empty() ? "" : shells.front();
  if (shell == "bash") return Output{bash_script()};
  if (shell == "zsh") return Output{zsh_script()};
  if (shell == "fish") return Output{fish_script()};
  return make_error(ErrorCode::usage,
                    fmt::format("{}one of bash, zsh, fish is needed{}", shell.empty() ? "" : "found '" + shell + "', ",
                                suggestion(shell, {"bash", "zsh", "fish"})),
                    "completion");
}

}  // namespace

const Command completion_command = {"completion",
                                    "bash|zsh|fish",
                                    "Writes a completion script for a shell.",
                                    {"stepcast completion bash", "stepcast completion zsh --output _stepcast"},
                                    "shell",
                                    1,
                                    add_options,
                                    run,
                                    false,
                                    false};

}  // namespace stepcast::cli
