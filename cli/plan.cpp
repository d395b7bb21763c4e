// stepcast plan: searches parallel layouts.
#include <optional>
#include <string>

#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/layout_axes.h"
#include "cli/output_file.h"
#include "cli/render.h"
#include "cli/report_file.h"
#include "cli/scenario_options.h"
#include "scenarios/html/pages.h"
#include "scenarios/plan/plan.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

constexpr int most_devices = 1048576;
constexpr int largest_batch = 1 << 28;  // as a scenario's

void add_options(po::options_description& options) {
  add_scenario_options(options);
  const auto list = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("devices", list("LIST"), "device counts to compare (default: the scenario's)")(
      "global-batch", list("LIST"),
      "sequences a step (default: the scenario's), or free: its quarter, half, double and fourfold too");
  add_layout_axes(options);
  options.add_options()(
      "recompute", list("LIST"),
      "of none, full, scenario, selective, selective:MODULE+MODULE (default: none, the scenario's, selective, full)")(
      "dispatcher", list("LIST"),
      "of allgather, alltoall, deepep, hybridep (default: alltoall, deepep, the scenario's)")(
      "overlap", list("LIST"), "of profile, all, none (default: profile)")("top", list("N"),
                                                                           "layouts in the ranking (default 10)")(
      "price", list("AMOUNT"), "of a device and hour: adds the cost of a million tokens")(
      "no-fronts", "leave out the front of throughput against free memory")("write", list("FILE"),
                                                                            "writes the best layout as a scenario")(
      "megatron", list("FILE"), "writes the best layout as arguments of Megatron-LM");
  add_report_option(options);
}

scenarios::plan::PlanOptions read_options(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  scenarios::plan::PlanOptions options;
  auto& space = options.space;
  space = read_layout_axes(arguments);
  space.devices = read_counts(arguments, "devices", most_devices);
  space.free_batch = arguments.text("global-batch") == "free";
  if (!space.free_batch) space.global_batch = read_counts(arguments, "global-batch", largest_batch);
  space.recompute = read_names(arguments, "recompute");
  space.dispatcher = read_names(arguments, "dispatcher");
  space.overlap = read_names(arguments, "overlap");
  options.headroom = read_headroom(arguments);
  options.top = static_cast<int>(arguments.integer("top", 1, 1000).value_or(10));
  options.price_per_device_hour = arguments.number("price", 0, 1e6).value_or(0);
  options.fronts = !arguments.flag("no-fronts");
  options.threads = invocation.globals.threads;
  return options;
}

// Opened before the search, so that a file that cannot be written costs nothing. Nothing when it is not asked for.
Result<std::optional<OutputFile>> output_of(const Invocation& invocation, const char* option) {
  if (!invocation.arguments.has(option)) return std::optional<OutputFile>();
  auto opened = OutputFile::open(invocation.arguments.text(option));
  if (!opened) return opened.errors();
  return std::optional<OutputFile>(*opened);
}

Result<Output> run(const Invocation& invocation) {
  auto request = scenario_request(invocation);
  if (!request) return request.errors();
  scenarios::plan::PlanOptions options = read_options(invocation);
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  options.cancelled = interrupted;
  options.progress = [&](const char* what, long long done, long long total) {
    invocation.progress.update(what, done, total);
  };
  const auto winner = output_of(invocation, "write");
  if (!winner) return winner.errors();
  const auto arguments = output_of(invocation, "megatron");
  if (!arguments) return arguments.errors();
  const auto report = ReportFile::open(invocation);
  if (!report) return report.errors();
  const auto result = scenarios::plan::plan(*request, options);
  if (!result) return result.errors();
  const bool won = !result->layouts.empty();
  if (!won && (*winner || *arguments || report->wanted()))
    invocation.progress.note("stepcast: no layout was simulated: only the counts are written");
  if (*winner && won) {
    if (Status written = (*winner)->write(json_text(result->winner)); !written) return written.errors();
  }
  if (*arguments && won) {
    const std::string text = scenarios::megatron::to_text(result->winner_arguments);
    if (Status written = (*arguments)->write(text); !written) return written.errors();
  }
  const auto page = [&]() -> Result<std::string> { return scenarios::html::plan_page(*result); };
  if (const auto written = won ? report->write(page) : Status(Unit{}); !written) return written.errors();
  return Output{render(
                    invocation.globals, [&] { return to_json(*result); },
                    [&] { return to_table(*result, invocation.globals.colour); }, [&] { return to_csv(*result); }),
                result->interrupted};
}

}  // namespace

const Command plan_command = {
    "plan",
    "[SCENARIO.json | LIBRARY_NAME | --model NAME --cluster NAME:N] [OPTIONS]",
    "Searches layouts: the fastest that fit, why they win, what was refused.",
    {"stepcast plan olmoe-1b-7b-h100-8 --set workload.global_batch=32 --tp 1,2 --micro-batch 1 --sharding zero1",
     "stepcast plan mixtral-8x7b-h100-8 --set workload.global_batch=32 --pp 1,2 --schedule 1f1b --micro-batch 1 "
     "--headroom 0.1 --price 2.5 --format json"},
    scenario_positional,
    1,
    add_options,
    run};

}  // namespace stepcast::cli
