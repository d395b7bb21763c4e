// Completion scripts, the manual page, and the width of what people read.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/cli/process.h"

namespace stepcast::cli_tests {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

// What a shell command writes; its exit code must be 0.
std::string shell(const std::string& command) {
  const ScratchFolder scratch;
  const std::string file = (scratch.path() / "out").string();
  CAPTURE(command);
  REQUIRE(std::system((command + " >'" + file + "' 2>&1").c_str()) == 0);
  return read_file(file);
}

// What bash offers after these words, the last of which is being typed.
std::string offered(const std::string& script, const std::string& words) {
  const std::string last = "$((${#COMP_WORDS[@]} - 1))";
  return shell("bash -c 'source \"" + script + "\"; COMP_WORDS=(" + words + "); COMP_CWORD=" + last +
               "; _stepcast; echo ${COMPREPLY[@]}'");
}

TEST_CASE("Completion in bash offers commands, options and values") {
  const ScratchFolder scratch;
  const std::string script = (scratch.path() / "stepcast.bash").string();
  REQUIRE(run({"completion", "bash", "--output", script}).exit_code == 0);
  CHECK(offered(script, "stepcast sim") == "simulate\n");
  CHECK(offered(script, "stepcast simulate --repo") == "--report\n");
  CHECK(offered(script, "stepcast scale --kind w") == "weak\n");
  CHECK(offered(script, "stepcast scale --format j") == "json\n");
  CHECK(offered(script, "stepcast list mod") == "models\n");
  CHECK(offered(script, "stepcast simulate --steps 1") == "\n");
  CHECK(contains(offered(script, "stepcast validate -"), "--only"));
  CHECK(contains(offered(script, "stepcast compare " + scratch.path().string() + "/step"), "stepcast.bash"));
}

TEST_CASE("Completion scripts of other shells have every command and option") {
  for (const char* name : {"zsh", "fish"}) {
    const std::string script = run({"completion", name}).out;
    for (const char* part : {"simulate", "validate", "completion", "report", "trace-ranks", "format", "quiet"}) {
      CAPTURE(name, part);
      CHECK(contains(script, part));
    }
    if (!installed(name)) continue;
    const ScratchFolder scratch;
    const auto file = scratch.path() / "script";
    std::ofstream(file) << script;
    CHECK(shell(std::string(name) + " -n '" + file.string() + "'").empty());
  }
  CHECK(run({"completion", "csh"}).exit_code == 2);
  CHECK(run({"completion"}).exit_code == 2);
}

TEST_CASE("The manual page has every command and option, and roff takes it without a warning") {
  const std::string page = run({"man"}).out;
  CHECK(page.starts_with(".TH STEPCAST 1"));
  for (const char* part : {".SS simulate", ".SS validate", "\\-\\-report", "\\-\\-trace\\-ranks", "NO_COLOR"}) {
    CAPTURE(part);
    CHECK(contains(page, part));
  }
  if (!installed("groff")) return;
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "stepcast.1") << page;
  CHECK(shell("groff -man -ww -z '" + (scratch.path() / "stepcast.1").string() + "'").empty());
}

TEST_CASE("A report page is written beside the result, and is checked before anything is computed") {
  const ScratchFolder scratch;
  Setting here;
  here.folder = scratch.path();
  const std::vector<std::string> simulate = {"simulate", "olmoe-1b-7b-h100-8", "--steps", "1"};
  const auto with = [&](std::vector<std::string> more) {
    auto arguments = simulate;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, here);
  };
  const Outcome table = with({"--report", "page.html"});
  CHECK(table.exit_code == 0);
  CHECK(contains(table.out, "Where the step goes"));
  const std::string page = read_file(scratch.path() / "page.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.size() < 1000000);
  const Outcome nowhere = with({"--report", "no/such/folder/page.html"});
  CHECK(nowhere.exit_code == 1);
  CHECK(nowhere.out.empty());
  CHECK(contains(nowhere.err, "no/such/folder/page.html: cannot be written"));
  const Outcome same = with({"--report", "a.html", "--output", "./a.html"});
  CHECK(same.exit_code == 2);
  CHECK(contains(same.err, "--report: is the file of --output too"));
  CHECK(with({"--report", ""}).exit_code == 2);
}

}  // namespace
}  // namespace stepcast::cli_tests
