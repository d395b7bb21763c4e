#include "cli/sweep_report.h"

#include <fmt/format.h>

#include "cli/version.h"

namespace stepcast::cli {
namespace {

using Json = nlohmann::ordered_json;
using scenarios::ResultCounts;

Json counts_json(const ResultCounts& counts) {
  Json failed = Json::object();
  for (const auto& [kind, n] : counts.failed) failed[kind] = n;
  return {{"points", counts.points}, {"done", counts.done}, {"failed", failed}};
}

std::string values_text(const Json& record) {
  std::string text;
  for (const auto& [key, value] : record["values"].items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : "  ", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace

Result<scenarios::Sweep> load_named_sweep(const Invocation& invocation) {
  const auto named = invocation.arguments.list(sweep_positional);
  if (named.empty()) {
    return make_error(ErrorCode::usage, "a sweep is needed: a file, or a name of scenarios/sweeps", "command line");
  }
  scenarios::SweepRequest request;
  request.file = named.front();
  request.sets = invocation.globals.sets;
  request.catalog_root = invocation.globals.catalog_root;
  request.version = fmt::format("{} {}", version, git_description);
  return scenarios::load_sweep(request);
}

scenarios::ResultFiles result_files(const Invocation& invocation, const scenarios::Sweep& sweep) {
  const std::string prefix = invocation.arguments.text("results");
  return {prefix.empty() ? std::filesystem::path(sweep.name) : std::filesystem::path(prefix)};
}

Json sweep_json(const scenarios::Sweep& sweep, const scenarios::Shard& shard, const scenarios::SweepSummary& summary) {
  Json json;
  json["schema"] = "stepcast.sweep/1";
  json["name"] = sweep.name;
  json["digest"] = sweep.digest;
  json["points_of_all_shards"] = sweep.points;
  json["shard"] = {{"index", shard.index}, {"count", shard.count}, {"origin", shard.origin}};
  json["points"] = summary.points;
  json["resumed"] = summary.resumed;
  json["run"] = summary.run;
  json["interrupted"] = summary.interrupted;
  json["results"] = counts_json(summary.counts);
  json["in_no_forecast"] = summary.counts.nowhere;
  json["best"] = summary.counts.best;
  json["lines"] = summary.lines;
  if (!summary.table.empty()) json["table"] = summary.table;
  return json;
}

std::string sweep_table(const scenarios::Sweep& sweep, const scenarios::Shard& shard,
                        const scenarios::SweepSummary& summary) {
  const ResultCounts& counts = summary.counts;
  std::string text = fmt::format("{}: {} points", sweep.name, sweep.points);
  if (!shard.whole()) {
    text += fmt::format(", {} of them in shard {} of {}", summary.points, shard.index, shard.count);
    if (!shard.origin.empty()) text += fmt::format(" ({})", shard.origin);
  }
  text += fmt::format("\n  {} run now, {} were there before, {} are left\n", summary.run, summary.resumed,
                      summary.points - summary.run - summary.resumed);
  text += fmt::format("  {} forecast", counts.done);
  for (const auto& [kind, n] : counts.failed) text += fmt::format(", {} {}", n, kind);
  text += "\n";
  if (!counts.best.empty()) text += "\nMost tokens a second\n     point   tokens/s     step\n";
  for (const Json& record : counts.best) {
    text += fmt::format("  {:>8}  {:>9.4g}  {:>6.4g} s   {}\n", record["point"].get<std::int64_t>(),
                        record["tokens_per_s"].get<double>(), record.value("step_time_s", 0.0), values_text(record));
  }
  for (const std::string& path : counts.nowhere) {
    text += fmt::format("\nno forecast has the result '{}'; paths are those of simulate --format json\n", path);
  }
  text += fmt::format("\nlines {}\n", summary.lines);
  if (!summary.table.empty()) text += fmt::format("table {}\n", summary.table);
  return text;
}

std::string sweep_csv(const scenarios::Sweep& sweep, const scenarios::SweepSummary& summary) {
  std::string csv = "point";
  for (const std::string& key : sweep.keys()) csv += "," + key;
  csv += ",step_time_s,tokens_per_s\n";
  for (const Json& record : summary.counts.best) {
    csv += record["point"].dump();
    for (const std::string& key : sweep.keys()) {
      const std::string text = record["values"].value(key, Json()).dump();
      csv += text.find(',') == std::string::npos ? "," + text : ",\"" + text + "\"";
    }
    csv += fmt::format(",{},{}\n", record.value("step_time_s", 0.0), record["tokens_per_s"].get<double>());
  }
  return csv;
}

}  // namespace stepcast::cli
