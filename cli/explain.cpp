// stepcast explain: what a scenario resolves to and why.
#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/fit_report.h"
#include "cli/render.h"
#include "cli/replayed_step.h"
#include "cli/scenario_options.h"
#include "scenarios/explain.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  add_scenario_options(options);
  const auto value = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("ranks", value("LIST"),
                        "ranks of the rank map and the DAG, as in 0,16,32-39 (default: the first of each stage)")(
      "layer", value("N"), "layer whose kernels are listed (default: the first MoE layer)")(
      "dag", value("FILE"), "write the op DAG of the ranks with the critical path marked (.dot or .json)")(
      "fits", "instead: errors of the kernel and collective constants against component measurements")(
      "refit", "with --fits: fit the constants anew and cross-validate them");
}

Status write_dag_file(const scenarios::Scenario& scenario, const std::string& file, const std::vector<int>& ranks) {
  const auto replayed = ReplayedStep::record(scenario, 1, ranks);
  if (!replayed) return replayed.errors();
  return replayed->write_dag(file);
}

Result<Output> run(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  if (arguments.flag("fits") || arguments.flag("refit")) {
    return fit_report(invocation, arguments.flag("refit") ? validation::Refit::yes : validation::Refit::no);
  }
  scenarios::ExplainOptions options;
  options.layer = static_cast<int>(arguments.integer("layer", 0, 100000).value_or(-1));
  const auto scenario = read_scenario(invocation);
  if (!scenario) return scenario.errors();
  options.ranks = arguments.integers("ranks", scenario->spec.cluster.devices - 1);
  if (!arguments.errors().empty()) return arguments.errors();
  const auto explanation = scenarios::explain(*scenario, options);
  if (!explanation) return explanation.errors();
  if (arguments.has("dag") && explanation->faults.empty()) {
    if (const auto written = write_dag_file(*scenario, arguments.text("dag"), options.ranks); !written) {
      return written.errors();
    }
  }
  Output output{render(
      invocation.globals, [&] { return to_json(*explanation); },
      [&] { return to_table(*explanation, invocation.globals.colour); }, [&] { return to_csv(*explanation); })};
  output.failed = !explanation->faults.empty();
  return output;
}

}  // namespace

const Command explain_command = {
    "explain",
    "[SCENARIO.json | LIBRARY_NAME | --model NAME --cluster NAME:N] [OPTIONS]",
    "Shows what a scenario resolves to: keys and their origin, constants, ranks, stages, kernels.",
    {"stepcast explain mixtral-8x7b-h100-8",
     "stepcast explain mixtral-8x7b-h100-8 --ranks 0-7 --layer 3 --format json"},
    scenario_positional,
    1,
    add_options,
    run,
    true,
    false};

}  // namespace stepcast::cli
