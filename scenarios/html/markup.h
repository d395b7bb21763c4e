// Pieces of HTML and SVG text. Everything that comes from a user goes through escaped() here, and only here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast::scenarios::html {

// For text and for quoted attributes. Bytes that are no UTF-8 become U+FFFD; control characters a space.
[[nodiscard]] std::string escaped(std::string_view text);

struct Attribute {
  std::string_view name;
  std::string value;  // plain text, escaped when written
};
using Attributes = std::vector<Attribute>;

// <name a="v">content</name>; `content` is markup already.
[[nodiscard]] std::string element(std::string_view name, const Attributes& attributes, std::string_view content);
// The same around plain text.
[[nodiscard]] std::string text_element(std::string_view name, const Attributes& attributes, std::string_view text);

// A coordinate: two decimals at most, no trailing zeros.
[[nodiscard]] std::string coordinate(double value);
// At most `longest` characters; what is cut off is shown by an ellipsis.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t longest);

}  // namespace stepcast::scenarios::html
