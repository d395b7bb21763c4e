#include "scenarios/megatron/argument_set.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/json_reader.h"

namespace stepcast::scenarios::megatron {
namespace {

template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [at, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || at != end) return std::nullopt;
  return value;
}

std::string found_in(const std::string& value) {
  std::string text = fmt::format("found '{}'", shown_name(value));
  if (value.find('$') != std::string::npos) text += " (set the variable with --define NAME=VALUE)";
  return text;
}

}  // namespace

ArgumentSet::ArgumentSet(const ArgumentList& arguments, Errors& errors)
    : arguments_(arguments), used_(arguments.size(), false), errors_(&errors) {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const auto [entry, fresh] = index_.insert({arguments_[i].name, i});
    if (fresh) continue;
    used_[entry->second] = true;  // replaced, and said so
    entry->second = i;
    if (std::find(repeated_.begin(), repeated_.end(), arguments_[i].name) == repeated_.end())
      repeated_.push_back(arguments_[i].name);
  }
}

bool ArgumentSet::has(std::string_view name) const { return index_.find(name) != index_.end(); }

const Argument* ArgumentSet::find(std::string_view name) {
  if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) asked_.emplace_back(name);
  const auto found = index_.find(name);
  if (found == index_.end()) return nullptr;
  used_[found->second] = true;
  return &arguments_[found->second];
}

std::string ArgumentSet::where(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) return std::string(name);
  return fmt::format("{} {}", arguments_[found->second].where, name);
}

void ArgumentSet::fail(std::string_view name, std::string message, ErrorCode code) {
  errors_->push_back(make_error(code, std::move(message), where(name)));
}

bool ArgumentSet::flag(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) return false;
  if (argument->values.empty()) return true;
  const std::string& value = argument->values.front();
  if (argument->values.size() > 1 || (value != "true" && value != "True" && value != "1")) {
    fail(name, found_in(value) + "; the argument takes no value");
  }
  return true;
}

std::optional<std::string> ArgumentSet::text(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  if (argument->values.size() != 1) {
    fail(name, fmt::format("found {} values; one is expected", argument->values.size()));
    return std::nullopt;
  }
  return argument->values.front();
}

std::optional<long long> ArgumentSet::integer(std::string_view name, long long low, long long high) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto number = parsed<long long>(*value);
  if (!number || *number < low || *number > high) {
    fail(name, fmt::format("{}; a whole number from {} to {} is expected", found_in(*value), low, high));
    return std::nullopt;
  }
  return number;
}

std::optional<double> ArgumentSet::number(std::string_view name, double low, double high) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto number = parsed<double>(*value);
  if (!number || !std::isfinite(*number) || *number < low || *number > high) {
    fail(name, fmt::format("{}; a number from {} to {} is expected", found_in(*value), low, high));
    return std::nullopt;
  }
  return number;
}

std::optional<std::size_t> ArgumentSet::choice(std::string_view name, const std::vector<std::string>& allowed) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto found = std::find(allowed.begin(), allowed.end(), *value);
  if (found == allowed.end()) {
    fail(name,
         fmt::format("{}; allowed are {}{}", found_in(*value), fmt::join(allowed, ", "), suggestion(*value, allowed)));
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - allowed.begin());
}

std::vector<std::string> ArgumentSet::list(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) return {};
  if (argument->values.empty()) fail(name, "a value is missing");
  if (argument->values.size() != 1) return argument->values;
  std::vector<std::string> parts;
  std::string part;
  for (const char c : argument->values.front() + " ") {
    if (c != ' ' && c != ',') {
      part += c;
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, {}));
    }
  }
  return parts;
}

ArgumentList ArgumentSet::unused() const {
  ArgumentList rest;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (!used_[i]) rest.push_back(arguments_[i]);
  }
  return rest;
}

}  // namespace stepcast::scenarios::megatron
