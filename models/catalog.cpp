#include "models/catalog.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "sim/base/file_cache.h"

namespace stepcast::models {
namespace {

using Json = nlohmann::ordered_json;

std::filesystem::path folder(const std::filesystem::path& root) { return root / "models" / "catalog"; }

// Names of the catalogue, sorted.
Result<std::vector<std::string>> names(const std::filesystem::path& root) {
  std::error_code code;
  std::filesystem::directory_iterator entries(folder(root), code);
  if (code) {
    return make_error(ErrorCode::not_found, "the model catalogue cannot be read: " + code.message(),
                      folder(root).string());
  }
  std::vector<std::string> found;
  for (; entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    if (code) break;
    if (entries->path().extension() == ".json") found.push_back(entries->path().stem().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<JsonDocument> read_named(const std::filesystem::path& root, const std::string& name) {
  const auto known = names(root);
  if (!known) return known.errors();
  if (!std::binary_search(known->begin(), known->end(), name)) {
    return make_error(ErrorCode::not_found,
                      fmt::format("no model '{}' in the catalogue of {}{}; `stepcast list models` shows them all", name,
                                  known->size(), suggestion(name, *known)));
  }
  return read_json_file(folder(root) / (name + ".json"));
}

Result<JsonDocument> read_entry(const std::filesystem::path& root, const std::string& name) {
  static FileCache<JsonDocument> cache;
  return cache.get(folder(root) / (name + ".json"), name, [&] { return read_named(root, name); });
}

}  // namespace

Result<std::vector<CatalogEntry>> list_models(const std::filesystem::path& catalog_root) {
  const auto known = names(catalog_root);
  if (!known) return known.errors();
  std::vector<CatalogEntry> entries;
  Errors errors;
  for (const std::string& name : *known) {
    const auto document = read_entry(catalog_root, name);
    if (!document) {
      errors.insert(errors.end(), document.errors().begin(), document.errors().end());
      continue;
    }
    std::string summary;
    if (document->root.is_object()) {
      const auto member = document->root.find("summary");
      if (member != document->root.end() && member->is_string()) summary = member->get<std::string>();
    }
    entries.push_back({name, std::move(summary)});
  }
  if (!errors.empty()) return errors;
  return entries;
}

Result<Model> load_model(const std::filesystem::path& catalog_root, const std::string& name) {
  static FileCache<Model> cache;
  return cache.get(folder(catalog_root) / (name + ".json"), name, [&]() -> Result<Model> {
    const auto document = read_named(catalog_root, name);
    if (!document) return document.errors();
    return parse_model(*document, document->root, "");
  });
}

Result<Model> load_model(const std::filesystem::path& catalog_root, const std::string& name, const Json& overrides) {
  auto document = read_entry(catalog_root, name);
  if (!document) return document.errors();
  if (!overrides.is_object()) {
    return make_error(ErrorCode::invalid,
                      fmt::format("found {}; an object of replaced members is expected", shown(overrides)),
                      "model " + name);
  }
  document->root.merge_patch(overrides);
  document->positions.reset();  // the merged text stands in no file
  document->file = "model " + name + " with overrides";
  return parse_model(*document, document->root, "");
}

}  // namespace stepcast::models
