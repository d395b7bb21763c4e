// One row a scenario with the figures that people put in spreadsheets; categories of the breakdown as columns.
#include "scenarios/report/report.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {

std::string to_csv(const Forecast& forecast) {
  const auto& spec = forecast.scenario.spec;
  const double step = forecast.step_time.mean_s;
  std::vector<std::string> header, row;
  const auto text = [&](const char* name, const std::string& value) {
    header.emplace_back(name);
    row.push_back(value);
  };
  const auto number = [&](const std::string& name, double value) { text(name.c_str(), csv_number(value)); };
  text("name", forecast.scenario.name);
  text("model", spec.model.name);
  text("cluster", spec.cluster.name);
  number("devices", spec.cluster.devices);
  number("tp", spec.degrees.tp);
  number("cp", spec.degrees.cp);
  number("pp", spec.degrees.pp);
  number("vpp", spec.degrees.vpp);
  number("ep", spec.degrees.ep);
  number("etp", spec.degrees.etp.value_or(1));
  text("schedule", std::string(parallelism::info(spec.schedule).name));
  text("precision", spec.recipe.name);
  number("sequence_length", spec.workload.sequence_length);
  number("global_batch", spec.workload.global_batch);
  number("micro_batch", spec.workload.micro_batch);
  number("step_time_s", step);
  text("step_time_p95_s", forecast.step_time.p95_s >= 0 ? csv_number(forecast.step_time.p95_s) : "");
  text("step_time_p99_s", forecast.step_time.p99_s >= 0 ? csv_number(forecast.step_time.p99_s) : "");
  number("samples", forecast.step_time.samples);
  number("tokens_per_s", step > 0 ? forecast.tokens_per_step / step : 0);
  number("mfu", forecast.utilisation.mfu);
  number("hfu", forecast.utilisation.hfu);
  text("convention", forecast.utilisation.convention);
  number("peak_flops_per_device", forecast.utilisation.peak_flops_per_device);
  number("bubble_fraction", forecast.bubble_fraction);
  number("peak_memory_bytes", forecast.memory.peak_bytes);
  text("fits", forecast.memory.fits ? "true" : "false");
  for (int c = 0; c < sim::category_count; ++c) {
    const std::string category = sim::name(static_cast<sim::Category>(c));
    const auto found = forecast.breakdown.find(category);
    number(category + "_s", found == forecast.breakdown.end() ? 0 : to_seconds(found->second.mean).value);
  }
  return csv_line(header) + csv_line(row);
}

}  // namespace stepcast::scenarios
