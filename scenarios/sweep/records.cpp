#include "scenarios/sweep/records.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "scenarios/report/report.h"
#include "sim/base/json_reader.h"
#include "sim/base/units.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t most_best = 5;

const char* name(ErrorCode code) {
  switch (code) {
    case ErrorCode::infeasible:
      return "infeasible";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::unreadable:
      return "unreadable";
    case ErrorCode::usage:
    case ErrorCode::invalid:
    case ErrorCode::unwritable:
      break;
  }
  return "invalid";
}

Json error_json(const Errors& errors) {
  const Error& first = errors.front();
  Json json;
  json["kind"] = name(first.code);
  if (!first.where.empty()) json["where"] = first.where;
  json["message"] = first.message;
  if (errors.size() > 1) json["more"] = errors.size() - 1;
  return json;
}

const std::vector<std::string>& exposed_categories() {
  static const std::vector<std::string> names = {"exposed_tp", "exposed_cp", "exposed_ep", "exposed_pp", "exposed_dp"};
  return names;
}

void add_usual(const Forecast& f, Json& json) {
  json["devices"] = f.scenario.spec.cluster.devices;
  json["step_time_s"] = f.step_time.mean_s;
  json["tokens_per_s"] = f.tokens_per_step / f.step_time.mean_s;
  json["tokens_per_s_per_device"] = f.tokens_per_step / f.step_time.mean_s / f.scenario.spec.cluster.devices;
  json["mfu"] = f.utilisation.mfu;
  json["hfu"] = f.utilisation.hfu;
  json["bubble_fraction"] = f.bubble_fraction;
  for (const std::string& category : exposed_categories()) {
    const auto found = f.breakdown.find(category);
    json[category + "_s"] = found == f.breakdown.end() ? 0.0 : to_seconds(found->second.mean).value;
  }
  json["peak_bytes"] = f.memory.peak_bytes;
  json["limit_bytes"] = f.memory.limit_bytes;
  json["fits"] = f.memory.fits;
}

// "utilisation.mfu" in the forecast's JSON; nothing where it has no such member.
std::optional<Json> at_path(const Json& root, const std::string& path) {
  const Json* at = &root;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string step = path.substr(begin, end - begin);
    if (!at->is_object() || !at->contains(step)) return std::nullopt;
    at = &(*at)[step];
    begin = end + 1;
  }
  return *at;
}

// The columns that every line has, whatever `results` names.
bool is_fixed(const std::string& column) { return column == "step_time_s" || column == "tokens_per_s"; }

// The sweep's own paths, each once, without those that name a fixed column.
std::vector<std::string> chosen_results(const Sweep& sweep) {
  std::vector<std::string> chosen;
  for (const std::string& path : sweep.results) {
    if (!is_fixed(path) && std::find(chosen.begin(), chosen.end(), path) == chosen.end()) chosen.push_back(path);
  }
  return chosen;
}

std::vector<std::string> result_columns(const Sweep& sweep) {
  if (!sweep.results.empty()) {
    std::vector<std::string> columns = {"step_time_s", "tokens_per_s"};
    const std::vector<std::string> chosen = chosen_results(sweep);
    columns.insert(columns.end(), chosen.begin(), chosen.end());
    return columns;
  }
  std::vector<std::string> columns = {"devices", "step_time_s", "tokens_per_s",   "tokens_per_s_per_device",
                                      "mfu",     "hfu",         "bubble_fraction"};
  for (const std::string& category : exposed_categories()) columns.push_back(category + "_s");
  columns.insert(columns.end(), {"peak_bytes", "limit_bytes", "fits"});
  return columns;
}

