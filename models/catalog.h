// Models by name, and import of a Hugging Face config.json.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer.h"
#include "sim/base/error.h"

namespace stepcast::models {

struct CatalogEntry {
  std::string name;         // "deepseek-v3"
  std::string summary;      // "MoE 671B, 37B active, MLA, 61 layers"
};

// The catalogue is models/catalog/*.json under `catalog_root` (the folder that holds models/, topology/, ...).
[[nodiscard]] Result<std::vector<CatalogEntry>> list_models(const std::filesystem::path& catalog_root);

// By catalogue name. An unknown name is an error with the nearest valid one.
[[nodiscard]] Result<Model> load_model(const std::filesystem::path& catalog_root, const std::string& name);

// A Hugging Face config.json (families: see models/README.md). Errors name file, line, key.
[[nodiscard]] Result<Model> import_hf_config(const std::filesystem::path& file);
[[nodiscard]] Result<Model> import_hf_config_text(std::string_view text, const std::string& file_name);

// stepcast's own description (the catalogue's format), as inline scenarios use it. `where` prefixes error positions.
[[nodiscard]] Result<Model> parse_model_json(std::string_view text, const std::string& file_name);

}  // namespace stepcast::models
