#include "validation/error_table.h"

#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/report/text_table.h"

namespace stepcast::validation {
namespace {

constexpr const char* csv_header =
    "id,family,device,kind,software,measured_s,predicted_s,error,low_s,high_s,predicted_peak_memory_gb,"
    "measured_peak_memory_gb";
constexpr std::size_t csv_fields = 12;
constexpr int family_from = 10;  // rows that a family needs for a line of its own

using Keep = std::function<bool(const RowResult&)>;

std::vector<double> errors_of(const std::vector<RowResult>& rows, const Keep& keep) {
  std::vector<double> errors;
  for (const RowResult& r : rows) {
    if (keep(r)) errors.push_back(r.error);
  }
  return errors;
}

double mean_abs(const std::vector<double>& errors) {
  double sum = 0;
  for (const double e : errors) sum += std::abs(e);
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}

std::string line(const std::string& name, const std::vector<double>& errors) {
  if (errors.empty()) return {};
  const ErrorStats s = error_stats(errors);
  return fmt::format("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} % | {:+.1f} % |\n", name, s.n, 100 * s.median_abs,
                     100 * s.p90_abs, 100 * mean_abs(errors), 100 * s.bias);
}

struct CsvRecord {
  std::vector<std::string> cells;
  int line = 0;  // where it begins, counted from 1
};

// Commas and line breaks between quotes belong to the cell; empty lines are left out.
std::vector<CsvRecord> records_of(const std::string& text) {
  std::vector<CsvRecord> records;
  CsvRecord record{{""}, 1};
  bool quoted = false;
  int line = 1;
  const auto end_record = [&] {
    if (record.cells.size() > 1 || !record.cells.front().empty()) records.push_back(std::move(record));
    record = {{""}, line};
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '"') {
      const bool literal = quoted && i + 1 < text.size() && text[i + 1] == '"';
      if (literal) {
        record.cells.back() += c;
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (quoted || (c != ',' && c != '\n' && c != '\r')) {
      record.cells.back() += c;
    } else if (c == ',') {
      record.cells.emplace_back();
    } else if (c == '\n') {
      end_record();
    }
  }
  end_record();
  return records;
}

}  // namespace

std::string forecasts_csv(const std::vector<RowResult>& rows) {
  std::string out = std::string(csv_header) + "\n";
  const auto number = [](double value) { return fmt::format("{:.6g}", value); };
  for (const RowResult& r : rows) {
    out +=
        scenarios::csv_line({r.id, r.family, r.device, r.kind, r.software, number(r.measured_s), number(r.predicted_s),
                             number(r.error), number(r.low_s), number(r.high_s), number(r.predicted_peak_memory_gb),
                             r.measured_peak_memory_gb > 0 ? number(r.measured_peak_memory_gb) : ""});
  }
  return out;
}

Result<std::vector<RowResult>> parse_forecasts(const std::string& text, const std::string& file_name) {
  std::vector<RowResult> rows;
  const std::vector<CsvRecord> records = records_of(text);
  if (records.empty() || fmt::format("{}", fmt::join(records.front().cells, ",")) != csv_header) {
    return make_error(ErrorCode::invalid, fmt::format("the header is not '{}'", csv_header), file_name + ":1");
  }
  for (std::size_t i = 1; i < records.size(); ++i) {
    const std::string where = fmt::format("{}:{}", file_name, records[i].line);
    const std::vector<std::string>& f = records[i].cells;
    if (f.size() != csv_fields) {
      return make_error(ErrorCode::invalid, fmt::format("{} fields; {} are expected", f.size(), csv_fields), where);
    }
    RowResult r;
    r.id = f[0];
    r.family = f[1];
    r.device = f[2];
    r.kind = f[3];
    r.software = f[4];
    const std::map<std::size_t, double*> numbers = {{5, &r.measured_s},
                                                    {6, &r.predicted_s},
                                                    {7, &r.error},
                                                    {8, &r.low_s},
                                                    {9, &r.high_s},
                                                    {10, &r.predicted_peak_memory_gb},
                                                    {11, &r.measured_peak_memory_gb}};
    for (const auto& [at, target] : numbers) {
      if (target == &r.measured_peak_memory_gb && f[at].empty()) continue;  // not measured
      char* end = nullptr;
      *target = std::strtod(f[at].c_str(), &end);
      if (f[at].empty() || *end != '\0' || !std::isfinite(*target)) {
        return make_error(ErrorCode::invalid, fmt::format("'{}' is no number", f[at]), where);
      }
    }
    rows.push_back(std::move(r));
  }
  return rows;
}

std::string error_table(const std::vector<RowResult>& rows, const std::set<std::string>& fitted) {
  std::string out = "| rows | n | median | p90 | mean | bias |\n|---|---|---|---|---|---|\n";
  const auto half = [&](const char* kind, bool first) {
    return errors_of(rows, [&](const RowResult& r) {
      return r.kind == kind && r.family != "vtrainS" && fitted.contains(r.id) == first;
    });
  };
  const auto family = [&](const std::string& name) {
    return errors_of(rows, [&](const RowResult& r) { return r.family == name; });
  };
  out += line("MoE, fitted half", half("moe", true));
  out += line("MoE, other half", half("moe", false));
  out += line("dense, fitted half, without vtrainS", half("dense", true));
  out += line("dense, other half, without vtrainS", half("dense", false));
  out += line("dense, all", errors_of(rows, [](const RowResult& r) { return r.kind == "dense"; }));
  out += line("vTrain, multi-node (its authors: mean 14.73 %)", family("vtrainM"));
  out += line("vTrain, single-node (its authors: mean 8.37 %)", family("vtrainS"));
  out += line("the eight times of arXiv 2205.05198 (Calculon, tuned: mean 3.65 %)", family("seqsel"));
  std::vector<double> memory;
  for (const RowResult& r : rows) {
    if (r.measured_peak_memory_gb > 0) memory.push_back(r.predicted_peak_memory_gb / r.measured_peak_memory_gb - 1);
  }
  out += line("peak memory", memory);
  std::map<std::string, std::vector<double>> families;
  for (const RowResult& r : rows) families[r.kind + " " + r.family].push_back(r.error);
  for (const auto& [name, errors] : families) {
    if (static_cast<int>(errors.size()) >= family_from) out += line(name, errors);
  }
  return out;
}

}  // namespace stepcast::validation
