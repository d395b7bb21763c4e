#include "scenarios/scenario.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "scenarios/calibration.h"
#include "scenarios/draft.h"
#include "scenarios/origins.h"
#include "scenarios/overrides.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

// Values of the command line count as flags of their own: "--model x" is "--set model=x" with another name.
void add_flag(const char* key, const std::string& value, Json& tree, std::vector<Override>& overrides) {
  tree[key] = value;
  overrides.push_back({std::string("/") + key, fmt::format("--{} {}", key, value)});
}

Status check_request(const ScenarioRequest& request) {
  if (request.file.empty() && request.text.empty() && (request.model.empty() || request.cluster.empty())) {
    const bool neither = request.model.empty() && request.cluster.empty();
    return make_error(ErrorCode::usage,
                      neither ? "a scenario file, or --model and --cluster, are needed"
                              : fmt::format("{} is needed as well", request.model.empty() ? "--model" : "--cluster"),
                      "command line");
  }
  return Unit{};
}

void read_blocks(Draft& draft) {
  read_calibration(draft);
  read_software(draft);
  read_model(draft);
  read_cluster(draft);
  adjust_constants(draft);
  read_parallelism(draft);
  read_workload(draft);
  read_precision(draft);
  read_recompute(draft);
  read_routing(draft);
  read_overlap(draft);
  read_runtime(draft);
  read_noise(draft);
  read_fabric(draft);
  read_reliability(draft);
  read_root(draft);
}

void take(std::vector<std::string>& target, const std::vector<std::string>& more) {
  for (const std::string& line : more) {
    if (std::find(target.begin(), target.end(), line) == target.end()) target.push_back(line);
  }
}

// A file as it is, or a scenario of the library by its bare name.
Result<JsonDocument> open_scenario(const ScenarioRequest& request, std::filesystem::path& file) {
  file = request.file;
  std::error_code code;
  const bool name = !file.has_parent_path() && file.extension() != ".json";  // "llama-3.1-405b-h100-1024" has a dot
  if (name && !std::filesystem::exists(file, code)) {
    const auto library = list_library(request.catalog_root);
    if (!library) return library.errors();
    std::vector<std::string> names;
    for (const LibraryEntry& entry : *library) names.push_back(entry.name);
    if (std::find(names.begin(), names.end(), file.string()) == names.end()) {
      return make_error(
          ErrorCode::not_found,
          fmt::format("no such file, and no scenario of this name in the library{}", suggestion(file.string(), names)),
          file.string());
    }
    file = request.catalog_root / "scenarios" / "library" / (file.string() + ".json");
  }
  return read_json_file(file);
}

std::string default_name(const ScenarioRequest& request, const Draft& draft) {
  if (!request.file.empty()) return request.file.stem().string();
  return fmt::format("{} on {}", draft.spec.model.name, draft.spec.cluster.name);
}

}  // namespace

Result<Scenario> load_scenario(const ScenarioRequest& request) {
  if (auto status = check_request(request); !status) return status.errors();
  const bool flags_only = request.file.empty() && request.text.empty();
  std::filesystem::path file;
  auto document = flags_only              ? parse_json("{}", "command line")
                  : !request.text.empty() ? parse_json(request.text, request.text_name)
                                          : open_scenario(request, file);
  if (!document) return document.errors();
  if (!document->root.is_object()) {
    return make_error(ErrorCode::invalid,
                      fmt::format("found {}; a scenario is an object {{...}}", shown(document->root)),
                      document->where(""));
  }

  Draft draft;
  draft.document = &*document;
  draft.tree = document->root;
  draft.catalog_root = request.catalog_root;
  draft.folder = file.parent_path();
  if (!request.model.empty()) add_flag("model", request.model, draft.tree, draft.overrides);
  if (!request.cluster.empty()) add_flag("cluster", request.cluster, draft.tree, draft.overrides);
  for (const std::string& set : request.sets) {
    if (auto status = apply_set(set, draft.tree, draft.overrides); !status) {
      draft.errors.insert(draft.errors.end(), status.errors().begin(), status.errors().end());
    }
  }
  expand_short_forms(draft.tree);
  read_blocks(draft);
  settle_batch(draft);
  if (request.check_layout) check_layout(draft);
  if (!draft.errors.empty()) {
    name_flags(draft.overrides, flags_only, draft.errors);
    return std::move(draft.errors);
  }

  if (draft.name.empty()) draft.name = default_name(request, draft);
  Scenario scenario;
  scenario.resolved = resolved_json(draft);
  scenario.origins = origins_of(draft, scenario.resolved);
  take(draft.assumptions, draft.spec.model.assumptions);
  take(draft.assumptions, draft.spec.cluster.assumptions);
  scenario.name = std::move(draft.name);
  scenario.spec = std::move(draft.spec);
  scenario.assumptions = std::move(draft.assumptions);
  scenario.warnings = std::move(draft.warnings);
  return scenario;
}

Result<std::vector<LibraryEntry>> list_library(const std::filesystem::path& catalog_root) {
  const std::filesystem::path folder = catalog_root / "scenarios" / "library";
  std::error_code code;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->path().extension() == ".json") files.push_back(at->path());
  }
  if (code) {
    return make_error(ErrorCode::not_found, "the scenario library cannot be read: " + code.message(), folder.string());
  }
  std::sort(files.begin(), files.end());
  std::vector<LibraryEntry> entries;
  Errors errors;
  for (const auto& file : files) {
    const auto document = read_json_file(file);
    if (!document) {
      errors.insert(errors.end(), document.errors().begin(), document.errors().end());
      continue;
    }
    JsonFields fields(*document, document->root, "", errors);
    entries.push_back({file.stem().string(), fields.required_text("description").value_or("")});
  }
  if (!errors.empty()) return errors;
  return entries;
}

}  // namespace stepcast::scenarios
