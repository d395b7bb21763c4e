#include "validation/components/csv.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include <fmt/format.h>

namespace stepcast::validation {
namespace {

struct Record {
  std::vector<std::string> fields;
  std::size_t line = 0;
  bool open_quote = false;
};

// One record from `text` at `position`; quoted fields may hold commas, doubled quotes and line ends.
Record next_record(const std::string& text, std::size_t& position, std::size_t& line) {
  Record record;
  record.line = line;
  std::string field;
  bool quoted = false;
  while (position < text.size()) {
    const char c = text[position++];
    if (quoted) {
      if (c == '\n') ++line;
      if (c != '"') {
        field += c;
      } else if (position < text.size() && text[position] == '"') {
        field += c;
        ++position;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      record.fields.push_back(std::move(field));
      field.clear();
    } else if (c == '\n') {
      ++line;
      break;
    } else if (c != '\r') {
      field += c;
    }
  }
  record.open_quote = quoted;
  record.fields.push_back(std::move(field));
  return record;
}

}  // namespace

Result<Table> Table::read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return make_error(ErrorCode::unreadable, "cannot open the table", file.string());
  std::ostringstream buffer;
  buffer << in.rdbuf();
  const std::string text = buffer.str();
  Table table;
  table.file_ = file.string();
  std::size_t position = 0;
  std::size_t line = 1;
  Errors errors;
  const Record header = next_record(text, position, line);
  for (std::size_t i = 0; i < header.fields.size(); ++i) table.columns_.emplace(header.fields[i], i);
  while (position < text.size()) {
    Record record = next_record(text, position, line);
    if (record.fields.size() == 1 && record.fields.front().empty()) continue;
    const std::string where = fmt::format("{}:{}:1", table.file_, record.line);
    if (record.open_quote) {
      errors.push_back(make_error(ErrorCode::unreadable, "a quoted field is not closed", where));
      break;
    }
    if (record.fields.size() != header.fields.size()) {
      errors.push_back(make_error(
          ErrorCode::unreadable,
          fmt::format("the row has {} fields, the header {}", record.fields.size(), header.fields.size()), where));
      continue;
    }
    table.cells_.push_back(std::move(record.fields));
    table.lines_.push_back(record.line);
  }
  if (!errors.empty()) return errors;
  return table;
}

bool Table::has_column(std::string_view column) const { return columns_.find(column) != columns_.end(); }

std::string_view Table::text(std::size_t row, std::string_view column) const {
  const auto it = columns_.find(column);
  return it == columns_.end() ? std::string_view() : std::string_view(cells_[row][it->second]);
}

double Table::number(std::size_t row, std::string_view column) const {
  const std::string_view cell = text(row, column);
  double value = 0;
  const auto [end, status] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || status != std::errc() || end != cell.data() + cell.size()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return value;
}

}  // namespace stepcast::validation
