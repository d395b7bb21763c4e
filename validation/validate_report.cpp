// A validation as JSON with the fields that others rely on, and as a table.
#include <fmt/format.h>

#include "validation/validate.h"

namespace stepcast::validation {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ErrorStats& s) {
  return {{"n", s.n}, {"median_abs", s.median_abs}, {"p90_abs", s.p90_abs}, {"bias", s.bias}, {"max_abs", s.max_abs}};
}

Json json_of(const std::map<std::string, ErrorStats>& groups) {
  Json out = Json::object();
  for (const auto& [name, stats] : groups) out[name.empty() ? "(not given)" : name] = json_of(stats);
  return out;
}

std::string stats_line(const std::string& name, const ErrorStats& s) {
  return fmt::format("  {:<34} {:>5}  {:>8.1f} %  {:>8.1f} %  {:>+8.1f} %  {:>8.1f} %\n",
                     name.empty() ? "(not given)" : name.substr(0, 34), s.n, 100 * s.median_abs, 100 * s.p90_abs,
                     100 * s.bias, 100 * s.max_abs);
}

}  // namespace

nlohmann::ordered_json to_json(const Validation& v) {
  Json rows = Json::array();
  for (const RowResult& r : v.rows) {
    Json row = {{"id", r.id},
                {"family", r.family},
                {"measured_s", r.measured_s},
                {"predicted_s", r.predicted_s},
                {"error", r.error},
                {"range_s", {r.low_s, r.high_s}},
                {"predicted_peak_memory_gb", r.predicted_peak_memory_gb}};
    if (r.measured_peak_memory_gb > 0) {
      row["measured_peak_memory_gb"] = r.measured_peak_memory_gb;
      row["memory_report"] = r.memory_report;
    }
    row["fits"] = r.fits;
    row["assumed"] = r.assumed;
    rows.push_back(std::move(row));
  }
  Json refused = Json::array();
  for (const Refusal& r : v.refused) refused.push_back({{"id", r.id}, {"line", r.line}, {"why", r.why}});
  Json correlation = Json::object();
  for (const auto& [name, tau] : v.layout_rank_correlation) correlation[name] = tau;
  return {{"schema", "stepcast.validation/1"},
          {"rows", rows},
          {"refused", refused},
          {"warnings", v.warnings},
          {"summary",
           {{"all", json_of(v.all)},
            {"by_family", json_of(v.by_family)},
            {"by_device", json_of(v.by_device)},
            {"by_kind", json_of(v.by_kind)},
            {"by_software", json_of(v.by_software)},
            {"peak_memory", json_of(v.memory)}}},
          {"layout_rank_correlation", correlation},
          {"interrupted", v.interrupted}};
}

std::string to_table(const Validation& v, bool every_row) {
  std::string out;
  if (every_row) {
    out += fmt::format("  {:<22} {:>10} {:>10} {:>9}   {:<23}\n", "row", "measured s", "forecast s", "error",
                       "range over open fields s");
    for (const RowResult& r : v.rows) {
      out += fmt::format("  {:<22} {:>10.4g} {:>10.4g} {:>+8.1f} %   {:.4g} to {:.4g}\n", r.id.substr(0, 22),
                         r.measured_s, r.predicted_s, 100 * r.error, r.low_s, r.high_s);
    }
    out += "\n";
  }
  const std::string head =
      fmt::format("  {:<34} {:>5}  {:>10}  {:>10}  {:>10}  {:>10}\n", "", "rows", "median", "p90", "bias", "largest");
  const auto block = [&](const char* title, const std::map<std::string, ErrorStats>& groups) {
    out += fmt::format("\nBy {}\n{}", title, head);
    for (const auto& [name, stats] : groups) out += stats_line(name, stats);
  };
  out += "Error of the step time\n" + head + stats_line("all", v.all);
  block("kind", v.by_kind);
  block("family", v.by_family);
  block("device", v.by_device);
  block("software", v.by_software);
  if (v.memory.n > 0) out += "\nError of peak memory\n" + head + stats_line("all", v.memory);
  if (!v.layout_rank_correlation.empty()) {
    out += "\nOrder of layouts within a sweep (Kendall's tau)\n";
    for (const auto& [name, tau] : v.layout_rank_correlation)
      out += fmt::format("  {:<70} {:>6.2f}\n", name.substr(0, 70), tau);
  }
  if (!v.refused.empty()) {
    out += fmt::format("\nRefused {}\n", v.refused.size());
    for (const Refusal& r : v.refused)
      out += fmt::format("  {:<22} line {:>5}: {}\n", r.id.substr(0, 22), r.line, r.why);
  }
  for (std::size_t i = 0; i < v.warnings.size(); ++i)
    out += fmt::format("{}  {}\n", i == 0 ? "\nWarnings\n" : "", v.warnings[i]);
  return out;
}

}  // namespace stepcast::validation
