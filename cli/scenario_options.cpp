#include "cli/scenario_options.h"

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

namespace stepcast::cli {
namespace fs = std::filesystem;
namespace {

bool looks_like_path(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".json"); }

Result<fs::path> file_of(const std::string& name, const fs::path& catalog_root) {
  std::error_code ignored;
  if (looks_like_path(name) || fs::is_regular_file(name, ignored)) return fs::path(name);
  const fs::path library = catalog_root / "scenarios" / "library" / (name + ".json");
  if (fs::is_regular_file(library, ignored)) return library;
  std::vector<std::string> names;
  if (const auto entries = scenarios::list_library(catalog_root)) {
    for (const auto& entry : *entries) names.push_back(entry.name);
  }
  return make_error(ErrorCode::not_found,
                    fmt::format("neither a file nor a scenario of the library{}; stepcast list "
                                "scenarios names them",
                                suggestion(name, names)),
                    name);
}

}  // namespace

void add_scenario_options(boost::program_options::options_description& options) {
  const auto value = [](const char* name) { return boost::program_options::value<std::string>()->value_name(name); };
  options.add_options()("model", value("NAME"), "catalogue model, instead of a scenario file")(
      "cluster", value("NAME:N"), "cluster preset and number of devices, as in h800:2048")(
      "profile", value("FILE.json"), "calibration profile (stepcast calibrate); what the scenario gives wins");
}

Result<scenarios::ScenarioRequest> scenario_request(const Invocation& invocation,
                                                    const std::vector<std::string>& named) {
  Arguments& arguments = invocation.arguments;
  scenarios::ScenarioRequest request;
  request.sets = invocation.globals.sets;
  if (arguments.has("profile")) request.sets.insert(request.sets.begin(), "calibration=" + arguments.text("profile"));
  request.catalog_root = invocation.globals.catalog_root;
  request.model = arguments.text("model");
  request.cluster = arguments.text("cluster");
  if (!named.empty()) {
    auto file = file_of(named.front(), request.catalog_root);
    if (!file) return file.errors();
    request.file = *file;
  } else if (request.model.empty() || request.cluster.empty()) {
    return make_error(ErrorCode::usage,
                      "a scenario is needed: a file, a library name, or --model NAME --cluster NAME:N");
  }
  return request;
}

Result<scenarios::ScenarioRequest> scenario_request(const Invocation& invocation) {
  return scenario_request(invocation, invocation.arguments.list(scenario_positional));
}

Result<scenarios::Scenario> read_scenario(const Invocation& invocation) {
  return read_scenario(invocation, invocation.arguments.list(scenario_positional));
}

Result<scenarios::Scenario> read_scenario(const Invocation& invocation, const std::vector<std::string>& named) {
  const auto request = scenario_request(invocation, named);
  if (!request) return request.errors();
  return scenarios::load_scenario(*request);
}

}  // namespace stepcast::cli
