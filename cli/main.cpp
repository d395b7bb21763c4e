// stepcast: reads the command line, runs one command, writes its result.
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "cli/catalog_root.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/option_table.h"
#include "cli/output_file.h"
#include "cli/thread_limit.h"
#include "cli/written_files.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

constexpr int exit_done = 0;
constexpr int exit_failed = 1;
constexpr int exit_usage = 2;
constexpr int exit_interrupted = 130;
constexpr unsigned help_width = 100;

int report(const Errors& errors) {
  bool usage = !errors.empty();
  for (const Error& error : errors) {
    const std::string where = error.where.empty() ? "" : error.where + ": ";
    std::fprintf(stderr, "stepcast: %s%s\n", where.c_str(), error.message.c_str());
    usage = usage && error.code == ErrorCode::usage;
  }
  return usage ? exit_usage : exit_failed;
}

// What is no result of a command: help and versions.
int print(std::string_view text) {
  const auto out = OutputFile::open({});
  if (!out) return report(out.errors());
  const auto written = out->write(text);
  return written ? exit_done : report(written.errors());
}

// An empty value would read as an absent option.
void refuse_empty_values(Arguments& arguments, const po::options_description& options) {
  for (const std::string& option : arguments.empty_options(options)) {
    arguments.fail(option, names_written_file(option) ? "a file name is needed" : "found '', a value is needed");
  }
}

// The catalogue is looked for when the command asks for none of the usage errors first.
Result<Globals> read_globals(const Command& command, Arguments& arguments) {
  Globals globals;
  globals.format = static_cast<Format>(arguments.choice("format", {"table", "json", "csv"}).value_or(0));
  globals.output = arguments.text("output");
  globals.threads = static_cast<int>(arguments.integer("threads", 0, 1024).value_or(0));
  if (globals.threads == 0) globals.threads = available_threads();
  globals.quiet = arguments.flag("quiet");
  globals.colour = globals.output.empty() && colour_on_stdout();
  globals.sets = arguments.list("set");
  for (const std::string& set : globals.sets) {
    const auto equals = set.find('=');
    if (equals == 0 || equals == std::string::npos) {
      arguments.fail("set", fmt::format("found '{}', KEY=VALUE is needed, as in parallelism.ep=32", set));
    }
  }
  if (!globals.sets.empty() && !command.reads_sets) {
    arguments.fail("set", fmt::format("{} reads no scenario: it has no key to override", command.name));
  }
  if (const auto seed = arguments.integer("seed", 0, std::numeric_limits<long long>::max())) {
    globals.sets.push_back(fmt::format("seed={}", *seed));
  }
  if (!arguments.errors().empty()) return arguments.errors();
  auto root = find_catalog_root(arguments.text("catalog"));
  if (!root) return root.errors();
  globals.catalog_root = *root;
  return globals;
}

int run_command(const Command& command, const std::vector<std::string>& words) {
  po::options_description own("Options", help_width);
  po::options_description global("Options of every command", help_width);
  po::options_description all;
  po::options_description hidden;
  command.add_options(own);
  add_global_options(global);
  if (!command.positional.empty()) {
    hidden.add_options()(std::string(command.positional).c_str(), po::value<std::vector<std::string>>()->composing());
  }
  all.add(own).add(global).add(hidden);

  auto values = parse_command_line(words, all, command.positional, command.max_positional);
  if (!values) return report(values.errors());
  Arguments arguments(std::move(*values));
  if (arguments.flag("help")) {
    return print(help_of(command, own, global));
  }
  refuse_empty_values(arguments, all);
  if (!arguments.errors().empty()) return report(arguments.errors());
  auto globals = read_globals(command, arguments);
  if (!globals) return report(globals.errors());
  const Errors unwritable = check_written_files(command, all, arguments);
  if (!arguments.errors().empty()) return report(arguments.errors());
  if (!unwritable.empty()) return report(unwritable);
  const auto file = OutputFile::open(globals->output);
  if (!file) return report(file.errors());

  std::unique_ptr<tbb::global_control> limit;
  if (globals->threads > 0) {
    limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                  static_cast<std::size_t>(globals->threads));
  }
  if (command.stops_on_interrupt) watch_for_interrupts();
  Progress progress(globals->quiet);
  const auto output = command.run(Invocation{*globals, arguments, progress});
  progress.clear();
  if (!arguments.errors().empty()) return report(arguments.errors());
  if (!output) {
    const int code = report(output.errors());
    return interrupted() ? exit_interrupted : code;
  }
  if (output->written) {
    if (const int code = print(output->text); code != exit_done) return code;
  } else if (const auto written = file->write(output->text); !written) {
    return report(written.errors());
  }
  if (output->interrupted) {
    std::fputs("stepcast: interrupted; the result is partial\n", stderr);
    return exit_interrupted;
  }
  return output->failed ? exit_failed : exit_done;
}

int run(std::vector<std::string> words) {
  if (words.empty()) {
    std::fputs(overview().c_str(), stderr);
    return exit_usage;
  }
  std::string name = words.front();
  words.erase(words.begin());
  if (name == "--version") {
    return print(version_text());
  }
  if (name == "help" && !words.empty()) {  // `stepcast help simulate`
    name = words.front();
    words = {"--help"};
  } else if (name == "--help" || name == "-h" || name == "help") {
    return print(overview());
  }
  std::vector<std::string> names;
  for (const Command* command : commands()) {
    if (command->name == name) return run_command(*command, words);
    names.emplace_back(command->name);
  }
  const char* kind = name.starts_with("-") ? "no command before the option" : "unknown command";
  return report(
      {make_error(ErrorCode::usage,
                  fmt::format("{}{}; commands are {}", kind, suggestion(name, names), fmt::join(names, ", ")), name)});
}

}  // namespace
}  // namespace stepcast::cli

int main(int argc, char** argv) { return stepcast::cli::run(std::vector<std::string>(argv + 1, argv + argc)); }
