// What every command shares: help, versions, usage errors, output files, colour, formats.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

const std::vector<std::string> small_account = {"account", "--devices",       "40",  "--peak-tflops",
                                                "148",     "--step-time",     "120", "--tokens",
                                                "2.31e6",  "--active-params", "3e9"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("Without a command the usage goes to standard error") {
  const Outcome outcome = run({});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(contains(outcome.err, "usage: stepcast COMMAND"));
}

TEST_CASE("Help goes to standard output") {
  for (const char* flag : {"--help", "-h", "help"}) {
    const Outcome outcome = run({flag});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    for (const char* command : {"simulate", "account", "compare", "explain", "list"})
      CHECK(contains(outcome.out, command));
  }
  CHECK(run({"help", "account"}).out == run({"account", "--help"}).out);
}

TEST_CASE("The version names the project's and the git description") {
  const Outcome outcome = run({"--version"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.starts_with("stepcast 0."));
  CHECK(contains(outcome.out, "("));
}

TEST_CASE("Unknown names are usage errors with the nearest name") {
  const Outcome command = run({"simulat"});
  CHECK(command.exit_code == 2);
  CHECK(contains(command.err, "did you mean 'simulate'"));
  const Outcome flag = run(with(small_account, {"--formt", "json"}));
  CHECK(flag.exit_code == 2);
  CHECK(contains(flag.err, "--formt"));
  CHECK(contains(flag.err, "did you mean '--format'"));
  const Outcome format = run(with(small_account, {"--format", "jsn"}));
  CHECK(format.exit_code == 2);
  CHECK(contains(format.err, "table, json, csv"));
  CHECK(contains(format.err, "did you mean 'json'"));
  const Outcome catalogue = run({"list", "model"});
  CHECK(catalogue.exit_code == 2);
  CHECK(contains(catalogue.err, "did you mean 'models'"));
  CHECK(run({"--format", "json"}).exit_code == 2);
}

TEST_CASE("Wrong values are usage errors that name the flag, what was found and what is allowed") {
  struct Case {
    std::vector<std::string> more;
    const char* flag;
    const char* found;
  };
  const auto wrong =
      GENERATE(Case{{"--threads", "-1"}, "--threads", ""}, Case{{"--threads", "two"}, "--threads", "two"},
               Case{{"--threads", "99999999999999999999"}, "--threads", "99999999999999999999"},
               Case{{"--seed", "1.5"}, "--seed", "1.5"}, Case{{"--set", "novalue"}, "--set", "novalue"},
               Case{{"--set", "=3"}, "--set", "=3"}, Case{{"--top-k", "nan"}, "--top-k", "nan"},
               Case{{"--slots", "1e999"}, "--slots", "1e999"}, Case{{"--format"}, "--format", ""},
               Case{{"--recompute-factor", "0.5"}, "--recompute-factor", "0.5"},
               Case{{"--quiet", "--quiet"}, "quiet", ""}, Case{{"surplus"}, "", ""});
  const Outcome outcome = run(with(small_account, wrong.more));
  CAPTURE(wrong.more, outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(contains(outcome.err, wrong.flag));
  CHECK(contains(outcome.err, wrong.found));
}

TEST_CASE("An output file appears complete, and nothing is left beside it") {
  const ScratchFolder scratch;
  const auto file = scratch.path() / "result.json";
  const Outcome outcome = run(with(small_account, {"--format", "json", "--output", file.string()}));
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.empty());
  CHECK(read_file(file) == run(with(small_account, {"--format", "json"})).out);
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.path()), {}) == 1);
}

TEST_CASE("An output that cannot be written fails before anything is computed") {
  const ScratchFolder scratch;
  for (const std::string& file : {(scratch.path() / "none" / "result.json").string(), scratch.path().string()}) {
    const Outcome outcome = run(with(small_account, {"--output", file}));
    CHECK(outcome.exit_code == 1);
    CHECK(contains(outcome.err, file));
    CHECK(contains(outcome.err, "cannot be written"));
  }
  const Outcome full = run(with(small_account, {"--output", "/dev/full"}));
  CHECK(full.exit_code == 1);
  CHECK(contains(full.err, "/dev/full"));
}

TEST_CASE("A full standard output fails, whatever was to be written") {
  Setting setting;
  setting.standard_output = "/dev/full";
  for (const char* line : {"--help", "--version", "help simulate", "simulate --help", "list models", "man"}) {
    const Outcome outcome = run(words(line), setting);
    CAPTURE(line);
    CHECK(outcome.exit_code == 1);
    CHECK(contains(outcome.err, "standard output: cannot be written"));
  }
}

TEST_CASE("An empty name of the output file is a usage error") {
  const Outcome outcome = run(with(small_account, {"--output", ""}));
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.err, "--output: a file name is needed"));
}

TEST_CASE("An empty value is no absent option") {
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"list", "models", "--catalog", ""},
        {"export", "chakra", "olmoe-1b-7b-h100-8", "--output", "x", "--ranks", ""},
        {"explain", "olmoe-1b-7b-h100-8", "--ranks", ""},
        {"scale", "olmoe-1b-7b-h100-8", "--devices", ""},
        {"plan", "olmoe-1b-7b-h100-8", "--tp", ""},
        {"simulate", "--model", "", "--cluster", "h100:8"}}) {
    const Outcome outcome = run(line);
    CAPTURE(line, outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(contains(outcome.err, "found '', a value is needed"));
  }
}

