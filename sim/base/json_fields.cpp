#include "sim/base/json_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

// The whole number that `value` holds, if it is one that a long long can hold.
std::optional<long long> whole(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto v = value.get<std::uint64_t>();
    if (v <= static_cast<std::uint64_t>(INT64_MAX)) return static_cast<long long>(v);
    return std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {
    const double v = value.get<double>();
    if (std::floor(v) == v && std::abs(v) < 9e15) return static_cast<long long>(v);
  }
  return std::nullopt;
}

}  // namespace

JsonFields::JsonFields(const JsonDocument& document, const Json& value, std::string pointer, Errors& errors)
    : document_(&document), value_(&value), pointer_(std::move(pointer)), errors_(&errors) {
  if (!value.is_object()) {
    errors_->push_back(make_error(ErrorCode::invalid,
                                  fmt::format("found {}; an object {{...}} is expected", shown(value)),
                                  document.where(pointer_)));
    value_ = nullptr;
  }
}

const Json* JsonFields::find(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  if (value_ == nullptr) return nullptr;
  const auto member = value_->find(std::string(key));
  if (member == value_->end() || member->is_null()) return nullptr;
  return &*member;
}

std::optional<long long> JsonFields::integer(std::string_view key, long long low, long long high) {
  const Json* member = find(key);
  if (member == nullptr) return std::nullopt;
  const auto v = whole(*member);
  if (!v || *v < low || *v > high) {
    fail(key, fmt::format("{} is {}; a whole number from {} to {} is expected", key, shown(*member), low, high));
    return std::nullopt;
  }
  return v;
}

std::optional<double> JsonFields::number(std::string_view key, double low, double high) {
  const Json* member = find(key);
  if (member == nullptr) return std::nullopt;
  const double v = member->is_number() ? member->get<double>() : std::nan("");
  if (!(v >= low && v <= high)) {
    fail(key, fmt::format("{} is {}; a number from {} to {} is expected", key, shown(*member), low, high));
    return std::nullopt;
  }
  return v;
}

std::optional<bool> JsonFields::boolean(std::string_view key) {
  const Json* member = find(key);
  if (member == nullptr) return std::nullopt;
  if (!member->is_boolean()) {
    fail(key, fmt::format("{} is {}; true or false is expected", key, shown(*member)));
    return std::nullopt;
  }
  return member->get<bool>();
}

std::optional<std::string> JsonFields::text(std::string_view key) {
  const Json* member = find(key);
  if (member == nullptr) return std::nullopt;
  if (!member->is_string()) {
    fail(key, fmt::format("{} is {}; a text in quotes is expected", key, shown(*member)));
    return std::nullopt;
  }
  return member->get<std::string>();
}

std::optional<std::size_t> JsonFields::choice(std::string_view key, const std::vector<std::string>& allowed) {
  const auto name = text(key);
  if (!name) return std::nullopt;
  const auto at = std::find(allowed.begin(), allowed.end(), *name);
  if (at == allowed.end()) {
    fail(key, fmt::format("{} is '{}'; allowed: {}{}", key, shown_name(*name), fmt::join(allowed, ", "),
                          suggestion(*name, allowed)));
    return std::nullopt;
  }
  return static_cast<std::size_t>(at - allowed.begin());
}

std::optional<JsonFields> JsonFields::object(std::string_view key) {
  const Json* member = find(key);
  if (member == nullptr) return std::nullopt;
  return JsonFields(*document_, *member, pointer_of(key), *errors_);
}

bool JsonFields::list(std::string_view key, const std::function<void(const Json&, const std::string&)>& each) {
  const Json* member = find(key);
  if (member == nullptr) return false;
  if (!member->is_array()) {
    fail(key, fmt::format("{} is {}; a list [...] is expected", key, shown(*member)));
    return false;
  }
  for (std::size_t i = 0; i < member->size(); ++i) each((*member)[i], pointer_of(key) + pointer_step(i));
  return true;
}

void JsonFields::require(std::string_view key) {
  if (value_ != nullptr && !has(key)) {
    errors_->push_back(make_error(ErrorCode::invalid, fmt::format("key '{}' is missing", key), where(key)));
  }
}

std::optional<long long> JsonFields::required_integer(std::string_view key, long long low, long long high) {
  require(key);
  return integer(key, low, high);
}

std::optional<double> JsonFields::required_number(std::string_view key, double low, double high) {
  require(key);
  return number(key, low, high);
}

std::optional<std::string> JsonFields::required_text(std::string_view key) {
  require(key);
  return text(key);
}

void JsonFields::read(std::string_view key, int& target, int low, int high) {
  if (const auto v = integer(key, low, high)) target = static_cast<int>(*v);
}

void JsonFields::read(std::string_view key, double& target, double low, double high) {
  if (const auto v = number(key, low, high)) target = *v;
}

void JsonFields::read(std::string_view key, bool& target) {
  if (const auto v = boolean(key)) target = *v;
}

void JsonFields::read(std::string_view key, std::string& target) {
  if (auto v = text(key)) target = std::move(*v);
}

void JsonFields::fail(std::string_view key, std::string message, ErrorCode code) {
  errors_->push_back(make_error(code, std::move(message), where(key)));
}

std::vector<std::string> JsonFields::unread() const {
  std::vector<std::string> keys;
  if (value_ == nullptr) return keys;
  for (const auto& member : value_->get_ref<const Json::object_t&>()) {
    if (std::find(asked_.begin(), asked_.end(), member.first) == asked_.end()) keys.push_back(member.first);
  }
  return keys;
}

void JsonFields::refuse_unknown(const std::vector<std::string>& also_valid) {
  std::vector<std::string> valid = asked_;
  valid.insert(valid.end(), also_valid.begin(), also_valid.end());
  std::sort(valid.begin(), valid.end());
  valid.erase(std::unique(valid.begin(), valid.end()), valid.end());
  for (const std::string& key : unread()) {
    errors_->push_back(make_error(
        ErrorCode::invalid,
        fmt::format("unknown key '{}'{}; allowed: {}", shown_name(key), suggestion(key, valid), fmt::join(valid, ", ")),
        document_->where_key(pointer_of(key))));
  }
}

}  // namespace stepcast
