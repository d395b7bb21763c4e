#include "validation/runs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "sim/base/text.h"

namespace stepcast::validation {
namespace {

const std::vector<std::string> required = {"id", "model", "device", "devices", "step_time_s"};

// Columns that hold numbers, with the least value allowed.
const std::map<std::string, double, std::less<>> number_columns = {{"devices", 1},
                                                                   {"sustained_gemm", 0.05},
                                                                   {"devices_per_node", 1},
                                                                   {"sequence_length", 1},
                                                                   {"global_batch", 1},
                                                                   {"micro_batch", 1},
                                                                   {"tp", 1},
                                                                   {"pp", 1},
                                                                   {"vpp", 1},
                                                                   {"cp", 1},
                                                                   {"ep", 1},
                                                                   {"etp", 1},
                                                                   {"dp", 1},
                                                                   {"nvlink_domain", 1},
                                                                   {"nic_gb_per_s_per_device", 0},
                                                                   {"step_time_s", 0},
                                                                   {"tokens_per_s_per_device", 0},
                                                                   {"model_tflops_per_device", 0},
                                                                   {"mfu_percent", 0},
                                                                   {"hfu_percent", 0},
                                                                   {"peak_memory_gb", 0},
                                                                   {"layers", 1},
                                                                   {"hidden", 1},
                                                                   {"heads", 1},
                                                                   {"kv_heads", 1},
                                                                   {"ffn", 1},
                                                                   {"vocab", 1}};

constexpr std::array<const char*, 8> switch_columns = {"ep_overlap", "delay_wgrad",      "tp_overlap",
                                                       "dp_overlap", "grouped_gemm",     "permute_fusion",
                                                       "mtp",        "sequence_parallel"};

const std::set<std::string, std::less<>> other_columns = {
    "id",          "family",           "kind",           "source",
    "model",       "device",           "precision",      "sharding",
    "recompute",   "routing",          "software",       "dispatcher",
    "cuda_graphs", "ep_overlap",       "delay_wgrad",    "tp_overlap",
    "dp_overlap",  "grouped_gemm",     "permute_fusion", "sequence_parallel",
    "mtp",         "schedule",         "software_tags",  "pipeline_layout",
    "overlap",     "flops_convention", "trust",          "notes"};

struct CsvRow {
  int line = 1;
  std::vector<std::string> cells;
  bool unclosed = false;
};

// RFC 4180: commas, quotes doubled inside quotes, line breaks inside quotes. A quote that is never closed ends its row
// at the end of the file.
std::vector<CsvRow> split_csv(std::string_view text) {
  std::vector<CsvRow> rows;
  CsvRow row;
  std::string cell;
  bool quoted = false;
  int line = 1;
  const auto end_cell = [&] {
    row.cells.push_back(cell);
    cell.clear();
  };
  const auto end_row = [&] {
    end_cell();
    if (row.cells.size() > 1 || !row.cells.front().empty()) rows.push_back(row);
    row = CsvRow{};
  };
  row.line = line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        cell += '"';
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        cell += c;
      }
    } else if (c == '"' && cell.empty()) {
      quoted = true;
    } else if (c == ',') {
      end_cell();
    } else if (c == '\n') {
      end_row();
      row.line = line;
    } else if (c != '\r') {
      cell += c;
    }
  }
  row.unclosed = quoted;
  if (!cell.empty() || !row.cells.empty()) end_row();
  if (!rows.empty() && quoted) rows.back().unclosed = true;
  return rows;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string trimmed(std::string_view s) {
  const auto first = s.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(s.substr(first, s.find_last_not_of(" \t") - first + 1));
}

// Beyond these a number is in another unit than its column's.
struct Likely {
  const char* column;
  double most;
  const char* hint;
};
constexpr double shortest_step_s = 1e-5;  // a single kernel's launch
constexpr std::array<Likely, 5> most_likely{{
    {"step_time_s", 3600, "no step takes an hour; milliseconds?"},
    {"nic_gb_per_s_per_device", 250, "gigabytes a second are meant (400 Gb/s is 50)"},
    {"peak_memory_gb", 2000, "gigabytes are meant; megabytes?"},
    {"model_tflops_per_device", 20000, "teraFLOP/s of one device are meant"},
    {"tokens_per_s_per_device", 1e7, "tokens of one device are meant; of the whole job?"},
}};

// Zero here is a hole in a table: an empty cell is unknown.
constexpr std::array<const char*, 5> above_zero = {"tokens_per_s_per_device", "model_tflops_per_device", "mfu_percent",
                                                   "hfu_percent", "peak_memory_gb"};

