// Strict reading of catalogue files: every value is checked, every error of a
// file is collected with its file:line:column, unknown keys get the nearest name.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/json_reader.h"
#include "topology/device.h"

namespace stepcast::topology {

// A key of a "constants" block, its unit in words and its range.
struct ConstantKey {
  std::string_view key;
  std::string_view unit;
  double minimum = 0;
  double maximum = 0;
  bool required = true;
  bool whole = false;
};

class CatalogReader {
 public:
  explicit CatalogReader(const JsonDocument& document) : document_(document) {}

  // The object at `pointer`, checked for unknown and missing keys; null (an empty object) where it is none.
  const nlohmann::ordered_json& object(const std::string& pointer, const std::vector<std::string>& required,
                                       const std::vector<std::string>& optional);

  // Absent optional keys give the empty value; wrong types are errors.
  [[nodiscard]] std::string text(const std::string& pointer, bool required = true);
  [[nodiscard]] bool flag(const std::string& pointer, bool absent);
  [[nodiscard]] double number(const std::string& pointer, double minimum, double maximum);
  // One of `allowed`; `allowed.front()` where the key is absent.
  [[nodiscard]] std::string choice(const std::string& pointer, const std::vector<std::string>& allowed);
  [[nodiscard]] Provenance provenance(const std::string& pointer);

  // {"value": .., "provenance": "..", "source": ".."} for each key.
  [[nodiscard]] std::map<std::string, Constant> constants(const std::string& pointer,
                                                          std::span<const ConstantKey> keys);

  void fail(const std::string& pointer, std::string message);
  [[nodiscard]] const Errors& errors() const { return errors_; }

 private:
  [[nodiscard]] const nlohmann::ordered_json* find(const std::string& pointer) const;

  const JsonDocument& document_;
  Errors errors_;
};

// Names (stems) of the .json files of a folder, sorted.
[[nodiscard]] Result<std::vector<std::string>> catalog_names(const std::filesystem::path& folder);

// The file of a catalogue name; not_found with the nearest name. `what` is "device", "cluster preset".
[[nodiscard]] Result<std::filesystem::path> catalog_file(const std::filesystem::path& folder, const std::string& name,
                                                         std::string_view what);

// The unit that a key's suffix stands for: "_gb_per_s" is "GB/s".
[[nodiscard]] std::string unit_of(std::string_view key);

}  // namespace stepcast::topology
