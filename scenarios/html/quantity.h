// How numbers are shown in pages: by what they measure.
#pragma once

#include <string>
#include <string_view>

namespace stepcast::scenarios::html {

enum class Unit : unsigned char {
  text,     // no number
  plain,    // as it is: 17, 0.25
  seconds,  // "17.2 s", "56.7 ms"
  bytes,    // "83.4 GB"
  count,    // "3.67 M"
  percent,  // of a fraction: "23.5 %"
  change,   // of a fraction, with its sign: "-4.2 %"
  factor,   // "1.93x"
  gb_per_s,
  flops,  // "1.98 E"
};

// Empty for a number that is not finite.
[[nodiscard]] std::string shown(double value, Unit unit);
// What a CSV header adds to a column's name: "_s", "_bytes", ... empty for pure numbers.
[[nodiscard]] std::string_view suffix(Unit unit);

// Six significant digits, for data of charts.
[[nodiscard]] double rounded(double value);

}  // namespace stepcast::scenarios::html
