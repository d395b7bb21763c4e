// stepcast calibrate: fits few constants to a user's own runs and extrapolates with intervals.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/id_list.h"
#include "cli/interrupt.h"
#include "cli/output_file.h"
#include "cli/render.h"
#include "cli/report_file.h"
#include "cli/written_files.h"
#include "validation/calibrate/calibrate.h"
#include "validation/calibrate/calibrate_page.h"
#include "validation/calibrate/component_rows.h"
#include "validation/logs/megatron_log.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  const auto value = [](const char* name) { return po::value<std::string>()->value_name(name); };
  const auto many = [](const char* name) {
    return po::value<std::vector<std::string>>()->value_name(name)->composing();
  };
  options.add_options()("fit", many("FILE.csv"), "measured runs to fit; the same as naming the files, repeatable")(
      "predict", many("FILE.csv"), "runs to forecast with intervals; a measured time is compared, never fitted")(
      "only", value("FILE"), "ids of the rows to fit, one a line")("predict-only", value("FILE"),
                                                                   "ids of the rows to forecast, one a line")(
      "constants", value("FILE.json"), "table of constants to fit (default: validation/calibrate/constants.json)")(
      "profile-output", value("FILE.json"), "write the profile here, for --profile of other commands")(
      "profile-name", value("NAME"), "name in the profile (default: calibrated)")(
      "iterations", value("N"), "at most so many steps of each pass (default 10)")(
      "no-breaks", "skip the scaling breaks of forecast rows")(
      "nccl", many("FILE"), "output of nccl-tests on --device to fit too, repeatable")(
      "kernels", many("FILE.csv"), "measured kernels to fit too: device, time_us, and m, n, k, precision or bytes")(
      "megatron-log", many("FILE"), "training log to fit too, with its launch arguments in it; on --device")(
      "device", value("NAME"), "catalogue device of --nccl and --megatron-log")(
      "model", value("NAME"), "catalogue model of --megatron-log, where the arguments do not tell the shape")(
      "software", value("NAME"), "software profile of --megatron-log (default: generic)")(
      "collective", value("NAME"), "collective of --nccl, where neither the file nor its name tells it")(
      "nic-gb-per-s", value("RATE"), "NIC rate of a device in --nccl (default: the device's usual NIC)");
  add_report_option(options);
}

void append(validation::Observations& all, validation::Observations more) {
  std::move(more.rows.begin(), more.rows.end(), std::back_inserter(all.rows));
  std::move(more.refused.begin(), more.refused.end(), std::back_inserter(all.refused));
  std::move(more.warnings.begin(), more.warnings.end(), std::back_inserter(all.warnings));
}

// A file that is named twice would count twice.
Status refuse_repeated(const std::vector<std::string>& files) {
  for (auto file = files.begin(); file != files.end(); ++file) {
    const auto first = std::find_if(files.begin(), file, [&](const std::string& f) { return same_file(f, *file); });
    if (first == file) continue;
    return make_error(ErrorCode::usage,
                      *first == *file
                          ? "the file is given twice: its rows would count twice"
                          : fmt::format("is the file {}, which is given too: its rows would count twice", *first),
                      *file);
  }
  return Unit{};
}

// Rows of several files; ids may repeat between files, not within one.
Result<validation::Observations> read_rows(const std::vector<std::string>& files, const std::vector<std::string>& only,
                                           const Invocation& invocation, std::vector<std::string>& ids) {
  validation::Observations all;
  if (auto status = refuse_repeated(files); !status) return status.errors();
  for (const std::string& file : files) {
    const auto runs = validation::read_runs(file);
    if (!runs) return runs.errors();
    for (std::string& id : runs->ids()) ids.push_back(std::move(id));
    append(all, validation::observe_runs(*runs, invocation.globals.catalog_root, only, interrupted));
    for (const std::string& w : runs->warnings) all.warnings.push_back(file + ": " + w);
  }
  return all;
}

Result<validation::Observations> read_set(const std::vector<std::string>& files, const char* only_flag,
                                          const Invocation& invocation) {
  std::vector<std::string> only;
  if (invocation.arguments.has(only_flag)) {
    auto ids = read_ids(invocation.arguments.text(only_flag), only_flag);
    if (!ids) return ids.errors();
    only = std::move(*ids);
  }
  std::vector<std::string> ids;
  auto rows = read_rows(files, only, invocation, ids);
  if (!rows || only.empty() || interrupted()) return rows;
  auto unknown = unknown_ids(only, ids, invocation.arguments.text(only_flag), only_flag);
  if (!unknown) return unknown.errors();
  std::move(unknown->begin(), unknown->end(), std::back_inserter(rows->warnings));
  return rows;
}

Status add_nccl(const Invocation& invocation, validation::Observations& all) {
  Arguments& arguments = invocation.arguments;
  validation::NcclHints hints;
  if (arguments.has("collective")) {
    hints.kind = validation::collective_named(arguments.text("collective"));
    if (!hints.kind)
      return make_error(ErrorCode::usage, "is no collective of nccl-tests (all_reduce, all_gather, alltoall, ...)",
                        "--collective " + arguments.text("collective"));
  }
  const validation::NcclSite site{arguments.text("device"), arguments.number("nic-gb-per-s", 0.001, 1e4).value_or(0)};
  for (const std::string& file : arguments.list("nccl")) {
    const auto output = validation::read_nccl_tests(file, hints);
    if (!output) return output.errors();
    auto rows = validation::observe_nccl(*output, site, invocation.globals.catalog_root);
    if (!rows) return rows.errors();
    for (const std::string& w : output->warnings) rows->warnings.push_back(file + ": " + w);
    append(all, std::move(*rows));
  }
  return Unit{};
}

