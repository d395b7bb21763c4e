// Plain text for people: numbers with units, aligned tables, bars. Width is at most 100 columns by design of the
// callers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast::scenarios {

// "12.34 s", "56.7 ms", "8.90 us": three or four significant digits.
[[nodiscard]] std::string time_text(double seconds);
// Decimal: "81.2 GB", "512 MB".
[[nodiscard]] std::string bytes_text(double bytes);
// Decimal with a suffix: "2.31 M", "14.8 T". Below 10,000 the number itself.
[[nodiscard]] std::string count_text(double count);
// "8.66 TFLOP/s", from FLOP/s.
[[nodiscard]] std::string rate_text(double flops_per_s);
// "39.1 %" of a fraction.
[[nodiscard]] std::string percent_text(double fraction);
// `width` characters of which `share` (0..1) are filled.
[[nodiscard]] std::string bar(double share, int width);
// With ANSI codes when `colour`.
[[nodiscard]] std::string bold(std::string_view text, bool colour);
// Breaks at spaces; lines after the first begin with `indent` spaces.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = 100);

// Columns sized by their content; the first is left-aligned unless asked otherwise, the others right-aligned.
class TextTable {
 public:
  // A header that begins with '<' is left-aligned ("<group").
  explicit TextTable(std::vector<std::string> headers);
  void row(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::string text(std::size_t indent = 2) const;

 private:
  std::vector<std::string> headers_;
  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;
};

// One line of RFC 4180 CSV, with its newline.
[[nodiscard]] std::string csv_line(const std::vector<std::string>& cells);
// Shortest text that reads back as the same number; empty for a number that is not finite.
[[nodiscard]] std::string csv_number(double value);

}  // namespace stepcast::scenarios
