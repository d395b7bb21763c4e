#include "scenarios/calibration.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "scenarios/draft.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> prefixes = {"device.", "cluster.", "software."};
constexpr double widest = 1e15;

std::vector<std::string> texts(JsonFields& fields, const char* key) {
  std::vector<std::string> out;
  fields.list(key, [&](const Json& element, const std::string& pointer) {
    if (element.is_string()) {
      out.push_back(element.get<std::string>());
    } else {
      fields.errors().push_back(make_error(ErrorCode::invalid,
                                           fmt::format("found {}; a text in quotes is expected", shown(element)),
                                           fields.document().where(pointer)));
    }
  });
  return out;
}

Adjustment read_one(JsonFields& fields) {
  Adjustment a;
  fields.read("name", a.name);
  fields.require("keys");
  a.keys = texts(fields, "keys");
  for (const std::string& key : a.keys) {
    const bool known = std::any_of(prefixes.begin(), prefixes.end(), [&](auto p) { return key.starts_with(p); });
    if (!known) fields.fail("keys", fmt::format("'{}' begins with none of device., cluster., software.", key));
  }
  a.devices = texts(fields, "device");
  a.software = texts(fields, "software");
  if (const auto kind = fields.choice("kind", {"moe", "dense"})) a.kind = *kind == 0 ? "moe" : "dense";
  a.times = fields.number("times", 1e-6, 1e6);
  a.value = fields.number("value", 0, widest);
  if (a.times.has_value() == a.value.has_value() && !fields.has("times") == !fields.has("value")) {
    fields.fail("keys", "an adjustment needs either 'times' (a factor) or 'value' (a replacement)");
  }
  fields.read("at_least", a.at_least, 0, widest);
  fields.read("at_most", a.at_most, 0, widest);
  fields.find("source");
  fields.refuse_unknown();
  return a;
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return glob_matches(p, text); });
}

// Numbers of a profile's values, those of maps as "host_factor.gb200".
std::map<std::string, double> numbers_of(const parallelism::SoftwareProfile& software) {
  std::map<std::string, double> numbers;
  for (const auto& fact : parallelism::describe(software)) {
    const Json value = Json::parse(fact.value, nullptr, false);
    if (value.is_number()) numbers[fact.key] = value.get<double>();
    if (!value.is_object()) continue;
    for (const auto& [member, number] : value.items()) {
      if (number.is_number()) numbers[fact.key + "." + member] = number.get<double>();
    }
  }
  return numbers;
}

// Members that the scenario gives are not for the calibration to change.
void leave_given(std::map<std::string, double>& numbers, const Json& block) {
  if (!block.is_object()) return;
  std::erase_if(numbers, [&](const auto& number) {
    const std::string key = number.first.substr(0, number.first.find('.'));
    return block.contains(key) && !block[key].is_null();
  });
}

bool adjust_software(Draft& draft, const std::vector<Adjustment>& adjustments, const std::string& label) {
  std::map<std::string, double> numbers = numbers_of(draft.spec.software);
  Json& block = draft.tree["software"];
  if (block.is_null()) block = Json::object();
  leave_given(numbers, block);
  const auto changes = adjusted(adjustments, "software.", numbers);
  for (const auto& [key, value] : changes) {
    const auto dot = key.find('.');
    if (dot == std::string::npos) {
      block[key] = value;
    } else {
      block[key.substr(0, dot)][key.substr(dot + 1)] = value;
    }
    draft.overrides.push_back({"/software" + pointer_step(key.substr(0, dot)), label});
  }
  return !changes.empty();
}