TEST_CASE("Files of two results are told apart before anything is computed") {
  const ScratchFolder scratch;
  Setting setting;
  setting.folder = scratch.path();
  const std::vector<std::string> simulate = {"simulate", "olmoe-1b-7b-h100-8", "--trace", "a.json"};
  const Outcome shared = run(with(simulate, {"--output", "./a.json"}), setting);
  CHECK(shared.exit_code == 2);
  CHECK(contains(shared.err, "--trace: is the file of --output too"));
  CHECK(std::filesystem::is_empty(scratch.path()));
  const Outcome nameless = run({"simulate", "olmoe-1b-7b-h100-8", "--trace", ""}, setting);
  CHECK(nameless.exit_code == 2);
  CHECK(contains(nameless.err, "--trace: a file name is needed"));
  const Outcome nowhere = run({"explain", "olmoe-1b-7b-h100-8", "--dag", "none/a.dot"}, setting);
  CHECK(nowhere.exit_code == 1);
  CHECK(contains(nowhere.err, "none/a.dot: cannot be written"));
}

TEST_CASE("An output never overwrites a file that is read, by whatever name") {
  const ScratchFolder scratch;
  Setting setting;
  setting.folder = scratch.path();
  for (const char* name : {"s.json", "v.csv", "b.json", "A.json"}) std::ofstream(scratch.path() / name) << "kept";
  std::filesystem::create_symlink("s.json", scratch.path() / "link.json");
  for (const std::vector<std::string>& line : std::vector<std::vector<std::string>>{
           {"simulate", "s.json", "-o", "s.json"},
           {"simulate", "s.json", "-o", "./s.json"},
           {"simulate", "link.json", "-o", "s.json"},
           {"simulate", "s.json", "--report", "link.json"},
           {"simulate", "s.json", "--trace", "s.json"},
           {"simulate", "olmoe-1b-7b-h100-8", "--profile", "s.json", "-o", "s.json"},
           {"simulate", "olmoe-1b-7b-h100-8", "--set", "calibration=s.json", "-o", "s.json"},
           {"simulate", "--model", "s.json", "--cluster", "h100:8", "-o", "s.json"},
           {"export", "scenario", "s.json", "-o", "s.json"},
           {"compare", "b.json", "s.json", "-o", "s.json"},
           {"compare", "A.json", "b.json", "-o", "A.json"},
           {"baseline", "check", "b.json", "s.json", "-o", "s.json"},
           {"validate", "v.csv", "--only", "s.json", "-o", "s.json"},
           {"calibrate", "v.csv", "--constants", "s.json", "--profile-output", "s.json"},
           {"calibrate", "--predict", "s.json", "v.csv", "--profile-output", "s.json"},
           {"import", "nccl", "s.json", "-o", "s.json"}}) {
    const Outcome outcome = run(line, setting);
    CAPTURE(line, outcome.err);
    CHECK(outcome.exit_code == 2);
    const std::string flag = line[line.size() - 2];
    CHECK(contains(outcome.err, (flag == "-o" ? "--output" : flag) + ": "));
    CHECK(contains(outcome.err, " would overwrite " + (line[0] == "compare" ? line.back() : "")));
  }
  CHECK(read_file(scratch.path() / "s.json") == "kept");
  // The first word of these is no file, though a file has its name.
  std::ofstream(scratch.path() / "scenario") << "written before";
  CHECK(run({"export", "scenario", "olmoe-1b-7b-h100-8", "-o", "scenario"}, setting).exit_code == 0);
}

TEST_CASE("Colour is for terminals, and NO_COLOR forbids it") {
  CHECK_FALSE(contains(run(small_account).out, "\x1b["));
  Setting terminal;
  terminal.terminal = true;
  CHECK(contains(run(small_account, terminal).out, "\x1b["));
  terminal.environment = {"NO_COLOR=1"};
  CHECK_FALSE(contains(run(small_account, terminal).out, "\x1b["));
}

TEST_CASE("Catalogues are listed in every format") {
  const std::string what = GENERATE("models", "devices", "clusters", "scenarios", "schedules", "software");
  const Outcome table = run({"list", what});
  CAPTURE(what, table.err);
  CHECK(table.exit_code == 0);
  const Outcome json = run({"list", what, "--format", "json"});
  REQUIRE(json.exit_code == 0);
  const auto parsed = nlohmann::json::parse(json.out);
  CHECK(parsed["schema"] == "stepcast.list/1");
  const auto entries = static_cast<std::ptrdiff_t>(parsed["entries"].size());
  CHECK(entries >= 3);
  CHECK(std::count(table.out.begin(), table.out.end(), '\n') == entries + 1);
  const Outcome csv = run({"list", what, "--format", "csv"});
  CHECK(csv.out.starts_with("name,"));
}

TEST_CASE("A named catalogue folder is checked") {
  const ScratchFolder empty;
  const Outcome flag = run({"list", "models", "--catalog", empty.path().string()});
  CHECK(flag.exit_code == 1);
  CHECK(contains(flag.err, "--catalog"));
  Setting setting;
  setting.environment = {"STEPCAST_CATALOG=" + empty.path().string()};
  CHECK(contains(run({"list", "models"}, setting).err, "STEPCAST_CATALOG"));
  setting.environment = {std::string("STEPCAST_CATALOG=") + STEPCAST_SOURCE_DIR};
  CHECK(run({"list", "models"}, setting).exit_code == 0);
}

}  // namespace
}  // namespace stepcast::cli_tests
