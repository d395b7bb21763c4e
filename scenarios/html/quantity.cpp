#include "scenarios/html/quantity.h"

#include <cmath>

#include <fmt/format.h>

#include "scenarios/report/text_table.h"

namespace stepcast::scenarios::html {

std::string shown(double value, Unit unit) {
  if (!std::isfinite(value)) return {};
  switch (unit) {
    case Unit::seconds:
      return time_text(value);
    case Unit::bytes:
      return bytes_text(value);
    case Unit::count:
    case Unit::flops:
      return count_text(value);
    case Unit::percent:
      return percent_text(value);
    case Unit::change:
      return fmt::format("{:+.1f} %", 100 * value);
    case Unit::factor:
      return fmt::format("{:.2f}x", value);
    case Unit::gb_per_s:
      return fmt::format("{:.4g} GB/s", value);
    case Unit::text:
    case Unit::plain:
      break;
  }
  return fmt::format("{:.6g}", value);
}

std::string_view suffix(Unit unit) {
  switch (unit) {
    case Unit::seconds:
      return "_s";
    case Unit::bytes:
      return "_bytes";
    case Unit::gb_per_s:
      return "_gb_per_s";
    case Unit::flops:
      return "_flops";
    default:
      return "";
  }
}

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && scale > 0 ? std::round(value * scale) / scale : value;
}

}  // namespace stepcast::scenarios::html
