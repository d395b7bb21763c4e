#include "validation/components/component_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <nlohmann/json.hpp>

#include "validation/components/component_data.h"

namespace stepcast::validation {
namespace {

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10, 2 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

// Judged by data that the constants did not see, where there is such; else by what the catalogue predicts.
const Residuals& judged(const FitReport& report) {
  return report.cross_validated.n > 0 ? report.cross_validated : report.committed;
}

double middle(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace

Result<std::vector<FitReport>> component_report(const std::filesystem::path& root, Refit refit) {
  const auto data = load_component_data(root);
  if (!data) return data.errors();
  std::vector<FitTask> tasks;
  for (const auto make :
       {gemm_tasks, attention_tasks, memory_tasks, expert_layer_tasks, collective_tasks, dispatch_tasks}) {
    std::ranges::move(make(*data), std::back_inserter(tasks));
  }
  std::erase_if(tasks, [](const FitTask& task) { return task.measured.empty(); });
  std::vector<FitReport> reports(tasks.size());
  tbb::parallel_for(std::size_t{0}, tasks.size(), [&](std::size_t i) { reports[i] = run_fit(tasks[i], refit); });
  return reports;
}

std::vector<ComponentSummary> summarise(const std::vector<FitReport>& reports) {
  std::vector<ComponentSummary> summaries;
  std::vector<std::string> names;
  for (const FitReport& report : reports) {
    if (std::ranges::find(names, report.component) == names.end()) names.push_back(report.component);
  }
  for (const std::string& name : names) {
    ComponentSummary summary;
    summary.component = name;
    std::vector<double> medians, p90s;
    for (const FitReport& report : reports) {
      if (report.component != name || judged(report).n == 0) continue;
      ++summary.sets;
      summary.rows += judged(report).n;
      medians.push_back(judged(report).median_abs);
      p90s.push_back(judged(report).p90_abs);
      summary.worst_median_abs = std::max(summary.worst_median_abs, judged(report).median_abs);
    }
    summary.median_abs = middle(medians);
    summary.p90_abs = middle(p90s);
    summaries.push_back(summary);
  }
  return summaries;
}

std::string fitted_constants_json(const std::vector<FitReport>& reports) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  for (const FitReport& report : reports) {
    if (report.constants.empty() || report.fitted.n == 0) continue;
    const std::string block = report.component == "expert_layer" ? "grouped" : report.component;
    nlohmann::ordered_json& entry = root[report.device][block][report.variant];
    for (const FittedConstant& constant : report.constants) entry[constant.name] = rounded(constant.fitted);
    entry["provenance"] = "measured_fit";
    entry["source"] = fmt::format("{}: {} rows, held-out median {:.1f} %, p90 {:.1f} %", report.source, report.fitted.n,
                                  100 * judged(report).median_abs, 100 * judged(report).p90_abs);
  }
  return root.dump(2) + "\n";
}

}  // namespace stepcast::validation
