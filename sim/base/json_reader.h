// JSON text from outside, read once, with the position of every value.
//
// nlohmann's parser behind a counting iterator: what it accepts is strict JSON
// (no comments, no NaN, no trailing commas). Beyond that, refused here: a key
// written twice, nesting deeper than 64, files over 64 MiB, more than 16 million
// values, NUL and other control bytes. A UTF-8 byte-order mark is tolerated.
// Never throws on content. Safe to share between threads once built.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"

namespace stepcast {

inline constexpr std::size_t json_max_depth = 64;
inline constexpr std::size_t json_max_bytes = std::size_t{64} << 20;
inline constexpr std::size_t json_max_values = std::size_t{16} << 20;

// Byte offsets of the values of a document in the order of their text.
struct JsonPositions {
  struct Node {
    std::uint32_t key = 0;    // where the member's key begins; equal to `value` outside objects
    std::uint32_t value = 0;  // where the value begins
    std::uint32_t end = 0;    // index one past the node's last descendant
  };
  std::vector<Node> nodes;
  std::string text;
};

struct JsonDocument {
  nlohmann::ordered_json root;
  std::string file;
  std::shared_ptr<const JsonPositions> positions;

  // "file:line:column /pointer" of a value ("" is the root). For a pointer that names nothing, the position of the
  // nearest ancestor that exists: where a missing key should have stood. Columns count characters from 1.
  [[nodiscard]] std::string where(const std::string& pointer) const;
  // The same, at the member's key: for keys that should not be there.
  [[nodiscard]] std::string where_key(const std::string& pointer) const;
};

[[nodiscard]] Result<JsonDocument> parse_json(std::string_view text, std::string file_name);
[[nodiscard]] Result<JsonDocument> read_json_file(const std::filesystem::path& file);

// A whole text file of at most `max_bytes`. Missing files, directories and unreadable files are errors.
[[nodiscard]] Result<std::string> read_text_file(const std::filesystem::path& file, std::size_t max_bytes);

// `key` as one step of a JSON pointer ('~' and '/' escaped), with its leading slash.
[[nodiscard]] std::string pointer_step(std::string_view key);
[[nodiscard]] std::string pointer_step(std::size_t index);

// A name from outside as an error message shows it, cut to 60 characters.
[[nodiscard]] std::string shown_name(const std::string& name);

// A value as an error message shows it: JSON text, cut to 60 characters.
[[nodiscard]] std::string shown(const nlohmann::ordered_json& value);

}  // namespace stepcast
