#include "scenarios/report/text_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace stepcast::scenarios {
namespace {

// Three significant digits, at least none and at most two decimals.
std::string significant(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

// Characters as a terminal counts them: continuation bytes of UTF-8 take no column.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& cell, std::size_t width, bool left) {
  const std::string space(width - std::min(width, columns(cell)), ' ');
  return left ? cell + space : space + cell;
}

struct Suffix {
  double scale;
  const char* name;
};

template <std::size_t n>
std::string scaled(double value, const std::array<Suffix, n>& suffixes) {
  for (const Suffix& suffix : suffixes) {
    if (std::abs(value) >= 0.9995 * suffix.scale) return significant(value / suffix.scale) + suffix.name;
  }
  return significant(value / suffixes.back().scale) + suffixes.back().name;
}

}  // namespace

std::string time_text(double seconds) {
  if (seconds == 0) return "0 s";
  return scaled(seconds, std::array<Suffix, 4>{{{1, " s"}, {1e-3, " ms"}, {1e-6, " us"}, {1e-9, " ns"}}});
}

std::string bytes_text(double bytes) {
  if (std::abs(bytes) < 1e3) return fmt::format("{:.0f} B", bytes);
  return scaled(bytes, std::array<Suffix, 4>{{{1e12, " TB"}, {1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}}});
}

std::string count_text(double count) {
  if (std::abs(count) < 1e4) return count == std::floor(count) ? fmt::format("{:.0f}", count) : significant(count);
  return scaled(
      count, std::array<Suffix, 6>{{{1e18, " E"}, {1e15, " P"}, {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}});
}

std::string rate_text(double flops_per_s) {
  return scaled(flops_per_s, std::array<Suffix, 3>{{{1e18, " EFLOP/s"}, {1e15, " PFLOP/s"}, {1e12, " TFLOP/s"}}});
}

std::string percent_text(double fraction) { return significant(100 * fraction) + " %"; }

std::string bar(double share, int width) {
  const double filled = std::clamp(share, 0.0, 1.0) * width;
  const auto n = static_cast<std::size_t>(std::lround(filled));
  return std::string(n, '#') + std::string(static_cast<std::size_t>(width) - n, '.');
}

std::string bold(std::string_view text, bool colour) {
  return colour ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const auto space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
    if (!out.empty() && column + 1 + columns(word) > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns(word);
  }
  return out;
}

TextTable::TextTable(std::vector<std::string> headers) : headers_(std::move(headers)) {
  for (std::string& header : headers_) {
    const bool marked = header.starts_with('<');
    if (marked) header.erase(0, 1);
    left_.push_back(marked || left_.empty());
  }
}

void TextTable::row(std::vector<std::string> cells) {
  cells.resize(headers_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(std::size_t indent) const {
  std::vector<std::size_t> widths(headers_.size());
  for (std::size_t c = 0; c < headers_.size(); ++c) {
    widths[c] = columns(headers_[c]);
    for (const auto& cells : rows_) widths[c] = std::max(widths[c], columns(cells[c]));
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text(indent, ' ');
    for (std::size_t c = 0; c < cells.size(); ++c) text += (c == 0 ? "" : "  ") + padded(cells[c], widths[c], left_[c]);
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  if (std::any_of(headers_.begin(), headers_.end(), [](const std::string& header) { return !header.empty(); })) {
    line(headers_);
  }
  for (const auto& cells : rows_) line(cells);
  return out;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) line += ',';
    if (cells[c].find_first_of(",\"\r\n") == std::string::npos) {
      line += cells[c];
      continue;
    }
    line += '"';
    for (const char character : cells[c]) line += character == '"' ? std::string("\"\"") : std::string(1, character);
    line += '"';
  }
  return line + '\n';
}

std::string csv_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string{}; }

}  // namespace stepcast::scenarios
