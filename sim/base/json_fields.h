// The members of one JSON object, read strictly.
//
// Every getter remembers its key; `refuse_unknown` then names each key that
// nobody asked for, with the nearest valid one. A null member counts as absent.
// Wrong types and values out of range become errors with file, line and column;
// the getter returns nothing and reading goes on, so one pass finds all errors.
// Borrows the document, the value and the error list.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_reader.h"

namespace stepcast {

class JsonFields {
 public:
  // `pointer` is that of `value` in the document. A value that is not an object is an error here.
  JsonFields(const JsonDocument& document, const nlohmann::ordered_json& value, std::string pointer, Errors& errors);

  // The member, or null if it is absent or null.
  const nlohmann::ordered_json* find(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) { return find(key) != nullptr; }

  // A whole number in [low, high]; 4.0 counts as whole.
  std::optional<long long> integer(std::string_view key, long long low, long long high);
  std::optional<double> number(std::string_view key, double low, double high);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  // One of `allowed`; its index.
  std::optional<std::size_t> choice(std::string_view key, const std::vector<std::string>& allowed);
  // A nested object; nothing if absent.
  std::optional<JsonFields> object(std::string_view key);
  // Calls `each(element, pointer)` for the elements of a list; false if the key is absent or not a list.
  bool list(std::string_view key, const std::function<void(const nlohmann::ordered_json&, const std::string&)>& each);

  // The same where the key must be there: absence is an error.
  std::optional<long long> required_integer(std::string_view key, long long low, long long high);
  std::optional<double> required_number(std::string_view key, double low, double high);
  std::optional<std::string> required_text(std::string_view key);
  void require(std::string_view key);

  // Assigns when the member is there and valid.
  void read(std::string_view key, int& target, int low, int high);
  void read(std::string_view key, double& target, double low, double high);
  void read(std::string_view key, bool& target);
  void read(std::string_view key, std::string& target);

  // An error about a member, at its value.
  void fail(std::string_view key, std::string message, ErrorCode code = ErrorCode::invalid);

  // Keys of the object that no getter asked for, in the order of the text.
  [[nodiscard]] std::vector<std::string> unread() const;
  // An error for each of them. `also_valid` are further names to suggest.
  void refuse_unknown(const std::vector<std::string>& also_valid = {});

  [[nodiscard]] std::string pointer_of(std::string_view key) const { return pointer_ + pointer_step(key); }
  [[nodiscard]] std::string where(std::string_view key) const { return document_->where(pointer_of(key)); }
  [[nodiscard]] const std::string& pointer() const { return pointer_; }
  [[nodiscard]] const JsonDocument& document() const { return *document_; }
  [[nodiscard]] Errors& errors() { return *errors_; }

 private:
  const JsonDocument* document_;
  const nlohmann::ordered_json* value_;  // null when it was not an object
  std::string pointer_;
  Errors* errors_;
  std::vector<std::string> asked_;
};

}  // namespace stepcast
