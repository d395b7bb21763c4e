#include "scenarios/sweep/sweep_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "sim/base/json_fields.h"
#include "sim/base/json_reader.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr double largest = 1e15;  // whole numbers below are exact

// FNV-1a, 64 bits: tells sweeps apart, not proof against intent.
std::string digest_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

class Reader {
 public:
  Reader(const JsonDocument& document, const SweepRequest& request) : document_(document), request_(request) {}

  Result<Sweep> read() {
    JsonFields fields(document_, document_.root, "", errors_);
    sweep_.name = request_.file.stem().string();
    read_name(fields);
    for (const char* key : {"description", "schema"}) fields.text(key);
    read_scenario(fields);
    fields.read("ignore_memory", sweep_.ignore_memory);
    fields.list("results", [&](const Json& value, const std::string& pointer) {
      constexpr std::array<const char*, 5> own_columns = {"sweep", "point", "values", "error", "message"};
      const bool own = std::any_of(own_columns.begin(), own_columns.end(), [&](const char* c) { return value == c; });
      if (own) {
        fail(pointer, fmt::format("{} is a column of every sweep, no result of a forecast", shown(value)));
      } else if (value.is_string()) {
        sweep_.results.push_back(value.get<std::string>());
      } else {
        fail(pointer, fmt::format("found {}; the path of a result is expected, as in utilisation.mfu", shown(value)));
      }
    });
    fields.require("vary");
    fields.list("vary", [&](const Json& entry, const std::string& pointer) { read_axis(entry, pointer); });
    fields.refuse_unknown();
    if (errors_.empty()) count_points();
    if (!errors_.empty()) return errors_;
    return std::move(sweep_);
  }

 private:
  void fail(const std::string& pointer, std::string message) {
    errors_.push_back(make_error(ErrorCode::invalid, std::move(message), document_.where(pointer)));
  }

  // The results' files are named after it.
  void read_name(JsonFields& fields) {
    const std::size_t before = errors_.size();
    fields.read("name", sweep_.name);
    if (errors_.size() != before || fields.find("name") == nullptr) return;
    constexpr std::size_t longest_name = 200;  // with its endings below the 255 bytes of a file's name
    const std::string& name = sweep_.name;
    const bool plain = std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == '/'; });
    if (plain && !name.empty() && name.size() <= longest_name && name.front() != '.' && name.front() != '-') return;
    fail("/name", fmt::format("found {}; a plain file name is expected, as the results take it: 1 to {} bytes, no '/' "
                              "and no control character, not beginning with '.' or '-'",
                              shown(Json(name)), longest_name));
  }

  void read_scenario(JsonFields& fields) {
    ScenarioRequest& base = sweep_.base;
    base.catalog_root = request_.catalog_root;
    base.sets = request_.sets;
    const Json* value = fields.find("scenario");
    if (value == nullptr) {
      fail("", "key 'scenario' is missing: a file, the name of a library scenario, or a scenario itself");
    } else if (value->is_object()) {
      base.text = value->dump(-1, ' ', false, Json::error_handler_t::replace);
      base.text_name = document_.file + " (scenario)";
    } else if (value->is_string()) {
      const fs::path named(value->get<std::string>());
      const fs::path beside = request_.file.parent_path() / named;
      std::error_code code;
      base.file = fs::is_regular_file(beside, code) ? beside : named;
    } else {
      fail("/scenario", fmt::format("found {}; a name, a file or an object is expected", shown(*value)));
    }
  }

  void read_axis(const Json& entry, const std::string& pointer) {
    if (!entry.is_object() || entry.empty()) {
      fail(pointer, fmt::format("found {}; an object of keys and their values is expected, as in {{\"parallelism.tp\": "
                                "[1, 2]}}",
                                shown(entry)));
      return;
    }
    SweepAxis axis;
    for (const auto& [key, value] : entry.items()) {
      if (!keys_.insert({key, pointer}).second) {
        fail(pointer + pointer_step(key), fmt::format("{} is varied twice", shown_name(key)));
      }
      for (const auto& other : keys_) {
        const std::string& part = key.size() > other.first.size() ? key : other.first;
        const std::string& whole = key.size() > other.first.size() ? other.first : key;
        if (part.starts_with(whole + ".")) {
          fail(pointer + pointer_step(key),
               fmt::format("{} is varied, and so is {} within it", shown_name(whole), shown_name(part)));
        }
      }
      SweepValues values;
      values.key = key;
      read_values(value, pointer + pointer_step(key), values);
      if (values.count == 0) return;
      if (axis.count != 0 && axis.count != values.count) {
        fail(pointer + pointer_step(key),
             fmt::format("{} has {} values and {} has {}; keys of one entry go together value by value",
                         shown_name(key), values.count, shown_name(axis.keys.front().key), axis.count));
        return;
      }
      axis.count = values.count;
      axis.keys.push_back(std::move(values));
    }
    sweep_.axes.push_back(std::move(axis));
  }

  void read_values(const Json& value, const std::string& pointer, SweepValues& values) {
    if (value.is_array() && !value.empty()) {
      values.list.assign(value.begin(), value.end());
      values.count = static_cast<std::int64_t>(value.size());
    } else if (value.is_object()) {
      read_range(value, pointer, values);
    } else {
      fail(pointer,
           fmt::format("found {}; a list of values, or a range {{\"from\", \"to\", \"step\" or \"factor\"}}, is "
                       "expected",
                       shown(value)));
    }
  }

  void read_range(const Json& value, const std::string& pointer, SweepValues& values) {
    const std::size_t before = errors_.size();
    JsonFields fields(document_, value, pointer, errors_);
    const auto from = fields.required_number("from", -largest, largest);
    const auto to = fields.required_number("to", -largest, largest);
    const auto step = fields.number("step", -largest, largest);
    const auto factor = fields.number("factor", -largest, largest);
    fields.refuse_unknown();
    if (errors_.size() != before) return;
    if (step && factor) fail(pointer, "a range has a step or a factor, not both");
    if (factor && (*factor <= 1 || *from <= 0)) fail(pointer, "a factor above 1 and a 'from' above 0 are expected");
    if (step && *step == 0) fail(pointer, "the step is 0");
    values.from = *from;
    values.step = factor ? 0 : step.value_or(1);
    values.factor = factor.value_or(0);
    values.whole = is_whole(*from) && (factor ? is_whole(*factor) : is_whole(values.step));
    if (errors_.size() != before) return;
    // A value within a millionth of a step of the end still belongs to the range.
    constexpr double slack = 1e-6;
    const double steps = factor ? std::log(*to / *from) / std::log(*factor) : (*to - *from) / values.step;
    if (!(steps >= -slack)) {
      fail(pointer, fmt::format("the range from {} to {} holds no value", *from, *to));
    } else if (steps > static_cast<double>(most_points)) {
      fail(pointer, fmt::format("the range holds more than {} values", most_points));
    } else {
      values.count = static_cast<std::int64_t>(std::floor(steps + slack)) + 1;
    }
  }

  static bool is_whole(double value) { return value == std::floor(value) && std::abs(value) < largest; }

  void count_points() {
    sweep_.points = 1;
    for (const SweepAxis& axis : sweep_.axes) {
      if (axis.count > most_points / sweep_.points) {
        fail("/vary", fmt::format("more than {} points", most_points));
        return;
      }
      sweep_.points *= axis.count;
    }
    if (sweep_.axes.empty()) fail("/vary", "no key is varied");
  }

  const JsonDocument& document_;
  const SweepRequest& request_;
  Sweep sweep_;
  Errors errors_;
  std::map<std::string, std::string> keys_;
};

