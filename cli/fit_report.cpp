#include "cli/fit_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/render.h"
#include "scenarios/report/text_table.h"
#include "validation/components/component_report.h"

namespace stepcast::cli {
namespace {

using Json = nlohmann::ordered_json;
using scenarios::csv_number;
using scenarios::percent_text;
using validation::FitReport;
using validation::Residuals;

Json residuals_json(const Residuals& r) {
  return {{"n", r.n}, {"median_abs", r.median_abs}, {"p90_abs", r.p90_abs}, {"bias", r.bias}, {"worst", r.worst}};
}

Json json_of(const std::vector<FitReport>& reports) {
  Json json = {{"schema", "stepcast.fits/1"}};
  json["fits"] = Json::array();
  for (const FitReport& report : reports) {
    Json fit = {{"component", report.component}, {"device", report.device}, {"variant", report.variant},
                {"form", report.form},           {"source", report.source}, {"converged", report.converged}};
    for (const auto& constant : report.constants) {
      fit["constants"][constant.name] = {{"fitted", constant.fitted}};
      if (constant.has_committed) fit["constants"][constant.name]["catalogue"] = constant.committed;
    }
    if (report.committed.n > 0) fit["catalogue"] = residuals_json(report.committed);
    if (report.fitted.n > 0) fit["fitted"] = residuals_json(report.fitted);
    if (report.cross_validated.n > 0) fit["cross_validated"] = residuals_json(report.cross_validated);
    json["fits"].push_back(std::move(fit));
  }
  return json;
}

std::string cell(const Residuals& r, double value) { return r.n > 0 ? percent_text(value) : "-"; }

std::string table_of(const std::vector<FitReport>& reports, bool colour) {
  scenarios::TextTable table(
      {"component", "<device", "<variant", "rows", "median", "p90", "bias", "refit median", "held out"});
  for (const FitReport& report : reports) {
    const Residuals& judged = report.committed;
    table.row({report.component, report.device, report.variant, fmt::format("{}", std::max(judged.n, report.fitted.n)),
               cell(judged, judged.median_abs), cell(judged, judged.p90_abs), cell(judged, judged.bias),
               cell(report.fitted, report.fitted.median_abs),
               cell(report.cross_validated, report.cross_validated.median_abs)});
  }
  scenarios::TextTable pooled({"component", "sets", "rows", "median of medians", "worst median", "median p90"});
  for (const auto& summary : validation::summarise(reports)) {
    pooled.row({summary.component, std::to_string(summary.sets), std::to_string(summary.rows),
                percent_text(summary.median_abs), percent_text(summary.worst_median_abs),
                percent_text(summary.p90_abs)});
  }
  return scenarios::bold("Component measurements against the catalogue's constants (relative error of time)", colour) +
         "\n" + table.text() + "\n" + scenarios::bold("By component", colour) + "\n" + pooled.text();
}

std::string csv_of(const std::vector<FitReport>& reports) {
  std::string text = scenarios::csv_line({"component", "device", "variant", "rows", "median_abs", "p90_abs", "bias",
                                          "fitted_median_abs", "cross_validated_median_abs"});
  const auto number = [](const Residuals& r, double value) { return r.n > 0 ? csv_number(value) : std::string{}; };
  for (const FitReport& report : reports) {
    const Residuals& judged = report.committed;
    text += scenarios::csv_line({report.component, report.device, report.variant,
                                 fmt::format("{}", std::max(judged.n, report.fitted.n)),
                                 number(judged, judged.median_abs), number(judged, judged.p90_abs),
                                 number(judged, judged.bias), number(report.fitted, report.fitted.median_abs),
                                 number(report.cross_validated, report.cross_validated.median_abs)});
  }
  return text;
}

}  // namespace

Result<Output> fit_report(const Invocation& invocation, validation::Refit refit) {
  const auto reports = validation::component_report(invocation.globals.catalog_root, refit);
  if (!reports) return reports.errors();
  return Output{render(
      invocation.globals, [&] { return json_of(*reports); },
      [&] { return table_of(*reports, invocation.globals.colour); }, [&] { return csv_of(*reports); })};
}

}  // namespace stepcast::cli
