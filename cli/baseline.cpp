// stepcast baseline: keeps a scorecard in version control, and tells what has moved since.
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/render.h"
#include "cli/scenario_options.h"
#include "cli/version.h"
#include "scenarios/baseline.h"
#include "scenarios/forecast.h"
#include "scenarios/report/report.h"
#include "sim/base/json_reader.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;
using scenarios::Baseline;

constexpr const char* positional = "words";

void add_options(po::options_description& options) {
  options.add_options()("tolerance", po::value<std::vector<std::string>>()->composing()->value_name("[NAME=]X"),
                        "allowed change as a fraction (default 0.01); of a value or a group, as in breakdown=0.05")(
      "value", po::value<std::vector<std::string>>()->composing()->value_name("NAME=X"),
      "a measured value, as in step_time_s.mean=17.3; repeatable")("name", po::value<std::string>()->value_name("TEXT"),
                                                                   "name of the baseline");
}

void note_environment(Baseline& baseline) {
  baseline.versions["stepcast"] = fmt::format("{} ({})", version, git_description);
  utsname system{};
  if (::uname(&system) == 0) {
    baseline.environment["system"] = fmt::format("{} {}", system.sysname, system.release);
    baseline.environment["machine"] = system.machine;
  }
  baseline.environment["compiler"] = __VERSION__;
}

// "NAME=X"; nothing, with an error, if it is not that.
std::optional<std::pair<std::string, double>> name_and_number(Arguments& arguments, const char* option,
                                                              const std::string& text, bool name_needed) {
  const auto equals = text.rfind('=');
  const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
  const auto number = parse_number(equals == std::string::npos ? text : text.substr(equals + 1));
  if (!number || (name_needed && name.empty())) {
    arguments.fail(option, fmt::format("found '{}', {} with a finite number is needed", text,
                                       name_needed ? "NAME=X" : "X or NAME=X"));
    return {};
  }
  return std::pair(name, *number);
}

void read_tolerances(Arguments& arguments, Baseline& baseline) {
  for (const std::string& text : arguments.list("tolerance")) {
    const auto pair = name_and_number(arguments, "tolerance", text, false);
    if (!pair) continue;
    if (pair->second < 0) {
      arguments.fail("tolerance", fmt::format("found '{}', 0 or more is allowed", text));
    } else if (pair->first.empty()) {
      baseline.tolerance = pair->second;
    } else {
      baseline.tolerances[pair->first] = pair->second;
    }
  }
}

Result<Baseline> forecast_of(const Invocation& invocation, const scenarios::ScenarioRequest& request) {
  const auto scenario = scenarios::load_scenario(request);
  if (!scenario) return scenario.errors();
  scenarios::ForecastOptions options;
  options.threads = invocation.globals.threads;
  options.ignore_memory = true;
  options.progress = [&](int done, int total) { invocation.progress.update("sampled steps", done, total); };
  options.cancelled = interrupted;
  const auto forecast = scenarios::forecast(*scenario, options);
  if (!forecast) return forecast.errors();
  if (forecast->interrupted)
    return make_error(ErrorCode::infeasible, "interrupted: a baseline needs all sampled steps");
  return scenarios::baseline_of(JsonDocument{to_json(*forecast), scenario->name, nullptr});
}

// A result file, a scenario that is then forecast, or measured values alone.
Result<Baseline> current(const Invocation& invocation, const std::string& source) {
  Baseline baseline;
  baseline.kind = "measured";
  if (!source.empty()) {
    std::error_code ignored;
    const bool file = std::filesystem::is_regular_file(source, ignored);
    const auto document = file ? read_json_file(source) : Result<JsonDocument>(JsonDocument{});
    if (!document) return document.errors();
    if (file && scenarios::is_result(*document)) {
      auto read = scenarios::baseline_of(*document);
      if (!read) return read.errors();
      baseline = std::move(*read);
    } else {
      scenarios::ScenarioRequest request;
      request.file = source;
      request.sets = invocation.globals.sets;
      request.catalog_root = invocation.globals.catalog_root;
      auto forecast = forecast_of(invocation, request);
      if (!forecast) return forecast.errors();
      baseline = std::move(*forecast);
    }
  }
  for (const std::string& text : invocation.arguments.list("value")) {
    if (const auto pair = name_and_number(invocation.arguments, "value", text, true)) {
      baseline.values[pair->first] = pair->second;
    }
  }
  note_environment(baseline);
  return baseline;
}

Result<Output> record(const Invocation& invocation, const std::string& source) {
  auto baseline = current(invocation, source);
  if (!baseline) return baseline.errors();
  read_tolerances(invocation.arguments, *baseline);
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  if (const std::string name = invocation.arguments.text("name"); !name.empty()) baseline->name = name;
  if (baseline->values.empty()) {
    return make_error(ErrorCode::usage, "a result, a scenario or --value NAME=X is needed", "baseline record");
  }
  return Output{scenarios::baseline_text(*baseline)};
}

Result<Output> check(const Invocation& invocation, const std::string& file, const std::string& source) {
  const auto document = read_json_file(file);
  if (!document) return document.errors();
  auto recorded = scenarios::read_baseline(*document);
  if (!recorded) return recorded.errors();
  read_tolerances(invocation.arguments, *recorded);
  const bool again = source.empty() && !invocation.arguments.has("value");
  if (again && recorded->kind != "forecast") {
    return make_error(ErrorCode::usage,
                      fmt::format("a baseline of kind '{}' needs a result or --value NAME=X beside it", recorded->kind),
                      "baseline check");
  }
  scenarios::ScenarioRequest request;
  request.text = recorded->scenario.dump();
  request.text_name = file + " /scenario";
  request.sets = invocation.globals.sets;
  request.catalog_root = invocation.globals.catalog_root;
  auto now = again ? forecast_of(invocation, request) : current(invocation, source);
  if (!now) return now.errors();
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  note_environment(*now);
  const auto result = scenarios::check_baseline(*recorded, *now);
  return Output{render(
                    invocation.globals, [&] { return to_json(result); },
                    [&] { return to_table(result, invocation.globals.colour); }, [&] { return to_csv(result); }),
                false, !result.passed()};
}

Result<Output> run(const Invocation& invocation) {
  const auto words = invocation.arguments.list(positional);
  const std::string verb = words.empty() ? "" : words[0];
  const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string(); };
  if (verb == "record" && words.size() <= 2) return record(invocation, word(1));
  if (verb == "check" && words.size() >= 2) return check(invocation, word(1), word(2));
  return make_error(ErrorCode::usage,
                    "needed is 'record RESULT.json' (or a scenario), or 'check BASELINE.json [RESULT.json]'",
                    "baseline");
}

}  // namespace

const Command baseline_command = {"baseline",
                                  "record RESULT.json | check BASELINE.json [RESULT.json]",
                                  "Keeps a scorecard as a file for version control; check exits 1 with what moved.",
                                  {"stepcast baseline record a.json --tolerance breakdown=0.02 --output base.json",
                                   "stepcast baseline check base.json a.json --tolerance 0.02"},
                                  positional,
                                  3,
                                  add_options,
                                  run};

}  // namespace stepcast::cli
