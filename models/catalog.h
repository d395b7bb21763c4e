// Models by name, stepcast's own description of a model, and import of a Hugging Face config.json.
//
// All of these return a validated Model or every error of the text at once.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/transformer.h"
#include "sim/base/error.h"
#include "sim/base/json_reader.h"

namespace stepcast::models {

struct CatalogEntry {
  std::string name;     // "deepseek-v3"
  std::string summary;  // "MoE 671B, 37B active, MLA, 61 layers"
};

// The catalogue is models/catalog/*.json under `catalog_root` (the folder that holds models/, topology/, ...).
[[nodiscard]] Result<std::vector<CatalogEntry>> list_models(const std::filesystem::path& catalog_root);

// By catalogue name. An unknown name is an error with the nearest valid one.
[[nodiscard]] Result<Model> load_model(const std::filesystem::path& catalog_root, const std::string& name);

// The same with members replaced before it is read: a JSON object in the catalogue's format, merged member by member,
// where null removes one ({"layers": 16, "moe": {"top_k": 4}}).
[[nodiscard]] Result<Model> load_model(const std::filesystem::path& catalog_root, const std::string& name,
                                       const nlohmann::ordered_json& overrides);

// A Hugging Face config.json (families: see models/README.md). Errors name file, line, key.
[[nodiscard]] Result<Model> import_hf_config(const std::filesystem::path& file);
[[nodiscard]] Result<Model> import_hf_config_text(std::string_view text, const std::string& file_name);

// A file of either: stepcast's own description, known by `hidden` and `vocab`, else a Hugging Face config.json.
[[nodiscard]] Result<Model> read_model_file(const std::filesystem::path& file);

// stepcast's own description (the catalogue's format, models/README.md).
[[nodiscard]] Result<Model> parse_model_json(std::string_view text, const std::string& file_name);
// The same for a value inside another document, such as the `model` block of a scenario.
[[nodiscard]] Result<Model> parse_model(const JsonDocument& document, const nlohmann::ordered_json& value,
                                        const std::string& pointer);
// Writes that format: parse_model of it gives the same model.
[[nodiscard]] nlohmann::ordered_json model_to_json(const Model& model);

}  // namespace stepcast::models
