// What a command is: a name, its options, and a function from options to text.
//
// A command neither prints nor exits: it returns the text of its result in the
// format asked for, and main decides where that goes. One file a command; the
// table of all of them is commands.cpp.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "cli/arguments.h"
#include "cli/progress.h"
#include "sim/base/error.h"

namespace stepcast::cli {

enum class Format : unsigned char { table, json, csv };

// The flags that every command takes.
struct Globals {
  Format format = Format::table;
  std::filesystem::path output;  // empty: standard output
  int threads = 0;               // 0: what the machine and its cgroup allow
  bool quiet = false;
  bool colour = false;                 // of the result: a terminal, and NO_COLOR is not set
  std::vector<std::string> sets;       // in order; --seed is the last, as "seed=N"
  std::filesystem::path catalog_root;  // folder that holds models/, topology/, parallelism/, scenarios/
};

struct Output {
  std::string text;
  bool interrupted = false;  // the text is a valid partial result: exit code 130
  bool failed = false;       // the text is complete and the answer is no: exit code 1
  bool written = false;      // what --output names was written by the command: the text goes to standard output
};

struct Invocation {
  const Globals& globals;
  Arguments& arguments;  // errors of the command line collect here
  Progress& progress;
};

struct Command {
  std::string_view name;
  std::string_view synopsis;                 // after the name: "[SCENARIO | --model M --cluster C]"
  std::string_view summary;                  // one line
  std::array<std::string_view, 2> examples;  // complete command lines; the tests run them
  std::string_view positional;               // option that takes what is no flag; empty: nothing does
  int max_positional;                        // -1: any number
  void (*add_options)(boost::program_options::options_description& options);
  Result<Output> (*run)(const Invocation& invocation);
  bool reads_sets = true;          // false: the command has no scenario, and --set is an error
  bool stops_on_interrupt = true;  // looks at interrupted() and returns; false: a signal ends the process at once
};

// All commands, in the order of `stepcast --help`.
[[nodiscard]] std::span<const Command* const> commands();

}  // namespace stepcast::cli
