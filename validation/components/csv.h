// Calibration tables: comma-separated files with a header and quoted fields.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::validation {

class Table {
 public:
  // Errors: an unreadable file, a row with another number of fields than the header, an unclosed quote.
  [[nodiscard]] static Result<Table> read(const std::filesystem::path& file);

  [[nodiscard]] std::size_t rows() const { return cells_.size(); }
  // A column that is absent reads as empty.
  [[nodiscard]] std::string_view text(std::size_t row, std::string_view column) const;
  // NaN when the cell is empty or no number.
  [[nodiscard]] double number(std::size_t row, std::string_view column) const;
  [[nodiscard]] bool has_column(std::string_view column) const;
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::size_t line(std::size_t row) const { return lines_[row]; }

 private:
  std::string file_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::vector<std::vector<std::string>> cells_;
  std::vector<std::size_t> lines_;
};

}  // namespace stepcast::validation
