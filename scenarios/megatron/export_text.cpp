// The exported arguments as shell text, JSON and CSV.
#include <fmt/format.h>

#include "scenarios/megatron/export.h"

namespace stepcast::scenarios::megatron {
namespace {

using Json = nlohmann::ordered_json;

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

}  // namespace

std::string to_text(const MegatronExport& exported) {
  std::string text = fmt::format("# Megatron-LM arguments of {}\n", one_line(exported.title));
  if (!exported.not_expressed.empty()) {
    text += "# Without an argument in Megatron-LM, so that its run would differ here:\n";
    for (const NotExpressed& what : exported.not_expressed) {
      text += fmt::format("#   {}: {}\n", what.pointer.substr(1), one_line(what.why));
    }
  }
  text += "# What stepcast needs beside the arguments, for `stepcast import megatron`:\n";
  text += carried_mark + exported.carried.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  text += "MEGATRON_ARGS=(\n";
  for (const Argument& argument : exported.arguments) text += "  " + shown(argument) + "\n";
  return text + ")\n";
}

Json to_json(const MegatronExport& exported) {
  Json json;
  json["schema"] = megatron_export_schema;
  json["title"] = exported.title;
  json["arguments"] = Json::array();
  for (const Argument& argument : exported.arguments) {
    json["arguments"].push_back({{"argument", argument.name}, {"values", argument.values}});
  }
  json["not_expressed"] = Json::array();
  for (const NotExpressed& what : exported.not_expressed) {
    json["not_expressed"].push_back({{"key", what.pointer}, {"why", what.why}});
  }
  json["carried"] = exported.carried;
  return json;
}

std::string to_csv(const MegatronExport& exported) {
  std::string csv = "argument,values\n";
  for (const Argument& argument : exported.arguments) {
    std::string values;
    for (const std::string& value : argument.values) values += (values.empty() ? "" : " ") + value;
    std::string quoted;
    for (const char c : values) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    csv += fmt::format("{},\"{}\"\n", argument.name, quoted);
  }
  return csv;
}

}  // namespace stepcast::scenarios::megatron
