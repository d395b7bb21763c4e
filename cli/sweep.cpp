// stepcast sweep: any scenario keys over lists and ranges, on one machine or as shards on many.
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <boost/program_options/value_semantic.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/render.h"
#include "cli/sweep_report.h"
#include "scenarios/sweep/sweep_run.h"

namespace stepcast::cli {
namespace {

namespace po = boost::program_options;

void add_options(po::options_description& options) {
  const auto value = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("results", value("PREFIX"),
                        "write PREFIX.jsonl and PREFIX.csv (default: the sweep's name in this folder)")(
      "shard", value("I/N|auto"),
      "run every N-th point from the I-th (from 0) into PREFIX.shard-I-of-N.jsonl; auto asks the scheduler")(
      "shards", value("N"), "with --shard auto: the number of shards, where the scheduler does not tell it")(
      "restart", "leave finished points aside and begin again");
}

Result<scenarios::Shard> read_shard(Arguments& arguments) {
  const auto count = arguments.integer("shards", 1, scenarios::most_shards);
  if (!arguments.errors().empty()) return arguments.errors();
  const std::string text = arguments.text("shard");
  if (count && text != "auto") return make_error(ErrorCode::usage, "belongs to --shard auto", "--shards");
  if (text.empty()) return scenarios::Shard{};
  if (text != "auto") return scenarios::parse_shard(text);
  const scenarios::Environment environment = [](const std::string& name) -> std::optional<std::string> {
    const char* found = std::getenv(name.c_str());
    return found == nullptr ? std::nullopt : std::optional<std::string>(found);
  };
  return scenarios::detect_shard(environment, static_cast<int>(count.value_or(0)));
}

Result<Output> run(const Invocation& invocation) {
  auto sweep = load_named_sweep(invocation);
  if (!sweep) return sweep.errors();
  const auto shard = read_shard(invocation.arguments);
  if (!shard) return shard.errors();
  scenarios::SweepOptions options;
  const auto files = result_files(invocation, *sweep);
  if (!files) return files.errors();
  options.shard = *shard;
  options.files = *files;
  options.threads = invocation.globals.threads;
  options.restart = invocation.arguments.flag("restart");
  options.cancelled = interrupted;
  options.progress = [&](std::int64_t done, std::int64_t total, std::int64_t before) {
    invocation.progress.update(before > 0 ? fmt::format("points ({} were done before)", before) : "points", done,
                               total);
  };
  const auto summary = scenarios::run_sweep(*sweep, options);
  if (!summary) return summary.errors();
  Output output{render(
      invocation.globals, [&] { return sweep_json(*sweep, *shard, *summary); },
      [&] { return sweep_table(*sweep, *shard, *summary); }, [&] { return sweep_csv(*sweep, *summary); })};
  output.interrupted = summary->interrupted;
  // A result that a shard's own points lack may stand in those of another: only the whole sweep can tell.
  const bool misnamed = shard->whole() && !summary->counts.nowhere.empty();
  output.failed = !summary->interrupted && summary->points > 0 && (summary->counts.done == 0 || misnamed);
  return output;
}

}  // namespace

const Command sweep_command = {"sweep",
                               "SWEEP.json | LIBRARY_NAME [OPTIONS]",
                               "Any scenario keys over lists and ranges; resumes, and splits over machines.",
                               {"stepcast sweep olmoe-layouts", "stepcast sweep olmoe-layouts --shard 0/1 --quiet"},
                               sweep_positional,
                               1,
                               add_options,
                               run};

}  // namespace stepcast::cli
