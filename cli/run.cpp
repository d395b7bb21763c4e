// stepcast run: a whole training run with failures, in days and money.
#include <algorithm>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/render.h"
#include "cli/scenario_options.h"
#include "scenarios/forecast.h"
#include "scenarios/reliability/run_forecast.h"
#include "scenarios/reliability/settings_of.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  add_scenario_options(options);
  const auto value = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("tokens", value("N"), "length of the run, over reliability.total_tokens (15T)")(
      "replicas", value("N"), "sampled runs (default 1000)")("step-time", value("S"),
                                                             "seconds a step as measured, over the forecast's")(
      "no-interval-check", "do not look for the best checkpoint interval by simulation")(
      "ignore-memory", "go on with a layout that does not fit, and say so");
}

// Share of the step in which a device runs a kernel, mean over ranks.
double busy_share(const scenarios::Forecast& forecast) {
  double busy = 0;
  for (const char* category :
       {"gemm", "grouped_gemm", "attention", "memory_bound", "permute", "quantise", "recompute", "optimizer"}) {
    const auto found = forecast.breakdown.find(category);
    if (found != forecast.breakdown.end()) busy += to_seconds(found->second.mean).value;
  }
  const double step = to_seconds(forecast.report.duration).value;
  return step > 0 ? std::min(1.0, busy / step) : 1;
}

struct Step {
  scenarios::RunStep step;
  std::vector<std::string> assumptions, warnings;
};

Result<Step> forecast_step(const Invocation& invocation, const scenarios::Scenario& scenario) {
  scenarios::ForecastOptions options;
  options.threads = invocation.globals.threads;
  options.ignore_memory = invocation.arguments.flag("ignore-memory");
  options.critical_path = false;
  options.progress = [&](int done, int total) { invocation.progress.update("sampled steps", done, total); };
  options.cancelled = interrupted;
  const auto forecast = scenarios::forecast(scenario, options);
  if (!forecast) return forecast.errors();
  return Step{{forecast->step_time.mean_s, forecast->tokens_per_step, busy_share(*forecast)},
              forecast->assumptions,
              forecast->warnings};
}

Result<Output> run(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  auto request = scenario_request(invocation);
  if (!request) return request.errors();
  if (const auto tokens = arguments.number("tokens", 1, 1e18)) {
    request->sets.push_back(fmt::format("reliability.total_tokens={}", *tokens));
  }
  scenarios::RunOptions options;
  options.replicas = static_cast<int>(arguments.integer("replicas", 1, 100000).value_or(options.replicas));
  options.check_interval = !arguments.flag("no-interval-check");
  const auto measured = arguments.number("step-time", 1e-6, 1e6);
  if (!arguments.errors().empty()) return arguments.errors();
  const auto scenario = scenarios::load_scenario(*request);
  if (!scenario) return scenario.errors();

  auto step = forecast_step(invocation, *scenario);
  if (!step) return step.errors();
  if (measured) {
    step->assumptions.push_back(
        fmt::format("step time as given ({:g} s), not as forecast ({:.4g} s)", *measured, step->step.step_s));
    step->step.step_s = *measured;
  }
  auto plan = scenarios::make_run_plan(scenario->spec, scenarios::reliability_of(scenario->resolved), step->step);
  auto result = scenarios::forecast_run(std::move(plan), options);
  if (!result) return result.errors();
  result->name = scenario->name;
  result->scenario = scenario->resolved;
  result->assumptions.insert(result->assumptions.end(), step->assumptions.begin(), step->assumptions.end());
  result->warnings.insert(result->warnings.end(), step->warnings.begin(), step->warnings.end());
  return Output{render(
      invocation.globals, [&] { return to_json(*result); },
      [&] { return to_table(*result, invocation.globals.colour); }, [&] { return to_csv(*result); })};
}

}  // namespace

const Command run_command = {
    "run",
    "[SCENARIO.json | LIBRARY_NAME | --model NAME --cluster NAME:N] [--tokens N]",
    "Forecasts a whole run with failures: days, goodput, lost time by cause, cost and energy.",
    {"stepcast run mixtral-8x7b-h100-8 --tokens 100B --set reliability.price_per_device_hour=2.5",
     "stepcast run goodput-worked-case --step-time 2 --format json"},
    scenario_positional,
    1,
    add_options,
    run};

}  // namespace stepcast::cli