// "; a factor near 1,000 ..." where two figures of one quantity are that far apart.
const char* unit_slip(double ratio) {
  const double power = std::abs(std::log10(ratio));
  return power > 2.85 && power < 3.15 ? ": a factor near 1,000, so units are mixed (milliseconds?)" : "";
}

// What stands beside the digits of a text that is no number.
std::string slip_in(const std::string& text) {
  if (text.find(',') != std::string::npos || text.find(' ') != std::string::npos ||
      text.find('\'') != std::string::npos)
    return " (no thousands separators, no units, a point for decimals)";
  const bool digits = std::isdigit(static_cast<unsigned char>(text.front())) != 0;
  const bool letters = std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  return digits && letters ? " (no units in cells: the column has one)" : "";
}

// Why a row cannot be believed, or empty.
std::string implausible(const MeasuredRun& run) {
  for (const auto& [column, least] : number_columns) {
    const std::string text = run.text(column);
    if (text.empty()) continue;
    const auto value = parse_number(text);
    if (!value) {
      return fmt::format("{} is '{}', not a number{}", column, text.substr(0, 40), slip_in(text));
    }
    if (*value < least) return fmt::format("{} is {}, allowed: {} and above", column, text, least);
    if (least == 1 && (*value != std::floor(*value) || *value > 1e9))
      return fmt::format("{} is {}, expected a whole number", column, text);
  }
  for (const char* column : above_zero) {
    if (run.number(column) == 0.0) return fmt::format("{} is 0, expected a number above 0 (or an empty cell)", column);
  }
  const std::string kind = lower_case(run.text("kind"));
  if (!kind.empty() && kind != "moe" && kind != "dense")
    return fmt::format("kind is '{}', allowed: moe, dense{}", run.text("kind").substr(0, 40),
                       suggestion(kind, {"moe", "dense"}));
  for (const char* column : switch_columns) {
    const std::string text = run.text(column);
    if (text.empty() || text == "on" || text == "off") continue;
    return fmt::format("{} is '{}', allowed: on, off (or an empty cell)", column, text.substr(0, 40));
  }
  const double step = run.step_time_s();
  if (!run.has("step_time_s")) return "no step_time_s: nothing to compare with";
  if (step <= 0) return fmt::format("step_time_s is {}, expected seconds above 0", run.text("step_time_s"));
  if (step < shortest_step_s)
    return fmt::format("step_time_s is {}, below {}: no step is that short; seconds are meant", run.text("step_time_s"),
                       shortest_step_s);
  for (const auto& [column, most, hint] : most_likely) {
    if (run.number(column).value_or(0) > most)
      return fmt::format("{} is {}, above {}: {}", column, run.text(column), most, hint);
  }
  for (const char* column : {"mfu_percent", "hfu_percent"}) {
    const double share = run.number(column).value_or(0);
    if (share >= 100)
      return fmt::format("{} is {}: {} 100 % is impossible", column, run.text(column),
                         share > 100 ? "above" : "a full");
  }
  if (run.has("tp") && run.has("pp") && run.has("dp")) {
    const double ranks = *run.number("tp") * *run.number("pp") * run.number("cp").value_or(1) * *run.number("dp");
    if (ranks != *run.number("devices"))
      return fmt::format("tp x pp x cp x dp = {}, but devices says {}", ranks, run.text("devices"));
  }
  const auto rate = run.number("tokens_per_s_per_device");
  if (rate && *rate > 0 && run.has("global_batch") && run.has("sequence_length")) {
    const double derived =
        *run.number("global_batch") * *run.number("sequence_length") / (step * *run.number("devices"));
    // Published rates are rounded, and some count a step with other overheads; more than 15 % apart is another
    // quantity.
    if (std::abs(derived / *rate - 1) > 0.15) {
      return fmt::format(
          "global_batch x sequence_length / (step_time_s x devices) = {:.4g} tokens/s a device, but "
          "tokens_per_s_per_device says {}{}",
          derived, run.text("tokens_per_s_per_device"), unit_slip(derived / *rate));
    }
  }
  return {};
}

// The nearest column, or the one whose name begins the found one ("vocabulary").
std::string nearest_column(const std::string& found) {
  std::vector<std::string> known(other_columns.begin(), other_columns.end());
  for (const auto& [column, least] : number_columns) known.push_back(column);
  if (std::string near = suggestion(found, known); !near.empty()) return near;
  for (const std::string& column : known) {
    const bool begins = found.size() > 2 && (found.starts_with(column) || column.starts_with(found));
    if (begins && column.size() > 2) return "; did you mean '" + column + "'?";
  }
  return "";
}

}  // namespace

