#include "scenarios/work_differences.h"

#include <algorithm>

#include <fmt/format.h>

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_value = 48;

// Keys that decide what work a step does; every key below them counts.
const std::vector<std::string> work_keys = {"/workload/sequence_length",
                                            "/workload/packing",
                                            "/workload/document_lengths",
                                            "/precision",
                                            "/recompute",
                                            "/routing"};
// Known to both, and neither work nor cause.
const std::vector<std::string> ignored_keys = {"/schema", "/name", "/description", "/workload/global_batch",
                                               "/workload/steps"};

bool below(const std::string& pointer, const std::vector<std::string>& keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return (pointer + "/").starts_with(key + "/"); });
}

std::string value_text(const Json& flat, const std::string& pointer) {
  if (!flat.contains(pointer)) return "none";
  const Json& value = flat[pointer];
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.size() > longest_value) text = text.substr(0, longest_value - 3) + "...";
  return text;
}

std::string model_name(const Json& scenario) {
  if (!scenario.contains("model")) return "none";
  const Json& model = scenario["model"];
  if (model.is_string()) return model.get<std::string>();
  return model.is_object() && model.contains("name") && model["name"].is_string() ? model["name"].get<std::string>()
                                                                                  : "inline";
}

}  // namespace

ScenarioDifferences differences(const Json& a, const Json& b) {
  ScenarioDifferences found;
  const Json none = Json::object();
  if ((a.contains("model") ? a["model"] : none) != (b.contains("model") ? b["model"] : none)) {
    const std::string name_a = model_name(a), name_b = model_name(b);
    found.work.push_back(name_a == name_b ? "model: fields of " + name_a : "model: " + name_a + " -> " + name_b);
  }
  Json rest_a = a, rest_b = b;
  rest_a.erase("model");
  rest_b.erase("model");
  const Json flat_a = rest_a.flatten(), flat_b = rest_b.flatten();
  std::vector<std::string> pointers;
  for (const auto& [pointer, value] : flat_a.items()) pointers.push_back(pointer);
  for (const auto& [pointer, value] : flat_b.items()) {
    if (!flat_a.contains(pointer)) pointers.push_back(pointer);
  }
  for (const std::string& pointer : pointers) {
    if (below(pointer, ignored_keys)) continue;
    if (flat_a.contains(pointer) && flat_b.contains(pointer) && flat_a[pointer] == flat_b[pointer]) continue;
    auto& list = below(pointer, work_keys) ? found.work : found.other;
    list.push_back(
        fmt::format("{}: {} -> {}", pointer.substr(1), value_text(flat_a, pointer), value_text(flat_b, pointer)));
  }
  return found;
}

std::optional<double> global_batch(const Json& scenario) {
  const Json::json_pointer at("/workload/global_batch");
  if (!scenario.is_object() || !scenario.contains(at) || !scenario[at].is_number()) return std::nullopt;
  return scenario[at].get<double>();
}

bool same_batch(ScalingKind kind, double batch0, int devices0, double batch1, int devices1) {
  return kind == ScalingKind::strong ? batch0 == batch1 : batch0 * devices1 == batch1 * devices0;
}

}  // namespace stepcast::scenarios
