// stepcast headroom: what each ideal would give.
#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/render.h"
#include "cli/report_file.h"
#include "cli/scenario_options.h"
#include "scenarios/headroom.h"
#include "scenarios/html/pages.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  add_scenario_options(options);
  options.add_options()("steps", po::value<std::string>()->value_name("N"), "sampled steps, over workload.steps");
  add_report_option(options);
}

Result<Output> run(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  auto request = scenario_request(invocation);
  if (!request) return request.errors();
  if (const auto steps = arguments.integer("steps", 1, 1000000)) {
    request->sets.push_back(fmt::format("workload.steps={}", *steps));
  }
  if (!arguments.errors().empty()) return arguments.errors();
  const auto report = ReportFile::open(invocation);
  if (!report) return report.errors();
  const auto scenario = scenarios::load_scenario(*request);
  if (!scenario) return scenario.errors();
  scenarios::ForecastOptions options;
  options.threads = invocation.globals.threads;
  options.cancelled = interrupted;
  options.progress = [&](int done, int total) { invocation.progress.update("ideals", done, total); };
  const auto headroom = scenarios::headroom(*scenario, options);
  if (!headroom) return headroom.errors();
  const auto page = [&]() -> Result<std::string> { return scenarios::html::headroom_page(*headroom); };
  if (const auto written = report->write(page); !written) return written.errors();
  return Output{render(
                    invocation.globals, [&] { return to_json(*headroom); }, [&] { return to_table(*headroom); },
                    [&] { return to_csv(*headroom); }),
                headroom->interrupted};
}

}  // namespace

const Command headroom_command = {
    "headroom",
    "[SCENARIO.json | LIBRARY_NAME | --model NAME --cluster NAME:N] [OPTIONS]",
    "What each ideal would give: balanced routing, free communication, no bubble, no host, no stragglers ...",
    {"stepcast headroom olmoe-1b-7b-h100-8 --steps 1", "stepcast headroom mixtral-8x7b-h100-8 --steps 1 --format json"},
    scenario_positional,
    1,
    add_options,
    run};

}  // namespace stepcast::cli
