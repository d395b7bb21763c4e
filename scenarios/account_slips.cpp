#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scenarios/account.h"
#include "scenarios/report/text_table.h"

namespace stepcast::scenarios {
namespace {

// What training steps reach: below are broken runs, above no published one (dense models at 8k on H100: about 0.55).
constexpr double lowest_reached = 0.03, highest_reached = 0.75;
constexpr double typical_mfu = 0.4;
constexpr double same_peak = 0.02;      // data sheets round: 989 and 990 are one chip
constexpr double widest_sparsity = 35;  // total over active parameters of published MoE models: 3 to 32

bool reached(double mfu) { return mfu >= lowest_reached && mfu <= highest_reached; }

Slip device_count(const AuditInput& input, double mfu) {
  const bool box_or_less = input.devices <= 8;
  const double needed = std::ceil(input.devices * mfu);
  return {fmt::format("device count missing: 100 % needs {:.0f} devices, {} needs {:.0f}; {:g} given", needed,
                      percent_text(typical_mfu), std::ceil(needed / typical_mfu), input.devices),
          0, box_or_less};
}

Slip total_parameters(const AuditInput& input, double mfu) {
  if (input.total_parameters && input.active_parameters && *input.total_parameters > *input.active_parameters) {
    return {"total instead of active parameters: no, the active ones were used", mfu, false};
  }
  if (input.model && !input.active_parameters) {
    return {"total instead of active parameters: no, the ledger counts the active ones", mfu, false};
  }
  const double fewest = mfu / highest_reached;
  return {fmt::format("total instead of active parameters: with {:.3g} times fewer active ones MFU is {}", fewest,
                      percent_text(highest_reached)),
          0, fewest <= widest_sparsity};
}

Slip after_top_k(const AuditInput& input, double mfu) {
  const double known = input.top_k.value_or(input.model && input.model->is_moe() ? input.model->moe.top_k : 0);
  if (known > 0) {
    return {fmt::format("tokens counted after top-k: divided by {:g}, MFU is {}", known, percent_text(mfu / known)),
            mfu / known, known > 1 && reached(mfu / known)};
  }
  std::string options;
  bool explains = false;
  for (const double k : {2.0, 4.0, 6.0, 8.0}) {
    options += fmt::format("{}{} at top-{:g}", options.empty() ? "" : ", ", percent_text(mfu / k), k);
    explains = explains || reached(mfu / k);
  }
  return {"tokens counted after top-k: MFU is " + options, 0, explains};
}

Slip other_peak(const AuditInput& input, double mfu) {
  std::string text =
      fmt::format("peak of another precision or with sparsity: {} against twice the peak, {} against four times",
                  percent_text(mfu / 2), percent_text(mfu / 4));
  double nearest = 0;
  std::string same, higher;
  for (const KnownPeak& known : input.known_peaks) {
    const double corrected = mfu * input.peak_flops / known.flops;
    if (std::abs(known.flops / input.peak_flops - 1) < same_peak) {
      same += (same.empty() ? "" : ", ") + known.name;
    } else if (corrected <= highest_reached && (nearest == 0 || corrected > nearest)) {
      nearest = corrected;
      higher = known.name;
    }
  }
  if (!same.empty()) text += fmt::format("; {:g} TFLOP/s is the peak of {}", input.peak_flops / 1e12, same);
  if (!higher.empty()) text += fmt::format("; on {} MFU would be {}", higher, percent_text(nearest));
  return {std::move(text), 0, reached(mfu / 2) || reached(mfu / 4)};
}

Slip wrong_unit(double mfu) {
  struct Unit {
    const char* text;
    double factor;
  };
  for (const Unit unit :
       {Unit{"wrong unit: a step time in minutes given as seconds, MFU is {}", 60},
        Unit{"wrong unit: a peak in PFLOP/s given as TFLOP/s, or tokens in thousands too many, MFU is {}", 1000},
        Unit{"wrong unit: a step time in hours given as seconds, MFU is {}", 3600}}) {
    if (reached(mfu / unit.factor)) {
      return {fmt::format(fmt::runtime(unit.text), percent_text(mfu / unit.factor)), mfu / unit.factor, true};
    }
  }
  return {"wrong unit: none of minutes, hours or PFLOP/s explains it", 0, false};
}

Slip several_steps(const AuditInput& input, double mfu) {
  const double fewest = mfu / highest_reached;
  return {
      fmt::format("time of one microbatch against tokens of a whole step: with {:.3g} times the time ({}) MFU is {}",
                  fewest, time_text(input.step_time_s * fewest), percent_text(highest_reached)),
      0, false};
}

}  // namespace

std::vector<Slip> likely_slips(const AuditInput& input, double mfu) {
  std::vector<Slip> slips = {device_count(input, mfu), total_parameters(input, mfu),
                             after_top_k(input, mfu),  other_peak(input, mfu),
                             wrong_unit(mfu),          several_steps(input, mfu)};
  std::stable_sort(slips.begin(), slips.end(), [](const Slip& a, const Slip& b) { return a.explains > b.explains; });
  return slips;
}

}  // namespace stepcast::scenarios
