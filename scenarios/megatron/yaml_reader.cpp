#include "scenarios/megatron/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "scenarios/megatron/shell_words.h"

namespace stepcast::scenarios::megatron {
namespace {

using Variables = std::map<std::string, ShellValue>;

std::string substituted(const std::string& text, Variables& variables) {
  if (text.find('$') == std::string::npos) return text;
  // Quoted whole, so that only variables change.
  std::string quoted = "\"";
  for (const char c : text) quoted += (c == '"' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  quoted += '"';
  ShellLexer lexer(quoted, variables);
  std::string result;
  for (const ShellWord& word : lexer.word(true, true)) result += (result.empty() ? "" : " ") + word.text;
  return result;
}

std::string where_of(const YAML::Node& node, const std::string& file) {
  return fmt::format("{}:{}", file, node.Mark().line + 1);
}

void read_variables(const YAML::Node& block, const std::map<std::string, std::string>& defines, Variables& variables) {
  if (block && block.IsMap()) {
    for (const auto& entry : block) {
      if (entry.first.IsScalar() && entry.second.IsScalar())
        variables[entry.first.Scalar()] = {{substituted(entry.second.Scalar(), variables), 0}};
    }
  }
  for (const auto& [name, value] : defines) variables[name] = {{value, 0}};
}

bool is_false(const std::string& text) { return text == "false" || text == "False" || text == "FALSE"; }
bool is_true(const std::string& text) { return text == "true" || text == "True" || text == "TRUE"; }

void read_argument(const YAML::Node& key, const YAML::Node& value, const std::string& file, Variables& variables,
                   ScriptText& script, Errors& errors) {
  if (!key.IsScalar() || key.Scalar().empty()) {
    errors.push_back(make_error(ErrorCode::invalid, "an argument's name is expected here", where_of(key, file)));
    return;
  }
  std::string name = key.Scalar();
  if (!name.starts_with("--")) name = "--" + name;
  Argument argument{name, {}, where_of(key, file)};
  if (value.IsScalar()) {
    const std::string text = substituted(value.Scalar(), variables);
    const bool plain = value.Tag() != "!";  // "!": the value is quoted
    if (plain && is_false(text)) return;
    if (!plain || !is_true(text)) argument.values.push_back(text);
  } else if (value.IsSequence()) {
    for (const auto& element : value) {
      if (element.IsScalar()) {
        argument.values.push_back(substituted(element.Scalar(), variables));
      } else {
        errors.push_back(make_error(ErrorCode::invalid, name + " holds a nested value; plain values are expected",
                                    where_of(value, file)));
        return;
      }
    }
  } else if (value.IsMap()) {
    errors.push_back(make_error(ErrorCode::invalid, name + " holds a mapping; a value or a list is expected",
                                where_of(value, file)));
    return;
  }
  script.arguments.push_back(std::move(argument));
}

Result<ScriptText> read_root(const YAML::Node& root, const std::string& file,
                             const std::map<std::string, std::string>& defines) {
  const YAML::Node block = root.IsMap() ? root["MODEL_ARGS"] : YAML::Node(YAML::NodeType::Undefined);
  if (!block.IsDefined() || !block.IsMap() || block.size() == 0) {
    return make_error(ErrorCode::invalid, "a mapping MODEL_ARGS with arguments is expected in the YAML file",
                      block.IsDefined() ? where_of(block, file) : file);
  }
  Variables variables;
  read_variables(root["ENV_VARS"], defines, variables);
  ScriptText script;
  Errors errors;
  for (const auto& entry : block) read_argument(entry.first, entry.second, file, variables, script, errors);
  if (!errors.empty()) return errors;
  if (script.arguments.empty()) {
    return make_error(ErrorCode::invalid, "MODEL_ARGS holds no argument that is on", where_of(block, file));
  }
  return script;
}

}  // namespace

Result<ScriptText> read_yaml(std::string_view text, const std::string& file,
                             const std::map<std::string, std::string>& defines) {
  try {
    return read_root(YAML::Load(std::string(text)), file, defines);
  } catch (const YAML::Exception& error) {
    return make_error(
        ErrorCode::invalid, "no valid YAML: " + error.msg,
        error.mark.is_null() ? file : fmt::format("{}:{}:{}", file, error.mark.line + 1, error.mark.column + 1));
  }
}

}  // namespace stepcast::scenarios::megatron
