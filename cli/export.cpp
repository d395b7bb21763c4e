// stepcast export: a scenario in other tools' formats. A new format is one line of the table `kinds`.
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/render.h"
#include "cli/scenario_options.h"
#include "cli/subcommand.h"
#include "scenarios/megatron/export.h"

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

const std::vector<Subcommand>& kinds() {
  static const std::vector<Subcommand> all = {{"megatron",
                                               "SCENARIO | --model NAME --cluster NAME:N",
                                               "arguments of Megatron-LM's pretraining script",
                                               0,
                                               1,
                                               {"model", "cluster"},
                                               export_megatron}};
  return all;
}

constexpr std::array<std::string_view, 2> own_options = {"model", "cluster"};

void add_options(po::options_description& options) { add_scenario_options(options); }

Result<Output> run(const Invocation& invocation) { return run_subcommand(invocation, kinds(), own_options); }

}  // namespace

const Command export_command = {"export",
                                "megatron SCENARIO [OPTIONS]",
                                "Writes a scenario for other tools: Megatron-LM arguments.",
                                {"stepcast export megatron mixtral-8x22b-h100-128",
                                 "stepcast export megatron olmoe-1b-7b-h100-8 --set parallelism.ep=4 --format json"},
                                subcommand_positional,
                                -1,
                                add_options,
                                run};

}  // namespace stepcast::cli
