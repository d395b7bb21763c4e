#include "scenarios/html/markup.h"

#include <cmath>

#include <fmt/format.h>

namespace stepcast::scenarios::html {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";
constexpr std::string_view ellipsis = "\xE2\x80\xA6";

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

// Bytes of the well-formed character at the front; 0 when there is none.
std::size_t character_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80U) return 1;
  const std::size_t n = lead >= 0xF0U && lead < 0xF5U ? 4 : lead >= 0xE0U && lead < 0xF0U ? 3 : lead >= 0xC2U ? 2 : 0;
  if (n == 0 || (n == 2 && lead >= 0xE0U)) return 0;
  for (std::size_t i = 1; i < n; ++i) {
    if (!continues(text, i)) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xE0U && second < 0xA0U) || (lead == 0xF0U && second < 0x90U);
  const bool outside = (lead == 0xEDU && second >= 0xA0U) || (lead == 0xF4U && second >= 0x90U);
  return overlong || outside ? 0 : n;
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '&':
      out += "&amp;";
      return;
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&#39;";
      return;
    default:
      out += static_cast<unsigned char>(c) < 0x20U || c == 0x7F ? ' ' : c;
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t n = character_length(text);
    if (n == 0) {
      out += replacement;
    } else if (n == 1) {
      append_ascii(out, text.front());
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

std::string element(std::string_view name, const Attributes& attributes, std::string_view content) {
  std::string out = fmt::format("<{}", name);
  for (const Attribute& a : attributes) out += fmt::format(" {}=\"{}\"", a.name, escaped(a.value));
  out += '>';
  out += content;
  return out + fmt::format("</{}>", name);
}

std::string text_element(std::string_view name, const Attributes& attributes, std::string_view text) {
  return element(name, attributes, escaped(text));
}

std::string coordinate(double value) {
  std::string out = fmt::format("{:.2f}", std::abs(value) < 0.005 ? 0.0 : value);
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out;
}

std::string shortened(std::string_view text, std::size_t longest) {
  std::size_t characters = 0, at = 0, keep = 0;
  while (at < text.size()) {
    if (characters + 1 == longest) keep = at;
    ++at;
    while (continues(text, at)) ++at;
    ++characters;
  }
  if (characters <= longest) return std::string(text);
  return std::string(text.substr(0, keep)) + std::string(ellipsis);
}

}  // namespace stepcast::scenarios::html