std::string cell(const Json& value) {
  if (value.is_null()) return "";
  const std::string text =
      value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string header_row(const Sweep& sweep) {
  std::string row = "point";
  for (const std::string& key : sweep.keys()) row += "," + cell(key);
  for (const std::string& column : result_columns(sweep)) row += "," + cell(column);
  return row + ",error,message\n";
}

std::string table_row(const Sweep& sweep, const Json& record) {
  const auto member = [](const Json& json, const std::string& key) {
    return json.contains(key) ? cell(json[key]) : "";
  };
  std::string row = record["point"].dump();
  for (const std::string& key : sweep.keys()) row += "," + member(record["values"], key);
  for (const std::string& column : result_columns(sweep)) row += "," + member(record, column);
  const Json error = record.value("error", Json::object());
  return row + "," + member(error, "kind") + "," + member(error, "message") + "\n";
}

void keep_best(Json record, std::vector<Json>& best) {
  const auto rate = [](const Json& r) { return r["tokens_per_s"].get<double>(); };
  const auto place = std::find_if(best.begin(), best.end(), [&](const Json& r) { return rate(r) < rate(record); });
  best.insert(place, std::move(record));
  if (best.size() > most_best) best.pop_back();
}

// What a line cannot say of a forecast; empty: it may be one. Null stands where a forecast has no number.
std::string fault_of_forecast(const Sweep& sweep, const Json& record) {
  const auto at_least = [&](const std::string& key, bool above_zero) -> std::string {
    if (!record.contains(key)) return fmt::format("'{}' is missing", key);
    const Json& value = record[key];
    const bool wrong = above_zero ? !value.is_number() || value.get<double>() <= 0
                                  : !value.is_null() && (!value.is_number() || value.get<double>() < 0);
    if (!wrong) return {};
    return fmt::format("{} is {}, expected a number {}", key, shown(value), above_zero ? "above 0" : "of 0 or more");
  };
  for (const std::string& key : result_columns(sweep)) {
    if (!sweep.results.empty() && !is_fixed(key)) continue;
    if (key == "fits") {
      if (!record.value(key, Json()).is_boolean()) return "'fits' is neither true nor false";
      continue;
    }
    const bool above_zero = key == "step_time_s" || key.starts_with("tokens_per_s") || key == "devices";
    if (std::string why = at_least(key, above_zero); !why.empty()) return why;
  }
  return {};
}

std::string fault_of_line(const Sweep& sweep, std::int64_t point, const std::string& line) {
  const Json record = Json::parse(line, nullptr, false);
  if (!record.is_object()) return "not a line of results";
  const std::vector<std::string> names = sweep.keys();
  const std::vector<Json> values = sweep.values(point);
  const Json found = record.value("values", Json());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!found.is_object() || !found.contains(names[i]) || found[names[i]].dump() != values[i].dump())
      return fmt::format("the value of {} is not the point's, {}", names[i], shown(values[i]));
  }
  if (!record.contains("error")) return fault_of_forecast(sweep, record);
  const Json& error = record["error"];
  return error.is_object() && error.contains("kind") && error["kind"].is_string() ? "" : "the error has no kind";
}

Error broken_line(const fs::path& file, std::int64_t line, std::string what) {
  return make_error(ErrorCode::unreadable, std::move(what), fmt::format("{}:{}", file.string(), line));
}

}  // namespace

std::string record_start(const Sweep& sweep, std::int64_t point) {
  return fmt::format("{{\"sweep\":\"{}\",\"point\":{},", sweep.digest, point);
}

std::string record_of(const Sweep& sweep, std::int64_t point, const Result<Forecast>& forecast) {
  Json json;
  const std::vector<std::string> names = sweep.keys();
  const std::vector<Json> values = sweep.values(point);
  for (std::size_t i = 0; i < names.size(); ++i) json["values"][names[i]] = values[i];
  if (!forecast) {
    json["error"] = error_json(forecast.errors());
  } else if (sweep.results.empty()) {
    add_usual(*forecast, json);
  } else {
    const Json whole = to_json(*forecast);
    json["step_time_s"] = forecast->step_time.mean_s;
    json["tokens_per_s"] = forecast->tokens_per_step / forecast->step_time.mean_s;
    for (const std::string& path : chosen_results(sweep)) {
      if (auto found = at_path(whole, path)) json[path] = std::move(*found);
    }
  }
  return record_start(sweep, point) + json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(1) + "\n";
}

