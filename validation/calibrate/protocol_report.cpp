// The protocol's figures as JSON and as the table of the README.
#include <fmt/format.h>

#include "scenarios/report/text_table.h"
#include "validation/calibrate/protocol.h"

namespace stepcast::validation {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ErrorStats& s) {
  return {{"n", s.n}, {"median_abs", s.median_abs}, {"p90_abs", s.p90_abs}, {"bias", s.bias}, {"max_abs", s.max_abs}};
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }
std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

}  // namespace

nlohmann::ordered_json to_json(const Protocol& p) {
  Json lines = Json::array(), splits = Json::array(), families = Json::object();
  for (const ProtocolLine& l : p.lines) {
    Json line = {{"figure", l.figure},     {"errors", json_of(l.stats)},
                 {"mean_abs", l.mean_abs}, {"must", l.must},
                 {"aim", l.aim},           {"note", l.note}};
    lines.push_back(std::move(line));
  }
  for (const ProtocolSplit& s : p.splits)
    splits.push_back({{"kind", s.kind}, {"left_out", s.left_out}, {"errors", json_of(s.stats)}});
  for (const auto& [name, stats] : p.families) families[name] = json_of(stats);
  return {{"schema", "stepcast.protocol/1"},
          {"figures", lines},
          {"left_out", splits},
          {"families", families},
          {"calibration", to_json(p.fitted)},
          {"interrupted", p.interrupted}};
}

std::string to_table(const Protocol& p) {
  scenarios::TextTable figures({"<figure", "n", "median", "p90", "mean", "bias", "<must", "<aim"});
  for (const ProtocolLine& l : p.lines) {
    figures.row({l.figure, std::to_string(l.stats.n), percent(l.stats.median_abs), percent(l.stats.p90_abs),
                 percent(l.mean_abs), signed_percent(l.stats.bias), l.must, l.aim});
  }
  std::string out = "Protocol\n" + figures.text();
  for (const ProtocolLine& l : p.lines) {
    if (!l.note.empty()) out += scenarios::wrapped(fmt::format("  {}: {}", l.figure, l.note), 4) + "\n";
  }
  scenarios::TextTable splits({"<split", "<left out", "n", "median", "p90", "bias"});
  for (const ProtocolSplit& s : p.splits) {
    splits.row({s.kind, s.left_out, std::to_string(s.stats.n), percent(s.stats.median_abs), percent(s.stats.p90_abs),
                signed_percent(s.stats.bias)});
  }
  if (!splits.empty()) out += "\nLeft out in turn\n" + splits.text();
  scenarios::TextTable families({"<family, fitted on all", "n", "median", "p90", "bias"});
  for (const auto& [name, s] : p.families) {
    families.row({name, std::to_string(s.n), percent(s.median_abs), percent(s.p90_abs), signed_percent(s.bias)});
  }
  if (!families.empty()) out += "\nFamilies of ten rows and more\n" + families.text();
  return out + "\nFit to all rows\n" + to_table(p.fitted);
}

}  // namespace stepcast::validation
