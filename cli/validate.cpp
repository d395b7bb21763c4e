// stepcast validate: forecasts beside measured runs.
#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/fit_report.h"
#include "cli/id_list.h"
#include "cli/interrupt.h"
#include "cli/render.h"
#include "cli/report_file.h"
#include "sim/base/json_reader.h"
#include "validation/calibrate/protocol.h"
#include "validation/error_table.h"
#include "validation/validate.h"
#include "validation/validate_page.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  options.add_options()("only", po::value<std::string>()->value_name("FILE"), "ids to take, one a line")(
      "no-ranges", "skip the other values of fields that a row leaves open")(
      "profile", po::value<std::string>()->value_name("FILE.json"), "calibration profile for every row")(
      "components", "instead: the kernel and collective costs against component tables, cross-validated")(
      "protocol", "instead: the scoring protocol: halves, sources, models and devices left out of a fit in turn")(
      "constants", po::value<std::string>()->value_name("FILE.json"), "with --protocol: table of constants to fit")(
      "rows", "list every row in the table")(
      "error-table", po::value<std::string>()->value_name("FILE"),
      "the table of the README in Markdown; FILE: ids that constants were fitted to");
  add_report_option(options);
}

Result<Output> run_protocol(const Invocation& invocation, const validation::RunsFile& runs,
                            const std::vector<std::string>& only) {
  if (invocation.globals.format == Format::csv)
    return make_error(ErrorCode::usage, "--protocol gives table or json", "--format csv");
  validation::CalibrateOptions options;
  options.catalog_root = invocation.globals.catalog_root;
  options.constants = invocation.arguments.text("constants");
  options.evaluator.threads = invocation.globals.threads;
  options.evaluator.cancelled = interrupted;
  options.evaluator.progress = [&](const char* what, int done, int total) {
    invocation.progress.update(what, done, total);
  };
  const auto rows = validation::observe_runs(runs, options.catalog_root, only, interrupted);
  if (interrupted()) return make_error(ErrorCode::infeasible, "interrupted before anything was fitted", "validate");
  const auto protocol = validation::run_protocol(rows, options);
  if (!protocol) return protocol.errors();
  return Output{render(
                    invocation.globals, [&] { return validation::to_json(*protocol); },
                    [&] { return validation::to_table(*protocol); }, [] { return std::string(); }),
                protocol->interrupted};
}

Result<Output> run(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  for (const char* instead : {"components", "protocol"}) {
    if (arguments.flag(instead) && !invocation.globals.sets.empty())
      return make_error(ErrorCode::usage, fmt::format("--{} reads no scenario: it has no key to override", instead),
                        "--set");
  }
  if (arguments.flag("components")) return fit_report(invocation, validation::Refit::yes);
  const auto files = arguments.list("runs");
  if (files.size() != 1) {
    return make_error(ErrorCode::usage, "one CSV file of measured runs is needed", "validate");
  }
  validation::ValidateOptions options;
  options.catalog_root = invocation.globals.catalog_root;
  options.ranges = !arguments.flag("no-ranges");
  options.threads = invocation.globals.threads;
  options.sets = invocation.globals.sets;
  options.cancelled = interrupted;
  options.progress = [&](int done, int total) { invocation.progress.update("rows", done, total); };
  if (arguments.has("only")) {
    auto ids = read_ids(arguments.text("only"), "only");
    if (!ids) return ids.errors();
    options.only = std::move(*ids);
  }
  if (arguments.has("profile")) {
    auto profile = read_json_file(arguments.text("profile"));
    if (!profile) return profile.errors();
    options.calibration = std::move(profile->root);
  }
  const auto report = ReportFile::open(invocation);
  if (!report) return report.errors();
  auto runs = validation::read_runs(files.front());
  if (!runs) return runs.errors();
  if (!options.only.empty()) {
    const auto unknown = unknown_ids(options.only, runs->ids(), arguments.text("only"), "only");
    if (!unknown) return unknown.errors();
    runs->warnings.insert(runs->warnings.end(), unknown->begin(), unknown->end());
  }
  for (const std::string& warning : runs->warnings) invocation.progress.note("warning: " + warning);
  if (arguments.flag("protocol")) return run_protocol(invocation, *runs, options.only);
  const auto result = validation::validate(*runs, options);
  if (result.rows.empty() && !result.interrupted) {
    if (result.refused.empty())
      return make_error(ErrorCode::invalid, "the file holds no row that was asked for", files.front());
    const validation::Refusal& first = result.refused.front();
    return make_error(ErrorCode::invalid, "every row is refused; the first: " + first.why,
                      first.line > 0 ? fmt::format("{}:{}", files.front(), first.line) : files.front());
  }
  if (arguments.has("error-table")) {
    const auto fitted = read_ids(arguments.text("error-table"), "error-table");
    if (!fitted) return fitted.errors();
    return Output{validation::error_table(result.rows, {fitted->begin(), fitted->end()}), result.interrupted};
  }
  const auto page = [&]() -> Result<std::string> {
    return validation::validate_page(result, std::filesystem::path(files.front()).filename().string());
  };
  if (const auto written = report->write(page); !written) return written.errors();
  return Output{render(
                    invocation.globals, [&] { return validation::to_json(result); },
                    [&] { return validation::to_table(result, arguments.flag("rows")); },
                    [&] { return validation::forecasts_csv(result.rows); }),
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
