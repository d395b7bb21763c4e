// Measured training runs: the CSV that `validate` and `calibrate` read.
//
// Columns are those of validation/README.md; an empty cell is unknown. Reading is
// tolerant by row: a damaged row is refused with its line and the reason, the rest
// is kept. BOM and CRLF are accepted.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"

namespace stepcast::validation {

struct MeasuredRun {
  std::string id;
  int line = 0;                                           // in the file, counted from 1
  std::map<std::string, std::string, std::less<>> cells;  // by column; empty cells are left out

  // Empty when unknown.
  [[nodiscard]] std::string text(std::string_view column) const;
  [[nodiscard]] bool has(std::string_view column) const;
  // Absent when unknown. The reader has checked that the cell is a number.
  [[nodiscard]] std::optional<double> number(std::string_view column) const;
  [[nodiscard]] int integer(std::string_view column, int otherwise) const;
  [[nodiscard]] double step_time_s() const;
};

struct Refusal {
  std::string id;
  int line = 0;
  std::string why;
};

struct RunsFile {
  std::string file;
  std::vector<MeasuredRun> runs;
  std::vector<Refusal> refused;
  std::vector<std::string> warnings;  // unknown columns

  // Of all rows, the refused ones too.
  [[nodiscard]] std::vector<std::string> ids() const;
};

// Errors: a file that cannot be read, that is empty, or whose header lacks id, model, device, devices or step_time_s.
[[nodiscard]] Result<RunsFile> read_runs(const std::filesystem::path& file);
[[nodiscard]] Result<RunsFile> parse_runs(std::string_view text, const std::string& file_name);

}  // namespace stepcast::validation
