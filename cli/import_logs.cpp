#include "cli/import_logs.h"

#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/render.h"
#include "scenarios/report/text_table.h"
#include "sim/base/json_reader.h"
#include "validation/logs/log_lines.h"
#include "validation/logs/megatron_log.h"
#include "validation/logs/nccl_tests.h"

namespace stepcast::cli {
namespace {

using Json = nlohmann::ordered_json;
using scenarios::csv_number;
using scenarios::TextTable;
using Run = std::map<std::string, std::string>;

constexpr std::size_t longest_arguments = std::size_t{4} << 20;

void note(const Invocation& invocation, const std::string& file, const std::vector<validation::DamagedLine>& damaged,
          const std::vector<std::string>& warnings) {
  for (const auto& d : damaged)
    invocation.progress.note(fmt::format("stepcast: {}:{}: refused: {}", file, d.line, d.why));
  for (const std::string& w : warnings) invocation.progress.note(fmt::format("stepcast: {}: warning: {}", file, w));
}

Json json_of(const std::vector<validation::DamagedLine>& damaged) {
  Json out = Json::array();
  for (const auto& d : damaged) out.push_back({{"line", d.line}, {"why", d.why}});
  return out;
}

Json json_of(const std::optional<validation::NcclSide>& side) {
  if (!side) return nullptr;
  return {
      {"time_us", side->time_s * 1e6}, {"algbw_gb_per_s", side->algbw / 1e9}, {"busbw_gb_per_s", side->busbw / 1e9}};
}

Json json_of(const validation::NcclOutput& o) {
  Json rows = Json::array();
  for (const auto& r : o.rows) {
    rows.push_back({{"line", r.line},
                    {"bytes", r.bytes},
                    {"type", r.type},
                    {"redop", r.redop},
                    {"out_of_place", json_of(r.out_of_place)},
                    {"in_place", json_of(r.in_place)}});
  }
  return {{"file", o.file},
          {"collective", topology::name(o.kind)},
          {"collective_from", o.kind_from},
          {"ranks", o.ranks},
          {"nodes", o.nodes},
          {"device", o.device},
          {"rows", rows},
          {"refused", json_of(o.damaged)},
          {"warnings", o.warnings}};
}

std::string nccl_table(const std::vector<validation::NcclOutput>& outputs) {
  std::string text;
  for (const auto& o : outputs) {
    text += fmt::format("{}: {} over {} ranks{}{} (collective from {})\n", o.file, topology::name(o.kind), o.ranks,
                        o.nodes > 0 ? fmt::format(" on {} nodes", o.nodes) : "",
                        o.device.empty() ? "" : " of " + o.device, o.kind_from);
    TextTable table({"bytes", "time us", "algbw GB/s", "busbw GB/s", "in place us", "busbw GB/s"});
    for (const auto& r : o.rows) {
      const auto cell = [](const auto& side, double value) { return side ? fmt::format("{:.4g}", value) : "-"; };
      const validation::NcclSide a = r.out_of_place.value_or(validation::NcclSide{});
      const validation::NcclSide b = r.in_place.value_or(validation::NcclSide{});
      table.row({fmt::format("{:.0f}", r.bytes), cell(r.out_of_place, a.time_s * 1e6),
                 cell(r.out_of_place, a.algbw / 1e9), cell(r.out_of_place, a.busbw / 1e9),
                 cell(r.in_place, b.time_s * 1e6), cell(r.in_place, b.busbw / 1e9)});
    }
    text += table.text() + "\n";
  }
  return text;
}

std::string nccl_csv(const std::vector<validation::NcclOutput>& outputs) {
  std::string text =
      scenarios::csv_line({"device", "nodes", "gpus", "op", "bytes", "time_us", "algbw_GBs", "busbw_GBs", "source"});
  for (const auto& o : outputs) {
    for (const auto& r : o.rows) {
      const validation::NcclSide side = r.out_of_place ? *r.out_of_place : *r.in_place;
      text +=
          scenarios::csv_line({o.device, o.nodes > 0 ? std::to_string(o.nodes) : "", std::to_string(o.ranks),
                               std::string(topology::name(o.kind)), csv_number(r.bytes), csv_number(side.time_s * 1e6),
                               csv_number(side.algbw / 1e9), csv_number(side.busbw / 1e9), o.file});
    }
  }
  return text;
}

// Cells that the command line states, and the arguments of a file beside the logs.
Result<Run> stated_cells(const Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  Run stated;
  if (arguments.has("arguments")) {
    const auto text = read_text_file(arguments.text("arguments"), longest_arguments);
    if (!text) return text.errors();
    validation::MegatronArguments launch;
    for (const std::string& line : validation::clean_lines(*text)) launch.take_line(line);
    if (launch.empty())
      return make_error(ErrorCode::invalid, "holds no launch argument (--num-layers 32, ...)",
                        "--arguments " + arguments.text("arguments"));
    std::vector<std::string> faults;
    stated = launch.cells(faults);
    Errors errors;
    for (const std::string& fault : faults)
      errors.push_back(make_error(ErrorCode::invalid, fault, arguments.text("arguments")));
    if (!errors.empty()) return errors;
  }
  for (const char* key : {"device", "devices", "model", "software"}) {
    if (arguments.has(key)) stated[key] = arguments.text(key);
  }
  return stated;
}

Json json_of(const validation::MegatronLog& log, const Run& run) {
  return {{"run", run},
          {"file", log.file},
          {"step_time_s", log.step_time_s},
          {"spread", log.spread},
          {"steps", log.steps.size()},
          {"counted", log.counted},
          {"warm_up", log.warm_up},
          {"other_batch", log.other_batch},
          {"refused", json_of(log.damaged)},
          {"warnings", log.warnings}};
}

std::string logs_table(const std::vector<validation::MegatronLog>& logs, const std::vector<Run>& runs) {
  TextTable table({"<log", "step time s", "spread", "steps", "counted", "warm-up", "refused", "<model", "<device"});
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const auto& log = logs[i];
    const auto cell = [&](const char* key) { return runs[i].contains(key) ? runs[i].at(key) : ""; };
    table.row({runs[i].at("id"), fmt::format("{:.4g}", log.step_time_s), scenarios::percent_text(log.spread),
               std::to_string(log.steps.size()), std::to_string(log.counted), std::to_string(log.warm_up),
               std::to_string(log.damaged.size()), cell("model"),
               fmt::format("{} x {}", cell("devices"), cell("device"))});
  }
  return table.text() + "With --format csv: a file that validate and calibrate read.\n";
}

}  // namespace

