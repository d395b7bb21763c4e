// stepcast export: a scenario in other tools' formats. A new format is one line of the table `kinds`.
#include <cstdint>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/render.h"
#include "cli/replayed_step.h"
#include "cli/scenario_options.h"
#include "cli/subcommand.h"
#include "scenarios/megatron/export.h"
#include "scenarios/report/text_table.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

Result<Output> export_megatron(const Invocation& invocation, const std::vector<std::string>& files) {
  const auto scenario = read_scenario(invocation, files);
  if (!scenario) return scenario.errors();
  const auto exported = scenarios::megatron::export_megatron(*scenario, invocation.globals.catalog_root);
  return Output{render(
      invocation.globals, [&] { return to_json(exported); }, [&] { return to_text(exported); },
      [&] { return to_csv(exported); })};
}

Result<Output> export_scenario(const Invocation& invocation, const std::vector<std::string>& files) {
  const auto scenario = read_scenario(invocation, files);
  if (!scenario) return scenario.errors();
  const auto csv = [&] {
    std::string text = scenarios::csv_line({"key", "value", "origin"});
    for (const auto& [key, origin] : scenario->origins) {
      const auto& value = scenario->resolved.at(nlohmann::ordered_json::json_pointer(key));
      text += scenarios::csv_line({key, value.is_string() ? value.get<std::string>() : value.dump(), origin});
    }
    return text;
  };
  return Output{render(
      invocation.globals, [&] { return scenario->resolved; }, [&] { return json_text(scenario->resolved); }, csv)};
}

// The sampled step that explain's DAG shows.
constexpr std::uint64_t exported_step = 1;

Result<Output> export_chakra(const Invocation& invocation, const std::vector<std::string>& files) {
  const Globals& globals = invocation.globals;
  if (globals.output.empty()) {
    return make_error(ErrorCode::usage, "PREFIX is needed: the files are PREFIX.RANK.et and PREFIX.groups.json",
                      "--output");
  }
  const auto scenario = read_scenario(invocation, files);
  if (!scenario) return scenario.errors();
  const auto& spec = scenario->spec;
  const auto ranks = invocation.arguments.integers("ranks", spec.cluster.devices - 1);
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  const auto replayed = ReplayedStep::record(*scenario, exported_step, ranks);
  if (!replayed) return replayed.errors();
  const auto traces = replayed->chakra_traces(
      fmt::format("{} on {} {}", spec.model.name, spec.cluster.devices, spec.cluster.device.name));
  invocation.progress.note(fmt::format("execution traces of {} rank(s): {:.1f} MB, to {}.RANK.et",
                                       replayed->timeline().ranks.size(), static_cast<double>(traces.bytes()) / 1e6,
                                       globals.output.string()));
  const auto exported = traces.write(globals.output);
  if (!exported) return exported.errors();
  Output output{render(
      globals, [&] { return to_json(*exported); }, [&] { return to_table(*exported, globals.colour); },
      [&] { return to_csv(*exported); })};
  output.written = true;
  return output;
}

const std::vector<Subcommand>& kinds() {
  static const std::vector<Subcommand> all = {{"megatron",
                                               "SCENARIO | --model NAME --cluster NAME:N",
                                               "arguments of Megatron-LM's pretraining script",
                                               0,
                                               1,
                                               {"model", "cluster", "profile"},
                                               export_megatron},
                                              {"scenario",
                                               "SCENARIO | --model NAME --cluster NAME:N",
                                               "the complete scenario, every default written out",
                                               0,
                                               1,
                                               {"model", "cluster", "profile"},
                                               export_scenario},
                                              {"chakra",
                                               "SCENARIO [--ranks LIST] --output PREFIX",
                                               "execution traces of ranks for ASTRA-sim: PREFIX.RANK.et",
                                               0,
                                               1,
                                               {"model", "cluster", "profile", "ranks"},
                                               export_chakra}};
  return all;
}

constexpr std::array<std::string_view, 4> own_options = {"model", "cluster", "profile", "ranks"};

void add_options(po::options_description& options) {
  add_scenario_options(options);
  options.add_options()("ranks", po::value<std::string>()->value_name("LIST"),
                        "chakra: ranks to write, as in 0,16,32-39 (default: the first of each stage)");
}

Result<Output> run(const Invocation& invocation) { return run_subcommand(invocation, kinds(), own_options); }

}  // namespace

const Command export_command = {
    "export",
    "megatron|chakra|scenario SCENARIO [OPTIONS]",
    "Writes a scenario in full or for other tools: Megatron-LM arguments, Chakra execution traces.",
    {"stepcast export megatron olmoe-1b-7b-h100-8 --set parallelism.ep=4 --format json",
     "stepcast export chakra olmoe-1b-7b-h100-8 --ranks 0-3 --output olmoe"},
    subcommand_positional,
    -1,
    add_options,
    run,
    true,
    false};

}  // namespace stepcast::cli
