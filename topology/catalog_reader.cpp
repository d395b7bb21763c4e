#include "topology/catalog_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/file_cache.h"

namespace stepcast::topology {

namespace {

using Json = nlohmann::ordered_json;

const Json empty_object = Json::object();

}  // namespace

const Json* CatalogReader::find(const std::string& pointer) const {
  const Json::json_pointer at(pointer);
  return document_.root.contains(at) ? &document_.root.at(at) : nullptr;
}

void CatalogReader::fail(const std::string& pointer, std::string message) {
  errors_.push_back(make_error(ErrorCode::invalid, std::move(message), document_.where(pointer)));
}

const Json& CatalogReader::object(const std::string& pointer, const std::vector<std::string>& required,
                                  const std::vector<std::string>& optional) {
  const Json* found = find(pointer);
  if (found == nullptr || !found->is_object()) {
    fail(pointer, found == nullptr ? "missing object" : fmt::format("found {}, expected an object", shown(*found)));
    return empty_object;
  }
  std::vector<std::string> allowed = required;
  allowed.insert(allowed.end(), optional.begin(), optional.end());
  for (const auto& [key, value] : found->items()) {
    if (std::ranges::find(allowed, key) != allowed.end()) continue;
    errors_.push_back(make_error(
        ErrorCode::invalid,
        fmt::format("unknown key '{}'{}; allowed: {}", key, suggestion(key, allowed), fmt::join(allowed, ", ")),
        document_.where_key(pointer + pointer_step(key))));
  }
  for (const std::string& key : required) {
    if (!found->contains(key)) fail(pointer, fmt::format("missing key '{}'", key));
  }
  return *found;
}

std::string CatalogReader::text(const std::string& pointer, bool required) {
  const Json* found = find(pointer);
  if (found == nullptr) return {};  // reported by object()
  if (!found->is_string() || (required && found->get_ref<const std::string&>().empty())) {
    fail(pointer, fmt::format("found {}, expected a {}string", shown(*found), required ? "non-empty " : ""));
    return {};
  }
  return found->get<std::string>();
}

bool CatalogReader::flag(const std::string& pointer, bool absent) {
  const Json* found = find(pointer);
  if (found == nullptr) return absent;
  if (!found->is_boolean()) {
    fail(pointer, fmt::format("found {}, expected true or false", shown(*found)));
    return absent;
  }
  return found->get<bool>();
}

double CatalogReader::number(const std::string& pointer, double minimum, double maximum) {
  const Json* found = find(pointer);
  if (found == nullptr) return minimum;  // reported by object()
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= minimum && value <= maximum)) {
    fail(pointer, fmt::format("found {}, expected a number from {} to {}", shown(*found), minimum, maximum));
    return minimum;
  }
  return value;
}

std::string CatalogReader::choice(const std::string& pointer, const std::vector<std::string>& allowed) {
  const Json* found = find(pointer);
  if (found == nullptr) return allowed.front();
  const std::string value = found->is_string() ? found->get<std::string>() : std::string();
  if (std::ranges::find(allowed, value) == allowed.end()) {
    fail(pointer,
         fmt::format("found {}{}; allowed: {}", shown(*found), suggestion(value, allowed), fmt::join(allowed, ", ")));
    return allowed.front();
  }
  return value;
}

Provenance CatalogReader::provenance(const std::string& pointer) {
  static const std::vector<std::string> names{"measured_fit", "specification", "secondary", "assumption"};
  const std::string found = choice(pointer, names);
  return static_cast<Provenance>(std::ranges::find(names, found) - names.begin());
}

std::map<std::string, Constant> CatalogReader::constants(const std::string& pointer,
                                                         std::span<const ConstantKey> keys) {
  std::vector<std::string> required;
  std::vector<std::string> optional;
  for (const ConstantKey& key : keys) (key.required ? required : optional).emplace_back(key.key);
  const Json& block = object(pointer, required, optional);
  std::map<std::string, Constant> read;
  for (const ConstantKey& key : keys) {
    if (!block.contains(key.key)) continue;
    const std::string at = pointer + pointer_step(key.key);
    object(at, {"value", "provenance", "source"}, {});
    Constant constant{number(at + "/value", key.minimum, key.maximum), provenance(at + "/provenance"),
                      text(at + "/source")};
    if (key.whole && constant.value != std::floor(constant.value)) {
      fail(at + "/value", fmt::format("found {}, expected a whole number", constant.value));
    }
    read.emplace(key.key, std::move(constant));
  }
  return read;
}

namespace {

Result<std::vector<std::string>> list_names(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    if (at->path().extension() == ".json") names.push_back(at->path().stem().string());
  }
  if (error) {
    return make_error(ErrorCode::not_found, fmt::format("cannot list the catalogue: {}", error.message()),
                      folder.string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

Result<std::vector<std::string>> catalog_names(const std::filesystem::path& folder) {
  static FileCache<std::vector<std::string>> cache;
  return cache.get(folder, "", [&] { return list_names(folder); });
}

Result<std::filesystem::path> catalog_file(const std::filesystem::path& folder, const std::string& name,
                                           std::string_view what) {
  const auto names = catalog_names(folder);
  if (!names) return names.errors();
  if (std::ranges::find(*names, name) == names->end()) {
    return make_error(ErrorCode::not_found, fmt::format("unknown {} '{}'{}; known: {}", what, name.substr(0, 60),
                                                        suggestion(name, *names), fmt::join(*names, ", ")));
  }
  return folder / (name + ".json");
}

std::string unit_of(std::string_view key) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> units{{{"_gb_per_s", "GB/s"},
                                                                                       {"_tflops", "TFLOP/s"},
                                                                                       {"_us", "us"},
                                                                                       {"_gib", "GiB"},
                                                                                       {"_gb", "GB"},
                                                                                       {"_nodes", "nodes"}}};
  for (const auto& [suffix, unit] : units) {
    if (key.ends_with(suffix)) return std::string(unit);
  }
  return {};
}

}  // namespace stepcast::topology