Result<Output> import_nccl(const Invocation& invocation, const std::vector<std::string>& files) {
  validation::NcclHints hints;
  if (invocation.arguments.has("collective")) {
    hints.kind = validation::collective_named(invocation.arguments.text("collective"));
    if (!hints.kind)
      return make_error(ErrorCode::usage, "is no collective of nccl-tests (all_reduce, all_gather, alltoall, ...)",
                        "--collective " + invocation.arguments.text("collective"));
  }
  hints.ranks = static_cast<int>(invocation.arguments.integer("ranks", 2, 1 << 20).value_or(0));
  if (!invocation.arguments.errors().empty()) return invocation.arguments.errors();
  std::vector<validation::NcclOutput> outputs;
  Errors errors;
  for (const std::string& file : files) {
    auto output = validation::read_nccl_tests(file, hints);
    if (!output) {
      errors.insert(errors.end(), output.errors().begin(), output.errors().end());
      continue;
    }
    note(invocation, file, output->damaged, output->warnings);
    outputs.push_back(std::move(*output));
  }
  if (!errors.empty()) return errors;
  const auto json = [&] {
    Json list = Json::array();
    for (const auto& o : outputs) list.push_back(json_of(o));
    return Json{{"schema", "stepcast.nccl/1"}, {"outputs", list}};
  };
  return Output{render(
      invocation.globals, json, [&] { return nccl_table(outputs); }, [&] { return nccl_csv(outputs); })};
}

Result<Output> import_megatron_log(const Invocation& invocation, const std::vector<std::string>& files) {
  const auto stated = stated_cells(invocation);
  if (!stated) return stated.errors();
  std::vector<validation::MegatronLog> logs;
  std::vector<Run> runs;
  Errors errors;
  std::set<std::string> ids;
  for (const std::string& file : files) {
    auto log = validation::read_megatron_log(file);
    if (!log) {
      errors.insert(errors.end(), log.errors().begin(), log.errors().end());
      continue;
    }
    note(invocation, file, log->damaged, log->warnings);
    std::string id = std::filesystem::path(file).stem().string();
    if (!ids.insert(id).second) id = file;
    auto run = validation::run_of_log(*log, id, *stated);
    if (!run) {
      errors.insert(errors.end(), run.errors().begin(), run.errors().end());
      continue;
    }
    logs.push_back(std::move(*log));
    runs.push_back(std::move(*run));
  }
  if (!errors.empty()) return errors;
  const auto json = [&] {
    Json list = Json::array();
    for (std::size_t i = 0; i < logs.size(); ++i) list.push_back(json_of(logs[i], runs[i]));
    return Json{{"schema", "stepcast.logs/1"}, {"logs", list}};
  };
  return Output{render(
      invocation.globals, json, [&] { return logs_table(logs, runs); }, [&] { return validation::runs_csv(runs); })};
}

}  // namespace stepcast::cli
