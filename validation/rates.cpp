#include "validation/rates.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "models/ledger.h"

namespace stepcast::validation {
namespace {

// Within a factor of 2.5 of 10^power, either way up.
bool near_power(double ratio, int power) {
  constexpr double slack = 0.4;
  return ratio > 0 && std::abs(std::abs(std::log10(ratio)) - power) < slack;
}

// Model FLOP/s of a device at the row's step time.
double derived_rate(const MeasuredRun& run, const parallelism::StepSpec& spec) {
  const auto sequence = models::one_sequence(spec.workload.sequence_length, spec.model.window);
  const double flops = models::flops(spec.model, sequence, {}).total() * spec.workload.global_batch;
  return flops / (run.step_time_s() * spec.cluster.devices);
}

}  // namespace

std::string mixed_units(const MeasuredRun& run, const parallelism::StepSpec& spec) {
  const double derived = derived_rate(run, spec);
  const double peak = spec.cluster.device.peak_flops.at(spec.recipe.gemm);
  struct Reported {
    const char* column;
    bool percent;
  };
  constexpr std::array<Reported, 3> columns{
      {{"model_tflops_per_device", false}, {"mfu_percent", true}, {"hfu_percent", true}}};
  for (const auto& [column, percent] : columns) {
    const double unit = percent ? peak / 100 : 1e12;
    const auto reported = run.number(column);
    if (!reported) continue;
    const double ratio = *reported * unit / derived;
    const bool share = percent && ratio < 1 && near_power(ratio, 2);  // 0.4 for 40 %
    if (!near_power(ratio, 3) && !share) continue;
    return fmt::format(
        "the model's FLOPs in step_time_s {} are {:.4g} {}, but {} says {}: {}", run.text("step_time_s"),
        derived / unit, percent ? "% of the peak" : "TFLOP/s a device", column, run.text(column),
        share ? "a fraction where percent is meant?" : "a factor near 1,000, so units are mixed (milliseconds?)");
  }
  return {};
}

}  // namespace stepcast::validation
