#include "scenarios/overrides.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_set = std::size_t{1} << 20;

Error set_error(const std::string& set, std::string message) {
  constexpr std::size_t shown_length = 80;
  std::string flag = "--set " + set.substr(0, shown_length);
  if (set.size() > shown_length) flag += "...";
  return make_error(ErrorCode::usage, std::move(message), std::move(flag));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// JSON where the text is JSON. A text that begins as a list or an object and is none is an error, not a bare text.
Result<Json> parse_value(const std::string& set, const std::string& text) {
  auto parsed = parse_json(text, "value");
  if (parsed) return std::move(parsed->root);
  if (text[0] == '[' || text[0] == '{' || text[0] == '"') {
    return set_error(set, "the value is " + parsed.errors().front().message);
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) return set_error(set, "the value holds a control character");
  }
  return Json(text);
}

// The members that a text in this place stands for.
void expand(const std::string& key, Json& value) {
  if (!value.is_string()) return;
  const std::string text = value.get<std::string>();
  if (key == "model") {
    value = Json::object({{looks_like_path(text) ? "config" : "name", text}});
  } else if (key == "cluster") {
    value = Json::object({{"preset", text}});
  } else if (key == "precision") {
    value = Json::object({{"recipe", text}});
  } else if (key == "software") {
    value = Json::object({{"name", text}});
  } else if (key == "calibration") {
    value = Json::object({{"file", text}});
  } else if (key == "recompute") {
    const auto colon = text.find(':');
    value = Json::object({{"mode", text.substr(0, colon)}});
    if (colon != std::string::npos) value["modules"] = split(text.substr(colon + 1), ',');
  }
}

// The place of `steps` in the tree, made where it is missing.
Result<Json*> descend(const std::string& set, const std::vector<std::string>& steps, Json& tree) {
  Json* at = &tree;
  std::string path;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string& step = steps[i];
    if (i == 1) expand(steps[0], *at);
    if (at->is_null()) *at = Json::object();
    if (at->is_array()) {
      const bool number = step.size() < 8 &&
                          std::all_of(step.begin(), step.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
      const std::size_t index = number ? static_cast<std::size_t>(std::stoul(step)) : at->size();
      if (index >= at->size()) {
        return set_error(set, fmt::format("{} is a list of {}; '{}' is no index of it", path, at->size(), step));
      }
      at = &(*at)[index];
    } else if (at->is_object()) {
      at = &(*at)[step];
    } else {
      return set_error(set, fmt::format("{} is {}, which has no member '{}'", path, shown(*at), step));
    }
    path += (path.empty() ? "" : ".") + step;
  }
  return at;
}

}  // namespace

Status apply_set(const std::string& set, Json& tree, std::vector<Override>& overrides) {
  constexpr std::size_t deepest = 16;
  const auto equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    return set_error(set, "found no 'path=value'; write it like --set parallelism.ep=32");
  }
  if (set.size() > longest_set) return set_error(set, "longer than 1 MiB");
  if (equals + 1 == set.size()) {
    return set_error(set, fmt::format("no value after '='; null returns {} to its default", set.substr(0, equals)));
  }
  const std::vector<std::string> steps = split(set.substr(0, equals), '.');
  if (steps.size() > deepest || std::find(steps.begin(), steps.end(), "") != steps.end()) {
    return set_error(set, "the path must be names joined by single dots, like parallelism.ep");
  }
  auto value = parse_value(set, set.substr(equals + 1));
  if (!value) return value.errors();
  auto place = descend(set, steps, tree);
  if (!place) return place.errors();
  **place = std::move(*value);
  std::string pointer;
  for (const std::string& step : steps) pointer += pointer_step(step);
  // A later flag wins, also over parts that an earlier one set.
  std::erase_if(overrides, [&](const Override& o) { return (o.pointer + "/").starts_with(pointer + "/"); });
  overrides.push_back({std::move(pointer), "--set " + set});
  return Unit{};
}

void expand_short_forms(Json& tree) {
  if (!tree.is_object()) return;
  for (const char* key : {"model", "cluster", "precision", "software", "recompute", "calibration"}) {
    if (const auto member = tree.find(key); member != tree.end()) expand(key, *member);
  }
  const auto runtime = tree.find("runtime");
  if (runtime == tree.end() || !runtime->is_object()) return;
  const auto graphs = runtime->find("cuda_graphs");
  constexpr std::string_view partial = "partial:";
  if (graphs == runtime->end() || !graphs->is_string()) return;
  const std::string text = graphs->get<std::string>();
  if (!text.starts_with(partial) || runtime->contains("graph_modules")) return;
  *graphs = "partial";
  (*runtime)["graph_modules"] = split(text.substr(partial.size()), ',');
}

std::string pointer_in(const std::string& where) {
  const auto at = where.rfind(" /");
  return at == std::string::npos ? "" : where.substr(at + 1);
}

void name_flags(const std::vector<Override>& overrides, bool flags_only, Errors& errors) {
  for (Error& error : errors) {
    const std::string pointer = pointer_in(error.where) + "/";
    const Override* best = nullptr;
    for (const Override& o : overrides) {
      const bool inside = pointer.starts_with(o.pointer + "/");
      if (inside && (best == nullptr || o.pointer.size() > best->pointer.size())) best = &o;
    }
    if (best != nullptr) {
      error.where = best->label;
    } else if (flags_only && error.where.starts_with("command line:")) {  // else a place in a model's file
      error.where = "command line " + pointer_in(error.where);
    }
  }
}

bool looks_like_path(const std::string& text) { return text.find('/') != std::string::npos || text.ends_with(".json"); }

}  // namespace stepcast::scenarios
