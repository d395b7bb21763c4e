// A calibration as JSON, as a table and as CSV.
#include <cmath>

#include <fmt/format.h>

#include "scenarios/report/text_table.h"
#include "validation/calibrate/calibrate.h"

namespace stepcast::validation {
namespace {

using Json = nlohmann::ordered_json;
using scenarios::csv_number;
using scenarios::percent_text;
using scenarios::TextTable;

Json json_of(const ErrorStats& s) {
  return {{"n", s.n}, {"median_abs", s.median_abs}, {"p90_abs", s.p90_abs}, {"bias", s.bias}, {"max_abs", s.max_abs}};
}

Json json_of(const std::vector<Refusal>& refused) {
  Json out = Json::array();
  for (const Refusal& r : refused) out.push_back({{"id", r.id}, {"line", r.line}, {"why", r.why}});
  return out;
}

Json json_of(const FittedValue& v) {
  const CalibrationConstant& c = v.constant;
  return {{"name", c.name},
          {"meaning", c.meaning},
          {"form", c.form == CalibrationConstant::Form::factor ? "factor" : "share"},
          {"keys", c.target.keys},
          {"prior", c.prior},
          {"prior_sigma", c.sigma},
          {"value", v.value},
          {"interval_90", {v.low, v.high}},
          {"told_by_data", v.told},
          {"rows", v.rows},
          {"at_bound", v.at_bound},
          {"source", c.source}};
}

Json json_of(const Diagnosis& d) {
  Json ridges = Json::array(), correlations = Json::array(), outliers = Json::array(), next = Json::array();
  for (const Ridge& r : d.ridges) {
    Json parts = Json::object();
    for (const auto& [name, moved] : r.parts) parts[name] = moved;
    ridges.push_back({{"told_by_data", r.told}, {"moves_together", parts}});
  }
  for (const Correlation& c : d.correlations)
    correlations.push_back({{"constants", {c.first, c.second}}, {"r", c.value}});
  for (const Outlier& o : d.outliers) outliers.push_back({{"id", o.id}, {"error", o.error}, {"sigmas", o.sigmas}});
  for (const NextMeasurement& n : d.next) {
    next.push_back({{"constant", n.constant},
                    {"measurement", n.measurement},
                    {"half_width_before", n.interval_before},
                    {"half_width_after", n.interval_after}});
  }
  return {{"not_seen", d.blind},
          {"ridges", ridges},
          {"correlations", correlations},
          {"outliers", outliers},
          {"next_measurements", next}};
}

Json json_of(const Prediction& p) {
  Json row = {{"id", p.id}};
  if (p.measured_s > 0) row["measured_s"] = p.measured_s;
  row["catalogue_s"] = p.plain_s;
  row["predicted_s"] = p.predicted_s;
  if (p.measured_s > 0) row["error"] = p.predicted_s / p.measured_s - 1;
  row["interval_90_s"] = {p.low_s, p.high_s};
  row["half_width_log"] = {
      {"constants", p.from_constants}, {"residuals", p.from_residuals}, {"software", p.from_software}};
  row["range_open_fields_s"] = {p.open_low_s, p.open_high_s};
  row["open_fields"] = p.open_fields;
  if (!p.nearest.empty()) row["nearest_fitted"] = p.nearest;
  row["breaks"] = p.breaks;
  return row;
}

std::string value_text(const FittedValue& v, double value) {
  return fmt::format("{}{:.3g}", v.constant.form == CalibrationConstant::Form::factor ? "x" : "", value);
}

std::string constants_table(const Calibration& c) {
  TextTable table({"<constant", "prior", "fitted", "90 % interval", "told by data", "rows"});
  for (const FittedValue& v : c.values) {
    if (v.rows == 0) continue;
    table.row({v.constant.name, value_text(v, v.constant.prior),
               value_text(v, v.value) + (v.at_bound ? " (bound)" : ""), fmt::format("{:.3g} to {:.3g}", v.low, v.high),
               fmt::format("{:.0f} %", 100 * v.told), std::to_string(v.rows)});
  }
  return table.text();
}

std::string error_line(const char* name, const ErrorStats& s) {
  return fmt::format("  {:<40} n {:>4}   median {:>5.1f} %   p90 {:>5.1f} %   bias {:>+5.1f} %\n", name, s.n,
                     100 * s.median_abs, 100 * s.p90_abs, 100 * s.bias);
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : between) + w;
  return out;
}

std::string diagnosis_text(const Diagnosis& d) {
  std::string out;
  if (!d.ridges.empty())
    out += "\nCannot be told apart (they move together, by these factors, and no fitted time notices)\n";
  for (const Ridge& r : d.ridges) {
    std::vector<std::string> parts;
    for (const auto& [name, moved] : r.parts) parts.push_back(fmt::format("{} {:.2f}", name, moved));
    out +=
        fmt::format("  {}   (data {:.0f} %, prior {:.0f} %)\n", joined(parts, ", "), 100 * r.told, 100 - 100 * r.told);
  }
  for (const Correlation& c : d.correlations) {
    out += fmt::format("  correlation {:+.2f}: {} and {}\n", c.value, c.first, c.second);
  }
  if (!d.blind.empty()) out += "\nNot seen by the data (kept at the prior): " + joined(d.blind, ", ") + "\n";
  if (!d.outliers.empty()) out += "\nRows that disagree with the rest\n";
  for (const Outlier& o : d.outliers)
    out += fmt::format("  {:<24} {:>+7.1f} %   {:.1f} sigma\n", o.id, 100 * o.error, o.sigmas);
  if (!d.next.empty()) out += "\nWhat would narrow the forecasts most (90 % half width from the constants)\n";
  for (const NextMeasurement& n : d.next) {
    out += fmt::format("  {:<24} {:.1f} % -> {:.1f} %: {}\n", n.constant, 100 * n.interval_before,
                       100 * n.interval_after, n.measurement.empty() ? "measure it by itself" : n.measurement);
  }
  return out;
}

std::string predictions_text(const Calibration& c) {
  if (c.predicted.rows.empty()) return {};
  TextTable table({"<row", "catalogue s", "forecast s", "90 % interval s", "measured s", "error"});
  for (const Prediction& p : c.predicted.rows) {
    table.row({p.id, fmt::format("{:.4g}", p.plain_s), fmt::format("{:.4g}", p.predicted_s),
               fmt::format("{:.4g} to {:.4g}", p.low_s, p.high_s),
               p.measured_s > 0 ? fmt::format("{:.4g}", p.measured_s) : "-",
               p.measured_s > 0 ? fmt::format("{:+.1f} %", 100 * (p.predicted_s / p.measured_s - 1)) : "-"});
  }
  std::string out = "\nForecasts\n" + table.text();
  if (c.predicted.measured > 0) {
    out += error_line("predicted rows that were measured", c.predicted_errors);
    out += fmt::format("  measured time inside the interval: {} of {}\n", c.predicted.inside, c.predicted.measured);
  }
  for (const Prediction& p : c.predicted.rows) {
    if (p.breaks.empty()) continue;
    out += fmt::format("  {} against {}: {}\n", p.id, p.nearest, joined(p.breaks, "; "));
  }
  return out;
}

}  // namespace

