// stepcast simulate: forecasts one training step.
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/render.h"
#include "cli/replayed_step.h"
#include "cli/report_file.h"
#include "cli/scenario_options.h"
#include "scenarios/forecast.h"
#include "scenarios/headroom.h"
#include "scenarios/html/pages.h"
#include "scenarios/report/report.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  add_scenario_options(options);
  options.add_options()("steps", po::value<std::string>()->value_name("N"), "sampled steps, over workload.steps")(
      "ignore-memory", "forecast a layout that does not fit, and say so")(
      "trace", po::value<std::string>()->value_name("FILE"), "Perfetto trace of the median step (.json or .json.gz)")(
      "trace-ranks", po::value<std::string>()->value_name("LIST"),
      "ranks of the trace, as in 0,16,32-39 (default: the first rank of each stage)");
  options.add_options()("headroom",
                        "simulate the scenario again with one thing ideal at a time, as the command headroom does");
  add_report_option(options);
}

// A trace of the sampled step that the report shows.
Status write_trace_file(const Invocation& invocation, const scenarios::Forecast& forecast) {
  const auto ranks = invocation.arguments.integers("trace-ranks", forecast.engine.devices - 1);
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  auto replayed = ReplayedStep::record(forecast.scenario, forecast.report.step, ranks);
  if (!replayed) return replayed.errors();
  const std::string file = invocation.arguments.text("trace");
  invocation.progress.note(fmt::format("trace of {} rank(s): about {:.1f} MB before compression, to {}",
                                       replayed->timeline().ranks.size(),
                                       static_cast<double>(replayed->trace_bytes()) / 1e6, file));
  return replayed->write_trace(file);
}

using Ideals = std::optional<scenarios::Headroom>;

// Nothing unless it is asked for and the forecast is whole.
Result<Ideals> ideals_of(const Invocation& invocation, const scenarios::Forecast& forecast,
                         scenarios::ForecastOptions options) {
  if (!invocation.arguments.flag("headroom") || forecast.interrupted) return Ideals();
  options.progress = [&](int done, int total) { invocation.progress.update("ideals", done, total); };
  auto ideals = scenarios::headroom(forecast.scenario, options);
  if (!ideals) return ideals.errors();
  return Ideals(std::move(*ideals));
}

nlohmann::ordered_json json_of(const scenarios::Forecast& forecast, const Ideals& ideals) {
  nlohmann::ordered_json json = to_json(forecast);
  if (ideals) json["headroom"] = to_json(*ideals);
  return json;
}

std::string table_of(const scenarios::Forecast& forecast, const Ideals& ideals, bool colour) {
  std::string text = to_table(forecast, colour);
  if (ideals) text += "\nHeadroom\n" + to_table(*ideals);
  return text;
}

Result<Output> run(const Invocation& invocation) {
  const Globals& globals = invocation.globals;
  Arguments& arguments = invocation.arguments;
  auto request = scenario_request(invocation);
  if (!request) return request.errors();
  if (const auto steps = arguments.integer("steps", 1, 1000000)) {
    request->sets.push_back(fmt::format("workload.steps={}", *steps));
  }
  if (arguments.has("trace-ranks") && !arguments.has("trace"))
    arguments.fail("trace-ranks", "needs --trace FILE beside it");
  if (arguments.flag("headroom") && globals.format == Format::csv) {
    arguments.fail("headroom", "a CSV file holds one table: use the command headroom, or --format json");
  }
  if (!arguments.errors().empty()) return arguments.errors();
  const auto report = ReportFile::open(invocation);
  if (!report) return report.errors();
  const auto scenario = scenarios::load_scenario(*request);
  if (!scenario) return scenario.errors();

  scenarios::ForecastOptions options;
  options.threads = globals.threads;
  options.ignore_memory = arguments.flag("ignore-memory");
  options.progress = [&](int done, int total) { invocation.progress.update("sampled steps", done, total); };
  options.cancelled = interrupted;
  options.advice_catalog = request->catalog_root;
  const auto forecast = scenarios::forecast(*scenario, options);
  if (!forecast) return forecast.errors();
  if (arguments.has("trace") && !forecast->interrupted) {
    if (const auto written = write_trace_file(invocation, *forecast); !written) return written.errors();
  }
  const auto ideals = ideals_of(invocation, *forecast, options);
  if (!ideals) return ideals.errors();
  const auto page = [&] { return scenarios::html::simulate_page(*forecast, *ideals ? &**ideals : nullptr); };
  if (const auto written = report->write(page); !written) {
    return written.errors();
  }
  return Output{render(
                    globals, [&] { return json_of(*forecast, *ideals); },
                    [&] { return table_of(*forecast, *ideals, globals.colour); }, [&] { return to_csv(*forecast); }),
                forecast->interrupted || (*ideals && (*ideals)->interrupted)};
}

}  // namespace

const Command simulate_command = {
    "simulate",
    "[SCENARIO.json | LIBRARY_NAME | --model NAME --cluster NAME:N] [OPTIONS]",
    "Forecasts one training step: time, throughput, MFU, where the time goes, memory.",
    {"stepcast simulate mixtral-8x7b-h100-8",
     "stepcast simulate --model mixtral-8x7b --cluster h100:64 --set parallelism.pp=4 --set parallelism.ep=8 "
     "--set workload.sequence_length=4096 --set workload.global_batch=256 --format json"},
    scenario_positional,
    1,
    add_options,
    run};

}  // namespace stepcast::cli