Status add_logs(const Invocation& invocation, validation::Observations& all) {
  std::map<std::string, std::string> stated;
  for (const char* key : {"device", "model", "software"}) {
    if (invocation.arguments.has(key)) stated[key] = invocation.arguments.text(key);
  }
  std::vector<std::map<std::string, std::string>> runs;
  for (const std::string& file : invocation.arguments.list("megatron-log")) {
    const auto log = validation::read_megatron_log(file);
    if (!log) return log.errors();
    auto run = validation::run_of_log(*log, std::filesystem::path(file).stem().string(), stated);
    if (!run) return run.errors();
    runs.push_back(std::move(*run));
    for (const std::string& w : log->warnings) all.warnings.push_back(file + ": " + w);
    for (const auto& d : log->damaged) all.refused.push_back({file, d.line, d.why});
  }
  if (runs.empty()) return Unit{};
  const auto parsed = validation::parse_runs(validation::runs_csv(runs), "training logs");
  if (!parsed) return parsed.errors();
  append(all, validation::observe_runs(*parsed, invocation.globals.catalog_root, {}, interrupted));
  return Unit{};
}

Status add_components(const Invocation& invocation, validation::Observations& all) {
  const bool needs_device = invocation.arguments.has("nccl") || invocation.arguments.has("megatron-log");
  if (needs_device && !invocation.arguments.has("device"))
    return make_error(ErrorCode::usage, "neither nccl-tests nor a log tells the device: give --device", "calibrate");
  if (auto status = add_nccl(invocation, all); !status) return status;
  if (auto status = add_logs(invocation, all); !status) return status;
  for (const std::string& file : invocation.arguments.list("kernels")) {
    auto rows = validation::observe_kernels(file, invocation.globals.catalog_root);
    if (!rows) return rows.errors();
    append(all, std::move(*rows));
  }
  return Unit{};
}

// The names of what was fitted.
std::string data_of(const Invocation& invocation) {
  std::string names;
  for (const char* option : {"runs", "fit", "megatron-log", "nccl", "kernels"}) {
    for (const std::string& file : invocation.arguments.list(option)) {
      names += (names.empty() ? "" : ", ") + std::filesystem::path(file).filename().string();
    }
  }
  return names;
}

Result<Output> run(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  std::vector<std::string> files = arguments.list("runs");
  for (const std::string& file : arguments.list("fit")) files.push_back(file);
  if (files.empty() && !arguments.has("nccl") && !arguments.has("kernels") && !arguments.has("megatron-log"))
    return make_error(ErrorCode::usage,
                      "something to fit is needed: a CSV file of measured runs, --megatron-log, --nccl "
                      "or --kernels",
                      "calibrate");
  validation::CalibrateOptions options;
  options.catalog_root = invocation.globals.catalog_root;
  options.constants = arguments.text("constants");
  options.max_iterations = static_cast<int>(arguments.integer("iterations", 1, 1000).value_or(10));
  options.breaks = !arguments.flag("no-breaks");
  if (arguments.has("profile-name")) options.name = arguments.text("profile-name");
  options.evaluator.threads = invocation.globals.threads;
  options.evaluator.cancelled = interrupted;
  options.evaluator.progress = [&](const char* what, int done, int total) {
    invocation.progress.update(what, done, total);
  };
  if (!arguments.errors().empty()) return arguments.errors();
  const auto report = ReportFile::open(invocation);
  if (!report) return report.errors();
  const auto profile_file = OutputFile::open(arguments.text("profile-output"));
  if (!profile_file) return profile_file.errors();
  for (const char* option : {"nccl", "kernels", "megatron-log", "predict"}) {
    if (auto status = refuse_repeated(arguments.list(option)); !status) return status.errors();
  }
  auto fitted = read_set(files, "only", invocation);
  if (!fitted) return fitted.errors();
  if (auto status = add_components(invocation, *fitted); !status) return status.errors();
  if (!arguments.errors().empty()) return arguments.errors();
  if (interrupted()) return make_error(ErrorCode::infeasible, "interrupted before anything was fitted", "calibrate");
  auto targets = read_set(arguments.list("predict"), "predict-only", invocation);
  if (!targets) return targets.errors();
  std::move(targets->warnings.begin(), targets->warnings.end(), std::back_inserter(fitted->warnings));

  auto result = validation::calibrate(std::move(*fitted), std::move(*targets), options);
  if (!result) return result.errors();
  for (const std::string& warning : result->warnings) invocation.progress.note("warning: " + warning);
  if (arguments.has("profile-output") && !result->interrupted) {
    const auto written = profile_file->write(json_text(result->profile));
    if (!written) return written.errors();
  }
  const auto page = [&]() -> Result<std::string> { return validation::calibrate_page(*result, data_of(invocation)); };
  if (const auto written = report->write(page); !written) return written.errors();
  return Output{render(
                    invocation.globals, [&] { return validation::to_json(*result); },
                    [&] { return validation::to_table(*result); }, [&] { return validation::to_csv(*result); }),
                result->interrupted};
}

}  // namespace

const Command calibrate_command = {
    "calibrate",
    "RUNS.csv [--predict LARGE.csv] [OPTIONS]",
    "Fits few constants to measured runs, with intervals, and forecasts larger ones.",
    {"stepcast calibrate runs.csv --profile-output site.json",
     "stepcast calibrate --fit runs.csv --predict runs.csv --format json --output calibration.json"},
    "runs",
    -1,
    add_options,
    run,
    false};

}  // namespace stepcast::cli