nlohmann::ordered_json to_json(const Calibration& c) {
  Json values = Json::array(), rows = Json::array(), predictions = Json::array();
  for (const FittedValue& v : c.values) values.push_back(json_of(v));
  for (const CalibratedRow& r : c.rows) {
    rows.push_back({{"id", r.id},
                    {"family", r.family},
                    {"device", r.device},
                    {"software", r.software},
                    {"rows", r.rows},
                    {"measured_s", r.measured_s},
                    {"catalogue_s", r.plain_s},
                    {"fitted_s", r.fitted_s},
                    {"left_out_s", r.left_out_s},
                    {"spread", r.spread}});
  }
  for (const Prediction& p : c.predicted.rows) predictions.push_back(json_of(p));
  return {
      {"schema", "stepcast.calibration/1"},
      {"profile", c.profile},
      {"constants", values},
      {"errors", {{"catalogue", json_of(c.before)}, {"fitted", json_of(c.after)}, {"left_out", json_of(c.left_out)}}},
      {"residual_sigma", c.sigma},
      {"family_sigma", c.family_sigma},
      {"diagnosis", json_of(c.diagnosis)},
      {"rows", rows},
      {"predictions", predictions},
      {"prediction_errors", json_of(c.predicted_errors)},
      {"covered", {{"inside", c.predicted.inside}, {"measured", c.predicted.measured}}},
      {"refused", json_of(c.refused)},
      {"refused_predictions", json_of(c.predicted.refused)},
      {"warnings", c.warnings},
      {"iterations", c.iterations},
      {"forecasts", c.forecasts},
      {"converged", c.converged},
      {"interrupted", c.interrupted}};
}

std::string to_table(const Calibration& c) {
  std::string out = "Constants\n" + constants_table(c) + "\nErrors of step times\n";
  out += error_line("with the catalogue's constants", c.before);
  out += error_line("fitted", c.after);
  out += error_line("each row as if left out", c.left_out);
  out += fmt::format("  spread of a row {:.1f} %, of whole families {:.1f} %; {} iterations, {} forecasts{}\n",
                     100 * c.sigma, 100 * c.family_sigma, c.iterations, c.forecasts,
                     c.converged ? "" : "; not converged: raise --iterations");
  out += diagnosis_text(c.diagnosis);
  out += predictions_text(c);
  const auto refusals = [&](const char* title, const std::vector<Refusal>& refused) {
    if (!refused.empty()) out += fmt::format("\n{} {}\n", title, refused.size());
    for (const Refusal& r : refused)
      out += r.line > 0 ? fmt::format("  {:<22} line {:>5}: {}\n", r.id, r.line, r.why)
                        : fmt::format("  {:<22} {}\n", r.id, r.why);
  };
  refusals("Refused", c.refused);
  refusals("Not predicted", c.predicted.refused);
  for (const std::string& w : c.warnings) out += "\nwarning: " + w + "\n";
  return out;
}

std::string to_csv(const Calibration& c) {
  std::string out = scenarios::csv_line(
      {"set", "id", "family", "measured_s", "catalogue_s", "predicted_s", "left_out_s", "low_s", "high_s"});
  for (const CalibratedRow& r : c.rows) {
    out += scenarios::csv_line({"fit", r.id, r.family, csv_number(r.measured_s), csv_number(r.plain_s),
                                csv_number(r.fitted_s), csv_number(r.left_out_s), "", ""});
  }
  for (const Prediction& p : c.predicted.rows) {
    out += scenarios::csv_line({"predict", p.id, "", p.measured_s > 0 ? csv_number(p.measured_s) : "",
                                csv_number(p.plain_s), csv_number(p.predicted_s), "", csv_number(p.low_s),
                                csv_number(p.high_s)});
  }
  return out;
}

}  // namespace stepcast::validation
