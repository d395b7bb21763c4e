// The table of errors that the README shows, from forecasts as they are kept in validation/data/forecasts.csv.
//
// Renders what it is given and forecasts nothing, so that a test can hold the README against the kept forecasts and
// the kept forecasts against the code (tests/validation/error_table_test.cpp). validation/error_table.sh renews both.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "validation/validate.h"

namespace stepcast::validation {

// One row a run: id, family, device, kind, software, times and peak memory.
[[nodiscard]] std::string forecasts_csv(const std::vector<RowResult>& rows);
// The same read back. Errors: a header or a number that is none, with its line.
[[nodiscard]] Result<std::vector<RowResult>> parse_forecasts(const std::string& text, const std::string& file_name);

// Markdown. `fitted`: ids whose step times constants were fitted to.
[[nodiscard]] std::string error_table(const std::vector<RowResult>& rows, const std::set<std::string>& fitted);

}  // namespace stepcast::validation