// A name without a folder and an ending may be one of scenarios/sweeps.
Result<fs::path> find_sweep(const SweepRequest& request) {
  std::error_code code;
  const fs::path& file = request.file;
  if (file.has_parent_path() || file.extension() == ".json" || fs::exists(file, code)) return file;
  const fs::path folder = request.catalog_root / "scenarios" / "sweeps";
  fs::path known = folder / (file.string() + ".json");
  if (fs::is_regular_file(known, code)) return known;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    names.push_back(at->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return make_error(ErrorCode::not_found,
                    "neither a file nor a sweep of the library" + suggestion(file.string(), names), file.string());
}

// A key is sound if one of its first values can be read into the scenario.
Status check_keys(const Sweep& sweep) {
  constexpr std::int64_t tried = 8;
  Errors errors;
  for (const SweepAxis& axis : sweep.axes) {
    Errors own;
    bool sound = false;
    for (std::int64_t i = 0; i < std::min(axis.count, tried) && !sound; ++i) {
      ScenarioRequest request = sweep.base;
      request.check_layout = false;
      for (const SweepValues& values : axis.keys)
        request.sets.push_back(fmt::format("{}={}", values.key, values.at(i).dump()));
      const auto scenario = load_scenario(request);
      sound = scenario.ok();
      if (!sound && own.empty()) own = scenario.errors();
    }
    if (!sound) errors.insert(errors.end(), own.begin(), own.end());
  }
  if (!errors.empty()) return errors;
  return Unit{};
}

}  // namespace

Json SweepValues::at(std::int64_t i) const {
  if (!list.empty()) return list[static_cast<std::size_t>(i)];
  const double value =
      factor > 0 ? from * std::pow(factor, static_cast<double>(i)) : from + static_cast<double>(i) * step;
  if (whole && std::abs(value) < largest) return static_cast<std::int64_t>(std::llround(value));
  return value;
}

std::vector<std::string> Sweep::keys() const {
  std::vector<std::string> names;
  for (const SweepAxis& axis : axes) {
    for (const SweepValues& values : axis.keys) names.push_back(values.key);
  }
  return names;
}

std::vector<Json> Sweep::values(std::int64_t point) const {
  std::vector<std::int64_t> place(axes.size(), 0);
  for (std::size_t a = axes.size(); a-- > 0;) {
    place[a] = point % axes[a].count;
    point /= axes[a].count;
  }
  std::vector<Json> found;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    for (const SweepValues& values : axes[a].keys) found.push_back(values.at(place[a]));
  }
  return found;
}

ScenarioRequest Sweep::request(std::int64_t point) const {
  ScenarioRequest one = base;
  const std::vector<std::string> names = keys();
  const std::vector<Json> chosen = values(point);
  for (std::size_t i = 0; i < names.size(); ++i) {
    one.sets.push_back(names[i] + "=" + chosen[i].dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return one;
}

Result<Sweep> load_sweep(const SweepRequest& request) {
  const auto file = find_sweep(request);
  if (!file) return file.errors();
  const auto document = read_json_file(*file);
  if (!document) return document.errors();
  SweepRequest found = request;
  found.file = *file;
  auto sweep = Reader(*document, found).read();
  if (!sweep) return sweep;
  ScenarioRequest first = sweep->request(0);
  first.check_layout = false;
  auto scenario = load_scenario(first);
  if (!scenario) {
    ScenarioRequest alone = sweep->base;
    alone.check_layout = false;
    scenario = load_scenario(alone);
    if (!scenario) return scenario.errors();
    if (auto status = check_keys(*sweep); !status) return status.errors();
  }
  const std::string whole = document->root.dump(-1, ' ', false, Json::error_handler_t::replace) +
                            scenario->resolved.dump(-1, ' ', false, Json::error_handler_t::replace) + request.version;
  sweep->digest = digest_of(whole);
  return sweep;
}

}  // namespace stepcast::scenarios
