#include "scenarios/megatron/arguments.h"

#include <fmt/format.h>

namespace stepcast::scenarios::megatron {

std::string shell_word(std::string_view value) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,+=@%";
  if (!value.empty() && value.find_first_not_of(plain) == std::string_view::npos) return std::string(value);
  std::string word = "'";
  for (const char c : value) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string shown(const Argument& argument) {
  std::string text = argument.name;
  for (const std::string& value : argument.values) text += " " + shell_word(value);
  return text;
}

std::string layer_pattern(const std::vector<bool>& ones) {
  std::string text;
  for (std::size_t i = 0; i < ones.size();) {
    std::size_t end = i;
    while (end < ones.size() && ones[end] == ones[i]) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", ones[i] ? 1 : 0, end - i);
    i = end;
  }
  return "(" + text + ")";
}

}  // namespace stepcast::scenarios::megatron
