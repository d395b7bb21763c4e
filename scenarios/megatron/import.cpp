#include "scenarios/megatron/import.h"

#include <algorithm>

#include <fmt/format.h>

#include "scenarios/megatron/export.h"
#include "scenarios/megatron/import_parts.h"
#include "scenarios/megatron/shell_reader.h"
#include "scenarios/megatron/yaml_reader.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios::megatron {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_text = std::size_t{1} << 20;

bool is_yaml(std::string_view text, const std::string& file) {
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return true;
  return text.starts_with("MODEL_ARGS:") || text.find("\nMODEL_ARGS:") != std::string_view::npos;
}

Status check_text(std::string_view text, const std::string& file) {
  if (text.size() > longest_text) {
    return make_error(ErrorCode::unreadable,
                      fmt::format("the file has {} bytes; at most {} are read", text.size(), longest_text), file);
  }
  int line = 1;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') ++line;
    if ((byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f) {
      return make_error(ErrorCode::unreadable, fmt::format("byte 0x{:02x} is not text", byte),
                        fmt::format("{}:{}", file, line));
    }
  }
  return Unit{};
}

// The values beside the arguments that an export wrote into a comment.
Result<Json> read_carried(std::string_view text, const std::string& file) {
  const std::string_view mark = carried_mark;
  int line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view content = text.substr(at, end - at);
    at = end + 1;
    if (!content.starts_with(mark)) continue;
    content.remove_prefix(mark.size());
    if (content.find('{') == std::string_view::npos) continue;
    auto document = parse_json(content, file);
    if (!document || !document->root.is_object()) {
      return make_error(ErrorCode::invalid, "the comment of an export is no JSON object",
                        fmt::format("{}:{}", file, line));
    }
    return document->root;
  }
  return Json();
}

// What the comment says of keys that no argument has. A cluster of the caller's takes the host's costs with it.
void add_carried(ImportDraft& draft) {
  if (!draft.carried.is_object()) return;
  const bool other_cluster = !draft.options.cluster.empty();
  std::string keys;
  for (const auto& [block, members] : draft.carried.items()) {
    if (block == "model" || block == "cluster") continue;
    Json& target = draft.made.scenario[block];
    if (!members.is_object()) {
      target = members;
      continue;
    }
    if (target.is_null()) target = Json::object();
    if (!target.is_object()) continue;
    for (const auto& [key, value] : members.items()) {
      if (value.is_null()) continue;
      if (other_cluster && block == "runtime" && key.starts_with("host_")) continue;
      target[key] = value;
    }
  }
  draft.assume("what no argument says (software, noise, host costs, ...) is taken from the comment of the export");
}

void report_unused(ImportDraft& draft) {
  for (Argument& argument : draft.arguments.unused()) {
    UnusedArgument unused;
    unused.why = why_unused(argument.name);
    unused.known = !unused.why.empty();
    if (!unused.known)
      unused.why = "not known to stepcast, or without effect beside the others" +
                   suggestion(argument.name, draft.arguments.known());
    unused.argument = std::move(argument);
    draft.made.unused.push_back(std::move(unused));
  }
  for (const std::string& name : draft.arguments.repeated()) {
    draft.warn(fmt::format("{}: given more than once; the last one counts", draft.arguments.where(name)));
  }
}

Json origins_json(const MegatronImport& imported) {
  Json json = Json::object();
  for (const auto& [pointer, where] : imported.origins) json[pointer] = where;
  return json;
}

}  // namespace

void ImportDraft::set(const std::string& pointer, Json value, std::string_view argument) {
  made.scenario[Json::json_pointer(pointer)] = std::move(value);
  if (arguments.has(argument)) made.origins.emplace_back(pointer, arguments.where(argument));
}

Result<MegatronImport> import_megatron(std::string_view text, const std::string& file, const ImportOptions& options) {
  if (auto status = check_text(text, file); !status) return status.errors();
  auto script = is_yaml(text, file) ? read_yaml(text, file, options.defines) : read_shell(text, file, options.defines);
  if (!script) return script.errors();
  auto carried = read_carried(text, file);
  if (!carried) return carried.errors();

  Errors errors;
  ArgumentSet arguments(script->arguments, errors);
  MegatronImport made;
  made.scenario = Json::object();
  made.scenario["model"] = nullptr;
  made.warnings = std::move(script->warnings);
  ImportDraft draft{arguments, options, made, std::move(*carried), errors, std::nullopt};
  import_model(draft);
  import_cluster(draft);
  import_layout(draft);
  import_training(draft);
  import_runtime(draft);
  if (!errors.empty()) return errors;
  add_carried(draft);
  report_unused(draft);
  return made;
}

std::vector<std::string> notes(const MegatronImport& imported) {
  std::vector<std::string> lines;
  for (const std::string& warning : imported.warnings) lines.push_back("warning: " + warning);
  for (const bool known : {false, true}) {
    for (const UnusedArgument& unused : imported.unused) {
      if (unused.known == known)
        lines.push_back(fmt::format("{}: {} not used: {}", unused.argument.where, shown(unused.argument), unused.why));
    }
  }
  for (const std::string& assumption : imported.assumptions) lines.push_back("assumed: " + assumption);
  return lines;
}

Json to_json(const MegatronImport& imported) {
  Json json;
  json["schema"] = megatron_import_schema;
  json["scenario"] = imported.scenario;
  json["unused"] = Json::array();
  for (const UnusedArgument& unused : imported.unused) {
    json["unused"].push_back({{"argument", unused.argument.name},
                              {"values", unused.argument.values},
                              {"where", unused.argument.where},
                              {"known", unused.known},
                              {"why", unused.why}});
  }
  json["origins"] = origins_json(imported);
  json["assumptions"] = imported.assumptions;
  json["warnings"] = imported.warnings;
  return json;
}

std::string to_csv(const MegatronImport& imported) {
  const auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
  };
  std::string csv = "where,argument,known,why\n";
  for (const UnusedArgument& unused : imported.unused) {
    csv += fmt::format("{},{},{},{}\n", quoted(unused.argument.where), quoted(shown(unused.argument)), unused.known,
                       quoted(unused.why));
  }
  return csv;
}

}  // namespace stepcast::scenarios::megatron
