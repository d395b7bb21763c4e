#include "models/hf/config.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stepcast::models::hf {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::optional<int> Config::one(std::string_view key, int low, int high) {
  const Json* member = text_.find(key);
  if (member == nullptr) return std::nullopt;
  if (!member->is_array()) {
    const auto v = text_.integer(key, low, high);
    return v ? std::optional<int>(static_cast<int>(*v)) : std::nullopt;
  }
  const auto list = integers(key, -1, low, high);
  if (!list) return std::nullopt;
  if (list->empty()) {
    fail(key, fmt::format("{} is an empty list; a whole number, or one for every layer, is expected", key));
    return std::nullopt;
  }
  const auto other = std::find_if(list->begin(), list->end(), [&](int v) { return v != list->front(); });
  if (other != list->end()) {
    fail(key,
         fmt::format("{} varies over the layers ({} and {}); only one value for all layers is supported", key,
                     list->front(), *other),
         ErrorCode::unsupported);
    return std::nullopt;
  }
  return list->front();
}

std::optional<int> Config::integer(std::initializer_list<std::string_view> keys, int low, int high) {
  std::optional<int> value;
  std::string_view from;
  for (const std::string_view key : keys) {
    const auto v = one(key, low, high);
    if (!v) continue;
    if (value && *value != *v) {
      fail(key, fmt::format("{} is {} but {} is {}; they mean the same and must agree", key, *v, from, *value));
    } else if (!value) {
      value = v;
      from = key;
    }
  }
  return value;
}

int Config::required(std::initializer_list<std::string_view> keys, int low, int high) {
  const std::size_t errors_before = errors().size();
  if (const auto v = integer(keys, low, high)) return *v;
  for (const std::string_view key : keys) {
    for (const auto& [name, value] : family_->defaults) {
      if (name == key && errors().size() == errors_before) {
        assume(fmt::format("{} is absent: {}, the default of {}", key, value, family_->name));
        return value;
      }
    }
  }
  if (errors().size() == errors_before) {
    const std::string_view first = *keys.begin();
    const std::string near = nearest_unread(first);
    fail(first, fmt::format("key {} is missing{}", fmt::join(keys, " or "),
                            near.empty() ? "" : fmt::format("; found '{}', did you mean '{}'?", near, first)));
  }
  return 0;
}

bool Config::flag(std::string_view key, bool otherwise) { return text_.boolean(key).value_or(otherwise); }

double Config::number(std::string_view key, double low, double high, double otherwise) {
  return text_.number(key, low, high).value_or(otherwise);
}

std::optional<std::vector<int>> Config::integers(std::string_view key, int length, int low, int high) {
  std::vector<int> values;
  bool good = true;
  const bool there = text_.list(key, [&](const Json& element, const std::string& pointer) {
    const double v = element.is_number() ? element.get<double>() : low - 1.0;
    if (v < low || v > high || v != static_cast<int>(v)) {
      if (good) {
        errors().push_back(make_error(
            ErrorCode::invalid,
            fmt::format("{} holds {}; whole numbers from {} to {} are expected", key, shown(element), low, high),
            text_.document().where(pointer)));
      }
      good = false;
      return;
    }
    values.push_back(static_cast<int>(v));
  });
  if (!there || !good) return std::nullopt;
  if (length >= 0 && values.size() != static_cast<std::size_t>(length)) {
    fail(key, fmt::format("{} has {} entries; one for each of the {} layers is expected", key, values.size(), length));
    return std::nullopt;
  }
  return values;
}

std::optional<std::vector<std::string>> Config::texts(std::string_view key, int length) {
  std::vector<std::string> values;
  bool good = true;
  const bool there = text_.list(key, [&](const Json& element, const std::string& pointer) {
    if (!element.is_string()) {
      if (good) {
        errors().push_back(make_error(ErrorCode::invalid,
                                      fmt::format("{} holds {}; texts are expected", key, shown(element)),
                                      text_.document().where(pointer)));
      }
      good = false;
      return;
    }
    values.push_back(element.get<std::string>());
  });
  if (!there || !good) return std::nullopt;
  if (length >= 0 && values.size() != static_cast<std::size_t>(length)) {
    fail(key, fmt::format("{} has {} entries; one for each of the {} layers is expected", key, values.size(), length));
    return std::nullopt;
  }
  return values;
}

std::string Config::nearest_unread(std::string_view key) const {
  return nearest_name(std::string(key), text_.unread()).value_or("");
}

}  // namespace stepcast::models::hf
