// stepcast compare: two results of simulate side by side.
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/import_profile.h"
#include "cli/render.h"
#include "cli/report_file.h"
#include "scenarios/compare.h"
#include "scenarios/html/pages.h"
#include "scenarios/profile/profile_compare.h"

namespace stepcast::cli {
namespace {

void add_options(boost::program_options::options_description& options) { add_report_option(options); }

Result<Output> run(const Invocation& invocation) {
  const auto files = invocation.arguments.list("results");
  if (files.size() != 2) {
    return make_error(ErrorCode::usage, "two results are needed: the files that stepcast simulate --format json wrote");
  }
  const auto report = ReportFile::open(invocation);
  if (!report) return report.errors();
  // A profile goes beside a forecast, in either order.
  const auto a = read_json_file(files[0]), b = read_json_file(files[1]);
  if (a && b && scenarios::is_profile(*a)) return compare_with_profile(invocation, *b, *a);
  if (a && b && scenarios::is_profile(*b)) return compare_with_profile(invocation, *a, *b);
  std::vector<scenarios::RunSummary> runs;
  Errors errors;
  for (const std::string& file : files) {
    const auto document = read_json_file(file);
    auto run = document ? scenarios::read_run(*document) : Result<scenarios::RunSummary>(document.errors());
    if (run) {
      runs.push_back(std::move(*run));
    } else {
      errors.insert(errors.end(), run.errors().begin(), run.errors().end());
    }
  }
  if (!errors.empty()) return errors;
  const auto comparison = scenarios::compare(std::move(runs[0]), std::move(runs[1]));
  const auto page = [&]() -> Result<std::string> { return scenarios::html::compare_page(comparison); };
  if (const auto written = report->write(page); !written) return written.errors();
  return Output{render(
      invocation.globals, [&] { return to_json(comparison); },
      [&] { return to_table(comparison, invocation.globals.colour); }, [&] { return to_csv(comparison); })};
}

}  // namespace

const Command compare_command = {
    "compare",
    "A.json B.json",
    "Sets two results side by side: what moved, and whether it is a scaling result.",
    {"stepcast compare a.json b.json", "stepcast compare a.json b.json --format json --output moved.json"},
    "results",
    2,
    add_options,
    run,
    false,
    false};

}  // namespace stepcast::cli