Result<FinishedPoints> read_finished(const fs::path& file, const Sweep& sweep, const Shard& shard) {
  FinishedPoints finished;
  std::error_code code;
  if (!fs::exists(file, code)) return finished;
  std::ifstream in(file, std::ios::binary);
  if (!in) return make_error(ErrorCode::unreadable, "cannot be read", file.string());
  const std::int64_t own = shard.size(sweep.points);
  std::string line;
  while (std::getline(in, line)) {
    if (in.eof()) break;  // no line end: the process was killed in the middle
    const std::int64_t number = finished.points + 1;
    if (finished.points == own) return broken_line(file, number, "more lines than the shard has points");
    if (!line.starts_with(fmt::format("{{\"sweep\":\"{}\",", sweep.digest))) {
      return broken_line(file, number,
                         "not a result of this sweep by this version of stepcast: choose another --results, or "
                         "--restart to begin again");
    }
    if (!line.starts_with(record_start(sweep, shard.point(finished.points))) || !line.ends_with('}')) {
      return broken_line(file, number, "not the line of the point that should stand here");
    }
    if (std::string why = fault_of_line(sweep, shard.point(finished.points), line); !why.empty())
      return broken_line(file, number, std::move(why));
    finished.points += 1;
    finished.bytes += line.size() + 1;
  }
  return finished;
}

Result<ResultCounts> tabulate(const fs::path& results, const Sweep& sweep, const fs::path& table) {
  std::ifstream in(results, std::ios::binary);
  if (!in) return make_error(ErrorCode::unreadable, "cannot be read", results.string());
  const fs::path part = table.empty() ? fs::path() : fs::path(fmt::format("{}.{}.part", table.string(), ::getpid()));
  std::ofstream out;
  if (!table.empty()) {
    out.open(part, std::ios::binary | std::ios::trunc);
    out << header_row(sweep);
  }
  ResultCounts counts;
  counts.nowhere = chosen_results(sweep);
  std::string line;
  while (std::getline(in, line) && !in.eof()) {
    const Json record = Json::parse(line, nullptr, false);
    ++counts.points;
    if (!record.is_object() || !record.contains("point") || !record.contains("values") ||
        !record["values"].is_object()) {
      std::error_code ignored;
      if (!table.empty()) fs::remove(part, ignored);
      return broken_line(results, counts.points, "not a line of results");
    }
    if (!table.empty()) out << table_row(sweep, record);
    if (record.contains("error")) {
      ++counts.failed[record["error"].value("kind", "invalid")];
    } else {
      ++counts.done;
      std::erase_if(counts.nowhere, [&](const std::string& path) { return record.contains(path); });
      if (record.contains("tokens_per_s") && record["tokens_per_s"].is_number()) keep_best(record, counts.best);
    }
  }
  if (counts.done == 0) counts.nowhere.clear();
  if (table.empty()) return counts;
  out.close();
  std::error_code code;
  if (out) fs::rename(part, table, code);
  if (!out || code) {
    const std::string why = code ? code.message() : std::string(std::strerror(errno));
    fs::remove(part, code);
    return make_error(ErrorCode::unwritable, "cannot be written: " + why, table.string());
  }
  return counts;
}

fs::path ResultFiles::lines() const { return prefix.string() + ".jsonl"; }
fs::path ResultFiles::table() const { return prefix.string() + ".csv"; }
fs::path ResultFiles::shard(const Shard& shard) const {
  return fmt::format("{}.shard-{}-of-{}.jsonl", prefix.string(), shard.index, shard.count);
}

}  // namespace stepcast::scenarios
