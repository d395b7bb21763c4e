// Every file of tests/data/bad_scenarios is refused with the messages that its .expect file states.
//
//   errors N     exactly N errors (absent: any number)
//   set FLAG     loaded with --set FLAG
//   says TEXT    TEXT stands in the position or the message of an error
//
// Adding a case is adding NAME.json and NAME.expect.
#include <algorithm>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/scenarios/load.h"

namespace stepcast::scenarios {
namespace {

struct Expectation {
  std::optional<std::size_t> errors;
  std::vector<std::string> sets;
  std::vector<std::string> says;
};

Expectation read_expectation(const std::filesystem::path& file) {
  Expectation e;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "errors") {
      e.errors = std::stoul(rest);
    } else if (word == "set") {
      e.sets.push_back(rest);
    } else {
      REQUIRE(word == "says");
      e.says.push_back(rest);
    }
  }
  return e;
}

// Refusals have a place, a message of reasonable length and no remains of a library's wording.
void check_shape(const Error& error) {
  CHECK_FALSE(error.where.empty());
  CHECK_FALSE(error.message.empty());
  CHECK(error.message.size() < 2000);
  CHECK(error.message.find("json.exception") == std::string::npos);
  CHECK(error.message.find("nan") == std::string::npos);
}

}  // namespace

TEST_CASE("bad scenarios are refused with a message each") {
  const auto folder = source_dir / "tests" / "data" / "bad_scenarios";
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".expect") continue;
    ++cases;
    const Expectation expected = read_expectation(entry.path());
    ScenarioRequest request;
    request.file = entry.path();
    request.file.replace_extension(".json");
    request.sets = expected.sets;
    request.catalog_root = source_dir;
    const auto scenario = load_scenario(request);
    INFO(request.file.filename().string());
    CHECK_FALSE(scenario.ok());
    if (scenario.ok()) continue;
    const std::string all = shown(scenario.errors());
    INFO(all.substr(0, 3000));
    if (expected.errors) CHECK(scenario.errors().size() == *expected.errors);
    for (const std::string& text : expected.says) {
      INFO(text);
      CHECK(all.find(text) != std::string::npos);
    }
    for (const Error& error : scenario.errors()) check_shape(error);
  }
  CHECK(cases >= 40);
}

TEST_CASE("files that are no scenario files are refused") {
  const auto refused = [](const std::filesystem::path& file) {
    ScenarioRequest request;
    request.file = file;
    request.catalog_root = source_dir;
    const auto scenario = load_scenario(request);
    REQUIRE_FALSE(scenario.ok());
    return shown(scenario.errors());
  };
  CHECK(refused("nowhere/at/all.json").find("no such file") != std::string::npos);
  CHECK(refused(source_dir / "scenarios").find("is a directory") != std::string::npos);
  CHECK(refused("deepseek-v3-h800-204").find("did you mean 'deepseek-v3-h800-2048'?") != std::string::npos);
}

TEST_CASE("a byte-order mark and other line ends do no harm") {
  CHECK(load_text("\xEF\xBB\xBF{\"model\": \"mixtral-8x7b\",\r\n \"cluster\": \"h100:8\"}\r\n").ok());
}

}  // namespace stepcast::scenarios
