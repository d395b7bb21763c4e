#include "tests/scenarios/load.h"

#include <fstream>

#include <unistd.h>

#include <catch2/catch.hpp>

namespace stepcast::scenarios {
namespace {

const std::filesystem::path& scratch() {
  static const std::filesystem::path folder = [] {
    auto path = std::filesystem::temp_directory_path() / ("stepcast_scenarios_" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
    return path;
  }();
  return folder;
}

}  // namespace

std::filesystem::path write_file(const std::string& name, const std::string& content) {
  const auto path = scratch() / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

Result<Scenario> load_text(const std::string& text, const std::vector<std::string>& sets) {
  ScenarioRequest request;
  request.file = write_file("scenario.json", text);
  request.sets = sets;
  request.catalog_root = source_dir;
  return load_scenario(request);
}

Result<Scenario> load_pair(const std::string& model, const std::string& cluster, const std::vector<std::string>& sets) {
  ScenarioRequest request;
  request.model = model;
  request.cluster = cluster;
  request.sets = sets;
  request.catalog_root = source_dir;
  return load_scenario(request);
}

std::string shown(const Errors& errors) {
  std::string text;
  for (const Error& e : errors) text += e.where + ": " + e.message + "\n";
  return text;
}

Scenario loaded(const std::string& text, const std::vector<std::string>& sets) {
  auto scenario = load_text(text, sets);
  INFO((scenario ? std::string() : shown(scenario.errors())));
  REQUIRE(scenario.ok());
  return std::move(*scenario);
}

}  // namespace stepcast::scenarios
