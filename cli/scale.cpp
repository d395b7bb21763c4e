// stepcast scale: strong and weak scaling curves.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/layout_axes.h"
#include "cli/render.h"
#include "cli/report_file.h"
#include "cli/scenario_options.h"
#include "scenarios/html/pages.h"
#include "scenarios/scale.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

constexpr int most_devices = 1048576;

void add_options(po::options_description& options) {
  add_scenario_options(options);
  options.add_options()("kind", po::value<std::string>()->value_name("strong|weak"),
                        "batch fixed (default), or growing with the devices")(
      "devices", po::value<std::string>()->value_name("LIST"),
      "sizes, as in 64,128,512 (default: powers of two from --from to --to)")(
      "from", po::value<std::string>()->value_name("N"), "first size (default 8)")(
      "to", po::value<std::string>()->value_name("N"), "last size (default: the scenario's devices)")(
      "baseline", po::value<std::string>()->value_name("N"),
      "size that speed-up and efficiency refer to (default: the smallest that can run)")(
      "layout", po::value<std::string>()->value_name("data-parallel|replan"),
      "more replicas of the scenario's layout (default), or the best layout of every size, as plan finds it with the "
      "scenario's recompute and dispatcher; the options from --tp to --headroom restrict it");
  add_layout_axes(options);
  add_report_option(options);
}

std::string page_title(const scenarios::ScenarioRequest& request) {
  const std::string name =
      request.file.empty() ? request.model + " on " + request.cluster : request.file.stem().string();
  return name + ", scaling";
}

Result<Output> run(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  auto request = scenario_request(invocation);
  if (!request) return request.errors();
  scenarios::ScaleOptions options;
  if (const auto kind = arguments.choice("kind", {"strong", "weak"}))
    options.kind = static_cast<scenarios::ScalingKind>(*kind);
  if (const auto rule = arguments.choice("layout", {"data-parallel", "replan"}))
    options.layout = static_cast<scenarios::LayoutRule>(*rule);
  if (options.layout == scenarios::LayoutRule::replan) {
    options.space = read_layout_axes(arguments);
    options.headroom = read_headroom(arguments);
  } else {
    refuse_layout_axes(arguments, "belongs to --layout replan");
  }
  options.baseline_devices = static_cast<int>(arguments.integer("baseline", 1, most_devices).value_or(0));
  options.devices = arguments.integers("devices", most_devices);
  const auto from = arguments.integer("from", 1, most_devices);
  const auto to = arguments.integer("to", 1, most_devices);
  for (const char* bound : {"from", "to"}) {
    if (!options.devices.empty() && arguments.has(bound))
      arguments.fail(bound, "not beside --devices, which names all sizes");
  }
  if (!arguments.errors().empty()) return arguments.errors();
  if (options.devices.empty()) {
    scenarios::ScenarioRequest free_request = *request;
    free_request.check_layout = false;
    const auto scenario = scenarios::load_scenario(free_request);
    if (!scenario) return scenario.errors();
    const int last = static_cast<int>(to.value_or(scenario->spec.cluster.devices));
    options.devices = scenarios::powers_of_two(static_cast<int>(from.value_or(std::min(8, last))), last);
  }
  if (options.devices.empty() || options.devices.front() < 1)
    return make_error(ErrorCode::usage, "no size to forecast: sizes are 1 and above, --from at most --to", "--devices");
  if (options.baseline_devices > 0 &&
      std::find(options.devices.begin(), options.devices.end(), options.baseline_devices) == options.devices.end()) {
    return make_error(
        ErrorCode::usage,
        fmt::format("{} is not among the sizes {}", options.baseline_devices, fmt::join(options.devices, ", ")),
        "--baseline");
  }
  const auto report = ReportFile::open(invocation);
  if (!report) return report.errors();
  options.forecast.threads = invocation.globals.threads;
  options.forecast.critical_path = false;
  options.forecast.cancelled = interrupted;
  options.progress = [&](const std::string& what, long long done, long long total) {
    invocation.progress.update(what, done, total);
  };
  const auto curve = scenarios::scale(*request, options);
  if (!curve) return curve.errors();
  const auto page = [&]() -> Result<std::string> { return scenarios::html::scale_page(*curve, page_title(*request)); };
  if (const auto written = report->write(page); !written) return written.errors();
  return Output{render(
                    invocation.globals, [&] { return to_json(*curve); }, [&] { return to_table(*curve); },
                    [&] { return to_csv(*curve); }),
                curve->interrupted};
}

}  // namespace

const Command scale_command = {"scale",
                               "[SCENARIO.json | LIBRARY_NAME | --model NAME --cluster NAME:N] [OPTIONS]",
                               "Strong and weak scaling curves, with the breaks named.",
                               {"stepcast scale mixtral-8x7b-h100-8 --kind weak --devices 8,16",
                                "stepcast scale olmoe-1b-7b-h100-8 --to 16 --layout replan --tp 1 --micro-batch 1"},
                               scenario_positional,
                               1,
                               add_options,
                               run};

}  // namespace stepcast::cli
