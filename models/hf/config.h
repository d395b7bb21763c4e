// One Hugging Face config as the importer reads it: the text part, the outer level, and what had to be assumed.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/hf/families.h"
#include "sim/base/json_fields.h"

namespace stepcast::models::hf {

class Config {
 public:
  // `text` is the object that the shape is read from; `outer` the top level where the two differ.
  Config(JsonFields text, std::optional<JsonFields> outer, const Family& family)
      : text_(std::move(text)), outer_(std::move(outer)), family_(&family) {}

  [[nodiscard]] const Family& family() const { return *family_; }
  [[nodiscard]] bool is(std::string_view family) const { return family_->name == family; }
  JsonFields& text() { return text_; }
  std::optional<JsonFields>& outer() { return outer_; }
  Errors& errors() { return text_.errors(); }

  // The first of `keys` that is there; the rest, where present, must agree. A list counts as its value if all its
  // entries are equal (Hunyuan writes one entry a layer). Nothing if none is there.
  std::optional<int> integer(std::initializer_list<std::string_view> keys, int low, int high);
  // The same, and an error if none is there and the family has no default.
  int required(std::initializer_list<std::string_view> keys, int low, int high);
  bool flag(std::string_view key, bool otherwise);
  double number(std::string_view key, double low, double high, double otherwise);
  // Whole numbers in [low, high]; with `length` >= 0 exactly so many.
  std::optional<std::vector<int>> integers(std::string_view key, int length, int low, int high);
  std::optional<std::vector<std::string>> texts(std::string_view key, int length);
  [[nodiscard]] bool has(std::string_view key) { return text_.has(key); }
  // Keys that are understood and say nothing more here.
  void ignore(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) text_.find(key);
  }
  // The nearest key of the text part that nobody has read yet: for messages about a missing one.
  [[nodiscard]] std::string nearest_unread(std::string_view key) const;

  void assume(std::string what) { assumptions_.push_back(std::move(what)); }
  void fail(std::string_view key, std::string message, ErrorCode code = ErrorCode::invalid) {
    text_.fail(key, std::move(message), code);
  }
  [[nodiscard]] std::vector<std::string>& assumptions() { return assumptions_; }

 private:
  std::optional<int> one(std::string_view key, int low, int high);

  JsonFields text_;
  std::optional<JsonFields> outer_;
  const Family* family_;
  std::vector<std::string> assumptions_;
};

inline constexpr int max_width = 100'000'000;
inline constexpr int max_layers = 10'000;

}  // namespace stepcast::models::hf
