// stepcast import: other tools' files in stepcast's terms. A new kind is one line of the table `kinds`.
#include <algorithm>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/import_logs.h"
#include "cli/import_profile.h"
#include "cli/render.h"
#include "cli/subcommand.h"
#include "models/catalog.h"
#include "scenarios/megatron/import.h"
#include "scenarios/overrides.h"
#include "scenarios/report/text_table.h"
#include "scenarios/scenario.h"
#include "sim/base/json_reader.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

constexpr std::size_t longest_script = std::size_t{1} << 20;

Result<scenarios::megatron::ImportOptions> megatron_options(const Invocation& invocation) {
  scenarios::megatron::ImportOptions options;
  options.cluster = invocation.arguments.text("cluster");
  options.model = invocation.arguments.text("model");
  options.catalog_root = invocation.globals.catalog_root;
  for (const std::string& define : invocation.arguments.list("define")) {
    const auto equals = define.find('=');
    if (equals == std::string::npos || equals == 0) {
      return make_error(ErrorCode::usage, fmt::format("found '{}'; NAME=VALUE is expected", define), "--define");
    }
    options.defines[define.substr(0, equals)] = define.substr(equals + 1);
  }
  return options;
}

// The scenario must load; its faults are told at the argument that brought the value.
Status check_scenario(const Invocation& invocation, const scenarios::megatron::MegatronImport& imported) {
  scenarios::ScenarioRequest request;
  request.text = imported.scenario.dump();
  request.text_name = "imported scenario";
  request.catalog_root = invocation.globals.catalog_root;
  const auto scenario = scenarios::load_scenario(request);
  if (scenario) return Unit{};
  Errors errors = scenario.errors();
  for (Error& error : errors) {
    const std::string pointer = scenarios::pointer_in(error.where);
    for (const auto& [key, where] : imported.origins) {
      if (key == pointer) error.where = where;
    }
  }
  return errors;
}

Result<Output> import_megatron(const Invocation& invocation, const std::vector<std::string>& files) {
  const auto options = megatron_options(invocation);
  if (!options) return options.errors();
  const auto text = read_text_file(files.front(), longest_script);
  if (!text) return text.errors();
  auto imported = scenarios::megatron::import_megatron(*text, files.front(), *options);
  if (!imported) return imported.errors();
  std::vector<scenarios::Override> overrides;
  for (const std::string& set : invocation.globals.sets) {
    if (auto status = scenarios::apply_set(set, imported->scenario, overrides); !status) return status.errors();
  }
  if (auto status = check_scenario(invocation, *imported); !status) return status.errors();
  for (const std::string& line : notes(*imported)) invocation.progress.note("stepcast: " + line);
  return Output{render(
      invocation.globals, [&] { return to_json(*imported); }, [&] { return json_text(imported->scenario); },
      [&] { return to_csv(*imported); })};
}

std::string flat_csv(const nlohmann::ordered_json& json) {
  std::string text = scenarios::csv_line({"key", "value"});
  const auto flat = json.flatten();
  for (const auto& [key, value] : flat.items())
    text += scenarios::csv_line({key, value.is_string() ? value.get<std::string>() : value.dump()});
  return text;
}

Result<Output> import_hf(const Invocation& invocation, const std::vector<std::string>& files) {
  const auto model = models::import_hf_config(files.front());
  if (!model) return model.errors();
  const auto file = models::model_to_json(*model);
  for (const std::string& line : model->assumptions) invocation.progress.note("stepcast: assumed: " + line);
  return Output{render(
      invocation.globals, [&] { return file; }, [&] { return json_text(file); }, [&] { return flat_csv(file); })};
}

const std::vector<Subcommand>& kinds() {
  static const std::vector<Subcommand> all = {
      {"megatron",
       "FILE [--cluster NAME:N]",
       "a launch line, script or YAML of Megatron-LM: a scenario",
       1,
       1,
       {"cluster", "model", "define"},
       import_megatron},
      {"hf",
       "config.json",
       "a Hugging Face configuration: a model file, which model and --model take",
       1,
       1,
       {},
       import_hf},
      {"kineto",
       "TRACE.json[.gz]...",
       "PyTorch profiler traces, one a rank: a profile in a forecast's parts",
       1,
       -1,
       {"group"},
       import_kineto},
      {"topo", "FILE", "nvidia-smi topo -m or NCCL topology XML: a box, asymmetries told", 1, 1, {}, import_topo},
      {"megatron-log",
       "FILE... --device NAME [OPTIONS]",
       "training logs: measured runs for validate and calibrate (--format csv)",
       1,
       -1,
       {"model", "device", "devices", "software", "arguments"},
       import_megatron_log},
      {"nccl",
       "FILE... [--collective NAME] [--ranks N]",
       "outputs of nccl-tests: a table of sizes, times and rates",
       1,
       -1,
       {"collective", "ranks"},
       import_nccl}};
  return all;
}

// Options of any kind; an entry of the table names those that it takes.
constexpr std::array<std::string_view, 10> own_options = {"cluster", "model",    "define",    "group",      "device",
                                                          "devices", "software", "arguments", "collective", "ranks"};

void add_options(po::options_description& options) {
  const auto value = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("cluster", value("NAME:N"), "megatron: hardware of the run, which its arguments do not name")(
      "model", value("NAME"),
      "megatron: catalogue model to take where several have the arguments' shape; megatron-log: of the run")(
      "define", po::value<std::vector<std::string>>()->composing()->value_name("NAME=VALUE"),
      "megatron: value of a variable of the script; repeatable")(
      "group", po::value<std::vector<std::string>>()->composing()->value_name("NAME=KIND"),
      "kineto: what a process group is (tp, cp, ep, pp, dp); repeatable")("device", value("NAME"),
                                                                          "megatron-log: catalogue device of the run")(
      "devices", value("N"), "megatron-log: devices of the run, where the log does not tell")(
      "software", value("NAME"), "megatron-log: software profile of the run")(
      "arguments", value("FILE"), "megatron-log: launch arguments, where the log does not hold them")(
      "collective", value("NAME"), "nccl: collective, where neither file nor name tells it")(
      "ranks", value("N"), "nccl: count of ranks, where the header is cut");
}

Result<Output> run(const Invocation& invocation) {
  const std::vector<std::string> words = invocation.arguments.list(subcommand_positional);
  if (!invocation.arguments.list("set").empty() && !words.empty() && words.front() != "megatron") {
    return make_error(ErrorCode::usage, fmt::format("'{}' makes no scenario: it has no key to override", words.front()),
                      "--set");
  }
  return run_subcommand(invocation, kinds(), own_options);
}

}  // namespace

const Command import_command = {
    "import",
    "megatron | hf | megatron-log | kineto | topo | nccl FILE... [OPTIONS]",
    "Reads other tools' files: Megatron-LM arguments and logs, models, profiles, topologies, nccl-tests.",
    {"stepcast import megatron run.sh --cluster h100:64 --output scenario.json",
     "stepcast import megatron args.yaml --cluster h100:64 --define PP=8 --format json"},
    subcommand_positional,
    -1,
    add_options,
    run,
    true,
    false};

}  // namespace stepcast::cli
