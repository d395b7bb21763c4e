// The three formats of an explanation.
#include <fmt/format.h>

#include "scenarios/explain.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_value = 40;

std::string resolved_value(const Json& resolved, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  if (!resolved.contains(at)) return {};
  const Json& value = resolved[at];
  if (value.is_object() && value.contains("name") && value["name"].is_string()) return value["name"].get<std::string>();
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.size() > longest_value) text = text.substr(0, longest_value - 3) + "...";
  return text;
}

std::string keys_text(const Explanation& e) {
  TextTable table({"key", "<value", "<from"});
  for (const auto& [pointer, origin] : e.origins) {
    std::string key = pointer.empty() ? pointer : pointer.substr(1);
    for (char& c : key) c = c == '/' ? '.' : c;
    // The position without the pointer, which the first column says.
    table.row({key, resolved_value(e.resolved, pointer), origin.substr(0, origin.rfind(" /"))});
  }
  return table.text();
}

std::string facts_text(const Explanation& e) {
  TextTable table({"constant", "value", "<unit", "<provenance", "<source"});
  for (const auto& fact : e.facts) {
    table.row({fact.key, fmt::format("{:.6g}", fact.value), fact.unit, std::string(topology::name(fact.provenance)),
               fact.source});
  }
  return table.text();
}

std::string ranks_text(const Explanation& e) {
  TextTable table({"rank", "device", "node", "domain", "stage", "tp", "cp", "dp", "etp", "ep", "edp"});
  for (const RankRow& r : e.ranks) {
    std::vector<std::string> cells;
    for (const int n : {r.rank, r.device, r.node, r.domain, r.stage, r.tp, r.cp, r.dp, r.etp, r.ep, r.edp}) {
      cells.push_back(std::to_string(n));
    }
    table.row(std::move(cells));
  }
  std::string text = table.text();
  for (const GroupRow& group : e.groups) text += fmt::format("  {:<6} {}\n", group.name, group.lies);
  return text;
}

std::string ops_text(const Explanation& e) {
  TextTable table({"body", "<op", "<category", "<stream", "alone", "GFLOP", "payload", "wire"});
  std::string body;
  for (const OpRow& op : e.ops) {
    table.row({op.body == body ? "" : op.body, op.name, op.category, op.stream, time_text(op.alone_s),
               op.executed_flops > 0 ? fmt::format("{:.2f}", op.executed_flops / 1e9) : "",
               op.payload_bytes > 0 ? bytes_text(op.payload_bytes) : "",
               op.wire_bytes > 0 ? bytes_text(op.wire_bytes) : ""});
    body = op.body;
  }
  return table.text();
}

std::string list_text(const std::vector<std::string>& lines, const char* mark = "- ") {
  std::string text;
  for (const std::string& line : lines) text += "  " + std::string(mark) + wrapped(line, 4) + "\n";
  return text;
}

}  // namespace

nlohmann::ordered_json to_json(const Explanation& e) {
  Json json;
  json["schema"] = explain_schema;
  json["scenario"] = e.resolved;
  json["origins"] = Json::object();
  for (const auto& [pointer, origin] : e.origins) json["origins"][pointer] = origin;
  json["constants"] = Json::array();
  for (const auto& fact : e.facts) {
    json["constants"].push_back({{"key", fact.key},
                                 {"value", fact.value},
                                 {"unit", fact.unit},
                                 {"provenance", topology::name(fact.provenance)},
                                 {"source", fact.source}});
  }
  json["layout"] = e.layout;
  json["stage_split"] = e.stage_split;
  json["stages"] = e.stages;
  json["groups"] = Json::object();
  for (const GroupRow& group : e.groups) json["groups"][group.name] = group.lies;
  json["ranks"] = Json::array();
  for (const RankRow& r : e.ranks) {
    json["ranks"].push_back({{"rank", r.rank},
                             {"device", r.device},
                             {"node", r.node},
                             {"domain", r.domain},
                             {"stage", r.stage},
                             {"tp", r.tp},
                             {"cp", r.cp},
                             {"dp", r.dp},
                             {"etp", r.etp},
                             {"ep", r.ep},
                             {"edp", r.edp}});
  }
  json["layer"] = {{"index", e.layer}, {"ops", Json::array()}};
  for (const OpRow& op : e.ops) {
    json["layer"]["ops"].push_back({{"body", op.body},
                                    {"name", op.name},
                                    {"category", op.category},
                                    {"stream", op.stream},
                                    {"alone_s", op.alone_s},
                                    {"executed_flops", op.executed_flops},
                                    {"payload_bytes", op.payload_bytes},
                                    {"wire_bytes", op.wire_bytes}});
  }
  json["assumptions"] = e.assumptions;
  json["warnings"] = e.warnings;
  json["faults"] = Json::array();
  for (const Error& fault : e.faults) json["faults"].push_back({{"where", fault.where}, {"message", fault.message}});
  return json;
}

std::string to_table(const Explanation& e, bool colour) {
  std::string text;
  const auto section = [&](const std::string& title, const std::string& body) {
    if (!body.empty()) text += (text.empty() ? "" : "\n") + bold(title, colour) + "\n" + body;
  };
  std::vector<std::string> faults;
  for (const Error& fault : e.faults)
    faults.push_back(fault.where.empty() ? fault.message : fault.where + ": " + fault.message);
  section("This scenario cannot run", list_text(faults));
  section("Resolved keys", keys_text(e));
  if (e.faults.empty()) {
    section("Layout", "  " + e.layout + "\n" + ranks_text(e));
    section("Stages", "  " + wrapped(e.stage_split, 2) + "\n" + list_text(e.stages, ""));
    section(fmt::format("Layer {}: every kernel and message, first rank that holds it", e.layer), ops_text(e));
  }
  section("Constants", facts_text(e));
  section("Assumptions", list_text(e.assumptions));
  section("Warnings", list_text(e.warnings));
  return text;
}

std::string to_csv(const Explanation& e) {
  std::string text = csv_line({"key", "value", "from"});
  for (const auto& [pointer, origin] : e.origins)
    text += csv_line({pointer, resolved_value(e.resolved, pointer), origin});
  for (const auto& fact : e.facts) {
    text += csv_line(
        {fact.key, csv_number(fact.value), fmt::format("{}: {}", topology::name(fact.provenance), fact.source)});
  }
  return text;
}

}  // namespace stepcast::scenarios
