// The shape of the source tree: includes go one way, files stay short.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace {

namespace fs = std::filesystem;

constexpr int longest_file = 500;

struct Source {
  std::string name;  // from the root: "sim/base/error.h"
  std::vector<std::string> lines;
};

std::vector<Source> sources(const std::vector<std::string>& folders) {
  const fs::path root = STEPCAST_SOURCE_DIR;
  std::vector<Source> found;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      Source source{fs::relative(entry.path(), root).string(), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) source.lines.push_back(line);
      found.push_back(std::move(source));
    }
  }
  std::sort(found.begin(), found.end(), [](const Source& a, const Source& b) { return a.name < b.name; });
  return found;
}

// "models/ledger.h" of a line that includes a project header; empty otherwise.
std::string included(const std::string& line) {
  const std::string begin = "#include \"";
  if (!line.starts_with(begin)) return {};
  const auto end = line.find('"', begin.size());
  return end == std::string::npos ? std::string{} : line.substr(begin.size(), end - begin.size());
}

std::string folder_of(const std::string& name, const std::map<std::string, std::vector<std::string>>& folders) {
  std::string best;
  for (const auto& [folder, allowed] : folders) {
    if (name.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
  }
  return best;
}

const std::vector<std::string> product = {"sim", "models", "topology", "parallelism", "scenarios", "validation", "cli"};

TEST_CASE("Includes go one way only") {
  // What a folder may include beside itself.
  const std::vector<std::string> sim = {"sim/base", "sim/program", "sim/engine", "sim/record"};
  std::map<std::string, std::vector<std::string>> may;
  may["sim/base"] = {};
  may["sim/program"] = {"sim/base"};
  may["sim/engine"] = {"sim/base", "sim/program"};
  may["sim/record"] = {"sim/base", "sim/program", "sim/engine"};
  const auto above = [&](const std::string& folder, std::vector<std::string> below) {
    below.insert(below.end(), sim.begin(), sim.end());
    may[folder] = std::move(below);
  };
  above("models", {});
  above("topology", {});
  above("parallelism", {"models", "topology"});
  above("scenarios", {"models", "topology", "parallelism"});
  above("validation", {"models", "topology", "parallelism", "scenarios"});
  above("cli", {"models", "topology", "parallelism", "scenarios", "validation"});

  std::vector<std::string> wrong;
  int seen = 0;
  for (const Source& source : sources(product)) {
    const std::string from = folder_of(source.name, may);
    if (from.empty()) wrong.push_back(source.name + " lies in no folder that has a place in the order");
    for (const std::string& line : source.lines) {
      const std::string header = included(line);
      if (header.empty()) continue;
      ++seen;
      const std::string to = folder_of(header, may);
      const auto& allowed = may[from];
      if (to == from || std::find(allowed.begin(), allowed.end(), to) != allowed.end()) continue;
      wrong.push_back(source.name + " includes " + header);
    }
  }
  CAPTURE(wrong);
  CHECK(wrong.empty());
  CHECK(seen > 100);
}

TEST_CASE("No file is over 500 lines") {
  auto folders = product;
  folders.emplace_back("tests");
  std::vector<std::string> wrong;
  for (const Source& source : sources(folders)) {
    if (source.lines.size() > longest_file) {
      wrong.push_back(source.name + ": " + std::to_string(source.lines.size()) + " lines");
    }
  }
  CAPTURE(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("Every header is guarded and begins by saying what it is") {
  std::vector<std::string> wrong;
  for (const Source& source : sources(product)) {
    if (!source.name.ends_with(".h")) continue;
    const bool guarded = std::find(source.lines.begin(), source.lines.end(), "#pragma once") != source.lines.end();
    if (!guarded || source.lines.empty() || !source.lines.front().starts_with("//")) wrong.push_back(source.name);
  }
  CAPTURE(wrong);
  CHECK(wrong.empty());
}

}  // namespace
