#include "cli/sweep_report.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/version.h"
#include "cli/written_files.h"

namespace stepcast::cli {
namespace {

namespace fs = std::filesystem;
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

// Endings are put behind a prefix: what is there under its very name takes none.
Status check_prefix(const std::string& prefix) {
  if (prefix.empty()) return Unit{};
  std::error_code ignored;
  const auto status = fs::status(prefix, ignored);
  const bool folder = fs::is_directory(status) || prefix.back() == '/';
  if (!folder && (!fs::exists(status) || fs::is_regular_file(status))) return Unit{};
  return make_error(ErrorCode::usage,
                    folder ? fmt::format("is a folder; the beginning of a file's name is needed, as in {}",
                                         (fs::path(prefix) / "NAME").string())
                           : "is a device; the beginning of a file's name is needed, to which .jsonl and .csv are put",
                    "--results " + prefix);
}

// PREFIX.jsonl, PREFIX.csv or a shard's PREFIX.shard-I-of-N.jsonl.
bool is_result_file(const scenarios::ResultFiles& files, const fs::path& file) {
  if (same_file(file, files.lines()) || same_file(file, files.table())) return true;
  const std::string name = file.filename().string();
  const fs::path folder = file.parent_path().empty() ? "." : file.parent_path();
  const fs::path own = files.prefix.parent_path().empty() ? "." : files.prefix.parent_path();
  return name.starts_with(files.prefix.filename().string() + ".shard-") && name.ends_with(".jsonl") &&
         same_file(folder, own);
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

Result<scenarios::ResultFiles> result_files(const Invocation& invocation, const scenarios::Sweep& sweep) {
  const std::string prefix = invocation.arguments.text("results");
  scenarios::ResultFiles files{prefix.empty() ? fs::path(sweep.name) : fs::path(prefix)};
  if (auto status = check_prefix(prefix); !status) return status.errors();
  const fs::path& output = invocation.globals.output;
  if (!output.empty() && is_result_file(files, output))
    return make_error(ErrorCode::usage,
                      fmt::format("{} is a file of the results that begin with {}: name another", output.string(),
                                  files.prefix.string()),
                      "--output");
  for (const fs::path& input : {fs::path(invocation.arguments.list(sweep_positional).front()), sweep.base.file}) {
    std::error_code ignored;
    if (!input.empty() && fs::is_regular_file(input, ignored) && is_result_file(files, input))
      return make_error(
          ErrorCode::usage,
          fmt::format("the results would overwrite {}, which is read: choose another prefix", input.string()),
          "--results " + files.prefix.string());
    if (!output.empty() && !input.empty() && fs::is_regular_file(input, ignored) && same_file(output, input))
      return make_error(
          ErrorCode::usage,
          fmt::format("{} would overwrite {}, which is read: name another file", output.string(), input.string()),
          "--output");
  }
  return files;
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
    text += fmt::format("\nno forecast{} has the result '{}'; paths are those of simulate --format json\n",
                        shard.whole() ? "" : " of this shard", path);
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
