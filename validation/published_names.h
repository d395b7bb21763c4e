// Models of the catalogue by the names that publications give them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stepcast::validation {

// "Llama3.1-405B" and "llama-3.1-405b" are one name: letters and digits count, case and what separates them does not.
[[nodiscard]] std::string letters(const std::string& name);

// Names of the model catalogue, which are those of its files.
[[nodiscard]] std::vector<std::string> model_names(const std::filesystem::path& root);

// The longest catalogue name that stands in a published one, or the only one that goes on where it ends.
[[nodiscard]] std::optional<std::string> catalogue_model(const std::vector<std::string>& catalogue,
                                                         const std::string& published);

// "(4 layers, EP8)" in a proxy's name; 0: none.
[[nodiscard]] int layers_in_name(const std::string& name);

}  // namespace stepcast::validation
