// stepcast merge: joins the shards of a sweep into what one run would have written.
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/render.h"
#include "cli/sweep_report.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  const auto value = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("results", value("PREFIX"),
                        "join PREFIX.shard-*-of-N.jsonl into PREFIX.jsonl and PREFIX.csv (default: the sweep's name)")(
      "shards", value("N"), "which N, where files of several are there");
}

Result<Output> run(const Invocation& invocation) {
  const auto sweep = load_named_sweep(invocation);
  if (!sweep) return sweep.errors();
  const auto shards = invocation.arguments.integer("shards", 1, scenarios::most_shards);
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  const auto files = result_files(invocation, *sweep);
  if (!files) return files.errors();
  auto merged = scenarios::merge_shards(*sweep, *files, static_cast<int>(shards.value_or(0)));
  if (!merged) return merged.errors();
  scenarios::SweepSummary summary;
  summary.points = sweep->points;
  summary.resumed = sweep->points;
  summary.counts = std::move(merged->counts);
  summary.lines = merged->lines;
  summary.table = merged->table;
  const scenarios::Shard whole;
  Output output{render(
      invocation.globals, [&] { return sweep_json(*sweep, whole, summary); },
      [&] { return sweep_table(*sweep, whole, summary); }, [&] { return sweep_csv(*sweep, summary); })};
  output.failed = summary.counts.done == 0 || !summary.counts.nowhere.empty();
  return output;
}

}  // namespace

const Command merge_command = {
    "merge",
    "SWEEP.json | LIBRARY_NAME [OPTIONS]",
    "Joins the shards of a sweep, byte for byte what one run would have written.",
    {"stepcast merge olmoe-layouts", "stepcast merge olmoe-layouts --shards 1 --format json"},
    sweep_positional,
    1,
    add_options,
    run,
    false,
    false};

}  // namespace stepcast::cli
