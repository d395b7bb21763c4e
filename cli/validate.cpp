// stepcast validate: forecasts beside measured runs.
#include <fstream>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/render.h"
#include "cli/report_file.h"
#include "validation/validate.h"
#include "validation/validate_page.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  options.add_options()("only", po::value<std::string>()->value_name("FILE"), "ids to take, one a line")(
      "no-ranges", "skip the other values of fields that a row leaves open")("rows", "list every row in the table");
  add_report_option(options);
}

Result<std::vector<std::string>> read_ids(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) return make_error(ErrorCode::not_found, "cannot open the file", "--only " + file);
  std::vector<std::string> ids;
  for (std::string line; std::getline(stream, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') ids.push_back(line);
  }
  if (ids.empty()) return make_error(ErrorCode::invalid, "holds no id", "--only " + file);
  return ids;
}

std::string to_csv(const validation::Validation& v) {
  std::string out =
      "id,family,device,kind,software,measured_s,predicted_s,error,low_s,high_s,predicted_peak_memory_gb\n";
  for (const auto& r : v.rows) {
    out += fmt::format("{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n", r.id, r.family, r.device, r.kind,
                       r.software, r.measured_s, r.predicted_s, r.error, r.low_s, r.high_s, r.predicted_peak_memory_gb);
  }
  return out;
}

Result<Output> run(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  const auto files = arguments.list("runs");
  if (files.size() != 1) {
    return make_error(ErrorCode::usage, "one CSV file of measured runs is needed", "validate");
  }
  validation::ValidateOptions options;
  options.catalog_root = invocation.globals.catalog_root;
  options.ranges = !arguments.flag("no-ranges");
  options.threads = invocation.globals.threads;
  options.cancelled = interrupted;
  options.progress = [&](int done, int total) { invocation.progress.update("rows", done, total); };
  if (arguments.has("only")) {
    auto ids = read_ids(arguments.text("only"));
    if (!ids) return ids.errors();
    options.only = std::move(*ids);
  }
  const auto report = ReportFile::open(invocation);
  if (!report) return report.errors();
  const auto runs = validation::read_runs(files.front());
  if (!runs) return runs.errors();
  const auto result = validation::validate(*runs, options);
  for (const std::string& warning : runs->warnings) invocation.progress.note("warning: " + warning);
  if (result.rows.empty() && !result.interrupted) {
    const std::string why = result.refused.empty() ? "the file holds no row that was asked for"
                                                   : "every row is refused; the first: " + result.refused.front().why;
    return make_error(ErrorCode::invalid, why, files.front());
  }
  const auto page = [&]() -> Result<std::string> {
    return validation::validate_page(result, std::filesystem::path(files.front()).filename().string());
  };
  if (const auto written = report->write(page); !written) return written.errors();
  return Output{
      render(
          invocation.globals, [&] { return validation::to_json(result); },
          [&] { return validation::to_table(result, arguments.flag("rows")); }, [&] { return to_csv(result); }),
      result.interrupted};
}

}  // namespace

const Command validate_command = {"validate",
                                  "RUNS.csv [OPTIONS]",
                                  "Forecasts measured runs and reports the errors by family, device and software.",
                                  {"stepcast validate runs.csv --rows",
                                   "stepcast validate runs.csv --no-ranges --format json --output validation.json"},
                                  "runs",
                                  1,
                                  add_options,
                                  run};

}  // namespace stepcast::cli