std::string MeasuredRun::text(std::string_view column) const {
  const auto found = cells.find(column);
  return found == cells.end() ? std::string{} : found->second;
}

bool MeasuredRun::has(std::string_view column) const { return cells.contains(column); }

std::optional<double> MeasuredRun::number(std::string_view column) const {
  const std::string t = text(column);
  return t.empty() ? std::nullopt : parse_number(t);
}

int MeasuredRun::integer(std::string_view column, int otherwise) const {
  const auto value = number(column);
  return value ? static_cast<int>(*value) : otherwise;
}

std::vector<std::string> RunsFile::ids() const {
  std::vector<std::string> all;
  for (const MeasuredRun& run : runs) all.push_back(run.id);
  for (const Refusal& refusal : refused) all.push_back(refusal.id);
  return all;
}

double MeasuredRun::step_time_s() const { return number("step_time_s").value_or(0); }

Result<RunsFile> parse_runs(std::string_view text, const std::string& file_name) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.find('\0') != std::string_view::npos)
    return make_error(ErrorCode::unreadable, "binary content, expected a CSV file", file_name);
  if (text.find('\r') != std::string_view::npos && text.find('\n') == std::string_view::npos)
    return make_error(ErrorCode::unreadable,
                      "lines end with a carriage return alone (classic Mac OS), expected line feeds, with a carriage "
                      "return before them or without",
                      file_name + ":1");
  const std::vector<CsvRow> rows = split_csv(text);
  if (rows.empty()) return make_error(ErrorCode::unreadable, "empty, expected a CSV file with a header", file_name);
  std::vector<std::string> header;
  for (const std::string& cell : rows.front().cells) header.push_back(trimmed(cell));
  Errors errors;
  for (const std::string& name : required) {
    if (std::find(header.begin(), header.end(), name) == header.end()) {
      errors.push_back(
          make_error(ErrorCode::invalid, fmt::format("the header has no column '{}'", name), file_name + ":1"));
    }
  }
  for (auto cell = header.begin(); cell != header.end(); ++cell) {
    if (!cell->empty() && std::find(header.begin(), cell, *cell) != cell) {
      errors.push_back(
          make_error(ErrorCode::invalid, fmt::format("the header has column '{}' twice", *cell), file_name + ":1"));
    }
  }
  if (!errors.empty()) {
    const char* separator = header.size() != 1                               ? nullptr
                            : header.front().find(';') != std::string::npos  ? "semicolons"
                            : header.front().find('\t') != std::string::npos ? "tabs"
                                                                             : nullptr;
    if (separator != nullptr)
      return make_error(ErrorCode::invalid, fmt::format("columns are separated by {}, expected commas", separator),
                        file_name + ":1");
    return errors;
  }

  RunsFile out;
  out.file = file_name;
  for (const std::string& name : header) {
    if (!number_columns.contains(name) && !other_columns.contains(name))
      out.warnings.push_back(fmt::format("column '{}' is not known and not read{}", name, nearest_column(name)));
  }
  std::set<std::string> seen;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const CsvRow& row = rows[i];
    MeasuredRun run;
    run.line = row.line;
    for (std::size_t c = 0; c < std::min(row.cells.size(), header.size()); ++c) {
      std::string value = trimmed(row.cells[c]);
      if (!value.empty()) run.cells[header[c]] = std::move(value);
    }
    run.id = run.text("id");
    const std::string name = run.id.empty() ? fmt::format("line {}", row.line) : run.id;
    std::string why;
    if (row.unclosed) {
      why = "a quote is never closed";
    } else if (row.cells.size() != header.size()) {
      why = fmt::format("{} fields where the header has {}", row.cells.size(), header.size());
    } else if (run.id.empty()) {
      why = "no id";
    } else if (!seen.insert(run.id).second) {
      why = "the id stands twice; the first row is used";
    } else {
      why = implausible(run);
    }
    if (why.empty()) {
      out.runs.push_back(std::move(run));
    } else {
      out.refused.push_back({name, row.line, why});
    }
  }
  return out;
}

Result<RunsFile> read_runs(const std::filesystem::path& file) {
  std::error_code code;
  if (std::filesystem::is_directory(file, code))
    return make_error(ErrorCode::unreadable, "is a directory, expected a CSV file", file.string());
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return make_error(ErrorCode::not_found, "cannot open the file", file.string());
  std::ostringstream content;
  content << stream.rdbuf();
  return parse_runs(content.str(), file.string());
}

}  // namespace stepcast::validation