bool adjust_cluster(Draft& draft, const std::vector<Adjustment>& adjustments, const std::string& label) {
  std::map<std::string, double> device, network;
  for (const auto& [key, constant] : draft.spec.cluster.device.provenance) device[key] = constant.value;
  for (const auto& [key, constant] : draft.spec.cluster.provenance) network[key] = constant.value;
  Json& block = draft.tree["cluster"];
  leave_given(device, block);
  leave_given(network, block);
  if (block.contains("constants")) {
    for (const auto& [key, value] : block["constants"].items()) device.erase(key);
  }
  const auto of_device = adjusted(adjustments, "device.", device);
  const auto of_network = adjusted(adjustments, "cluster.", network);
  for (const auto& [key, value] : of_device) block["constants"][key] = value;
  for (const auto& [key, value] : of_network) block[key] = value;
  for (const auto& [key, value] : of_network) {
    draft.overrides.push_back({"/cluster" + pointer_step(key), label});
  }
  if (!of_device.empty()) draft.overrides.push_back({"/cluster/constants", label});
  return !of_device.empty() || !of_network.empty();
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  // Backtracks to the last star only, which is enough without other wildcards.
  std::size_t p = 0, t = 0, after_star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      mark = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool Adjustment::concerns(std::string_view device, std::string_view profile, bool moe) const {
  if (!kind.empty() && (kind == "moe") != moe) return false;
  return any_matches(devices, device) && any_matches(software, profile);
}

double Adjustment::apply(double before) const {
  double after = value ? *value : before * times.value_or(1);
  if (at_most > 0) after = std::min(after, at_most);
  return std::max(after, at_least);
}

std::vector<Adjustment> read_adjustments(JsonFields& profile) {
  std::vector<Adjustment> out;
  profile.list("adjust", [&](const Json& element, const std::string& pointer) {
    JsonFields fields(profile.document(), element, pointer, profile.errors());
    if (element.is_object()) out.push_back(read_one(fields));
  });
  return out;
}

Json to_json(const Adjustment& a) {
  Json json;
  if (!a.name.empty()) json["name"] = a.name;
  json["keys"] = a.keys;
  if (!a.devices.empty()) json["device"] = a.devices;
  if (!a.software.empty()) json["software"] = a.software;
  if (!a.kind.empty()) json["kind"] = a.kind;
  if (a.times) json["times"] = *a.times;
  if (a.value) json["value"] = *a.value;
  if (a.at_least > 0) json["at_least"] = a.at_least;
  if (a.at_most > 0) json["at_most"] = a.at_most;
  return json;
}

std::map<std::string, double> adjusted(const std::vector<Adjustment>& adjustments, std::string_view prefix,
                                       const std::map<std::string, double>& values) {
  std::map<std::string, double> out;
  for (const Adjustment& a : adjustments) {
    for (const std::string& key : a.keys) {
      if (!key.starts_with(prefix)) continue;
      const std::string_view pattern = std::string_view(key).substr(prefix.size());
      for (const auto& [name, before] : values) {
        if (!glob_matches(pattern, name)) continue;
        const auto known = out.find(name);
        out[name] = a.apply(known == out.end() ? before : known->second);
      }
    }
  }
  return out;
}

void adjust_constants(Draft& draft) {
  if (!draft.given("/calibration/adjust") || !draft.cluster_ok || !draft.software_ok || !draft.model_ok) return;
  // A fault in a file has been named there already.
  Errors faults;
  JsonFields fields(*draft.document, draft.tree["calibration"], "/calibration", faults);
  std::vector<Adjustment> adjustments = read_adjustments(fields);
  const bool from_file = draft.given("/calibration/file");
  if (!faults.empty()) {
    if (!from_file) std::move(faults.begin(), faults.end(), std::back_inserter(draft.errors));
    return;
  }
  const std::string label =
      from_file ? "calibration " + draft.tree["calibration"]["file"].get<std::string>() : "calibration";
  std::erase_if(adjustments, [&](const Adjustment& a) {
    return !a.concerns(draft.spec.cluster.device.name, draft.spec.software.name, draft.spec.model.is_moe());
  });
  const std::size_t said = draft.assumptions.size();
  if (adjust_software(draft, adjustments, label)) read_software(draft);
  if (adjust_cluster(draft, adjustments, label)) read_cluster(draft);
  draft.assumptions.resize(said);
}

}  // namespace stepcast::scenarios
