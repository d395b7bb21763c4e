#include "validation/calibrate/protocol.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

namespace stepcast::validation {
namespace {

using Keep = std::function<bool(const Observation&)>;

constexpr int small_job = 64, large_job = 512;
constexpr double saving_from_s = 0.4;
constexpr int family_from = 10;

// A box whose own sustained level is an input that its rows do not state: no evidence about its device, so no fit takes
// it but that of its level (one_box). Its rows count in every error.
constexpr const char* box_of_unknown_level = "b200";

// One set of rows with the fit to all of them, and forecasts at other constants.
class Splits {
 public:
  Splits(Evaluator& evaluator, const Fit& full) : evaluator_(evaluator), full_(full) {}

  [[nodiscard]] const std::vector<Observation>& rows() const { return evaluator_.rows(); }
  [[nodiscard]] const Fit& full() const { return full_; }

  [[nodiscard]] Fit fit(const Keep& keep) const {
    std::vector<char> used;
    for (const Observation& o : rows()) used.push_back(keep(o) && o.family != box_of_unknown_level ? 1 : 0);
    return refit_linearly(evaluator_, full_, used);
  }
  [[nodiscard]] std::vector<std::size_t> chosen(const Keep& keep) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < rows().size(); ++i) {
      if (keep(rows()[i]) && std::isfinite(full_.residuals[static_cast<Eigen::Index>(i)])) out.push_back(i);
    }
    return out;
  }
  // Forecasts of the rows at the constants, seconds.
  [[nodiscard]] std::vector<double> forecasts(const std::vector<std::size_t>& which, const Eigen::VectorXd& x) const {
    std::vector<Observation> some;
    for (const std::size_t i : which) some.push_back(rows()[i]);
    Evaluator evaluator(evaluator_.constants(), some, evaluator_.options());
    const Eigen::VectorXd logs = evaluator.predict(x);
    std::vector<double> out;
    for (const double v : logs) out.push_back(std::exp(v));
    return out;
  }
  [[nodiscard]] std::vector<double> errors(const std::vector<std::size_t>& which, const Eigen::VectorXd& x) const {
    const std::vector<double> seconds = forecasts(which, x);
    std::vector<double> out;
    for (std::size_t k = 0; k < which.size(); ++k) {
      if (std::isfinite(seconds[k])) out.push_back(seconds[k] / rows()[which[k]].measured_s - 1);
    }
    return out;
  }

 private:
  Evaluator& evaluator_;
  const Fit& full_;
};

double mean_abs(const std::vector<double>& errors) {
  double sum = 0;
  for (const double e : errors) sum += std::abs(e);
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}

void add_line(Protocol& p, const std::string& figure, const std::vector<double>& errors, const char* must,
              const char* aim, std::string note = {}) {
  if (errors.empty()) return;
  p.lines.push_back({figure, error_stats(errors), mean_abs(errors), must, aim, std::move(note)});
}

void halves(const Splits& splits, Protocol& p) {
  const Fit fit = splits.fit([](const Observation& o) { return in_first_half(o); });
  const auto half = [&](const char* kind, bool first) {
    return splits.errors(splits.chosen([&](const Observation& o) {
      return o.kind == kind && o.family != "vtrainS" && in_first_half(o) == first;
    }),
                         fit.x);
  };
  add_line(p, "dense, fitted half, without vtrainS", half("dense", true), "5, 15 %", "3, 9 %");
  add_line(p, "dense, other half, without vtrainS", half("dense", false), "6, 18 %", "4, 11 %");
  add_line(p, "MoE, fitted half", half("moe", true), "5, 15 %", "3, 9 %");
  add_line(p, "MoE, other half", half("moe", false), "6, 18 %", "4, 12 %");
}

// Each group left out in turn; the errors of all of them pooled.
void leave_out(const Splits& splits, Protocol& p, const char* kind, const char* what,
               const std::function<std::string(const Observation&)>& group, const char* must, const char* aim) {
  std::set<std::string> groups;
  for (const Observation& o : splits.rows()) {
    if (o.kind == kind) groups.insert(group(o));
  }
  std::vector<double> all;
  for (const std::string& name : groups) {
    // What is left out is left out of both kinds: a device's dense rows would tell its level.
    const Fit fit = splits.fit([&](const Observation& o) { return group(o) != name; });
    const auto errors =
        splits.errors(splits.chosen([&](const Observation& o) { return o.kind == kind && group(o) == name; }), fit.x);
    if (!errors.empty()) p.splits.push_back({fmt::format("{} {}", kind, what), name, error_stats(errors)});
    all.insert(all.end(), errors.begin(), errors.end());
  }
  add_line(p, fmt::format("leave one {} out, {}", what, kind), all, must, aim);
}

void in_sample(const Splits& splits, Protocol& p) {
  const auto family = [&](const char* name) {
    return splits.errors(splits.chosen([&](const Observation& o) { return o.family == name; }), splits.full().x);
  };
  add_line(p, "vTrain multi-node, mean (published 14.73 %)", family("vtrainM"), "9 % mean", "6 %");
  add_line(p, "vTrain single-node, mean (published 8.37 %)", family("vtrainS"), "7 % mean", "5 %");
  const Fit without = splits.fit([](const Observation& o) { return o.family != "seqsel"; });
  add_line(p, "seqsel, left out (Calculon 3.65 % mean, tuned)",
           splits.errors(splits.chosen([](const Observation& o) { return o.family == "seqsel"; }), without.x), "6 %",
           "3.5 %");
  std::map<std::string, std::vector<double>> families;
  const auto every = splits.chosen([](const Observation& o) { return !o.component; });
  for (const std::size_t i : every) {
    families[splits.rows()[i].family].push_back(std::expm1(splits.full().residuals[static_cast<Eigen::Index>(i)]));
  }
  for (const auto& [name, errors] : families) {
    if (static_cast<int>(errors.size()) >= family_from) p.families.emplace_back(name, error_stats(errors));
  }
}

// One more constant, the box's own sustained level, fitted on two rows at the constants of all other families.
void one_box(const Splits& splits, Protocol& p, const std::vector<CalibrationConstant>& constants,
             const EvaluatorOptions& options) {
  const auto which = splits.chosen([](const Observation& o) { return o.family == box_of_unknown_level; });
  if (which.size() < 4) return;
  const Fit others = splits.fit([](const Observation& o) { return o.family != box_of_unknown_level; });
  std::vector<CalibrationConstant> table = constants;
  for (std::size_t c = 0; c < table.size(); ++c) {
    table[c].prior = table[c].to_value(others.x[static_cast<Eigen::Index>(c)]);
    table[c].sigma = 1e-4;
    table[c].lower = std::min(table[c].lower, table[c].prior);
    table[c].upper = std::max(table[c].upper, table[c].prior);
  }
  CalibrationConstant box;
  box.name = "box";
  box.target.keys = {"device.sustained_gemm.value", "device.attention.*.e_*"};
  box.sigma = 0.5;
  table.push_back(box);
  std::vector<Observation> rows;
  for (const std::size_t i : which) rows.push_back(splits.rows()[i]);
  // Two by the order of their ids, whatever they are.
  std::sort(rows.begin(), rows.end(), [](const Observation& a, const Observation& b) { return a.id < b.id; });
  Evaluator evaluator(table, rows, options);
  FitOptions fit_options;
  fit_options.used.assign(rows.size(), 0);
  fit_options.used[0] = fit_options.used[1] = 1;
  const Fit fit = fit_constants(evaluator, fit_options);
  std::vector<double> errors;
  for (std::size_t i = 2; i < rows.size(); ++i)
    errors.push_back(std::expm1(fit.residuals[static_cast<Eigen::Index>(i)]));
  add_line(p, "b200 box, one level on two rows (SimuMax 5.62 %)", errors, "5 %", "3 %",
           fmt::format("level x{:.3f}", box.to_value(fit.x[fit.x.size() - 1])));
}

void ladder(const Splits& splits, Protocol& p) {
  auto which = splits.chosen([](const Observation& o) { return o.family == "MLMGB200"; });
  if (which.size() < 3) return;
  std::sort(which.begin(), which.end(),
            [&](std::size_t a, std::size_t b) { return splits.rows()[a].id < splits.rows()[b].id; });
  const Fit without = splits.fit([](const Observation& o) { return o.family != "MLMGB200"; });
  const std::vector<double> seconds = splits.forecasts(which, without.x);
  std::vector<double> measured, errors;
  for (std::size_t k = 0; k < which.size(); ++k) {
    measured.push_back(splits.rows()[which[k]].measured_s);
    errors.push_back(seconds[k] / measured[k] - 1);
  }
  std::string note = fmt::format("rho {:.3f}; savings predicted/measured s:", rank_correlation(seconds, measured));
  for (std::size_t k = 1; k < measured.size(); ++k) {
    const double saved = measured[k - 1] - measured[k];
    if (saved >= saving_from_s) {
      note += fmt::format(" {} {:.2f}/{:.2f}", splits.rows()[which[k]].id, seconds[k - 1] - seconds[k], saved);
    }
  }
  add_line(p, "MLMGB200 ladder, source left out", errors, "rho 0.97, savings x1.5", "25 %", note);
}

void overlap_pair(const Splits& splits, Protocol& p) {
  auto which = splits.chosen([](const Observation& o) { return o.id == "MBAB-01" || o.id == "MBAB-02"; });
  if (which.size() != 2) return;
  if (splits.rows()[which[0]].id != "MBAB-01") std::swap(which[0], which[1]);
  const Fit without = splits.fit([](const Observation& o) { return source_group(o) != "MBAB, MBCARD"; });
  const std::vector<double> s = splits.forecasts(which, without.x);
  const double measured = splits.rows()[which[0]].measured_s - splits.rows()[which[1]].measured_s;
  add_line(p, "EP overlap pair MBAB-01/-02, source left out", splits.errors(which, without.x), "saving 35 %", "15 %",
           fmt::format("saving {:.2f} s, measured {:.2f} s: {:+.0f} %", s[0] - s[1], measured,
                       100 * ((s[0] - s[1]) / measured - 1)));
}

// Fitted on jobs of up to 64 devices, forecast at 512 and more, with intervals.
void small_to_large(const Splits& splits, Protocol& p, const std::vector<CalibrationConstant>& constants,
                    const CalibrateOptions& options) {
  std::vector<Observation> small, large;
  for (const std::size_t i : splits.chosen([](const Observation& o) { return !o.component; })) {
    const Observation& o = splits.rows()[i];
    const bool series =
        o.family == "ptdp" || o.family == "vtrainM" || o.family == "dgxc" || o.family.starts_with("DGXC");
    if (o.devices <= small_job) small.push_back(o);
    if (o.devices >= large_job && series) large.push_back(o);
  }
  if (small.size() < 10 || large.empty()) return;
  const Fit fit = splits.fit([](const Observation& o) { return o.devices <= small_job; });
  Evaluator fitted(constants, small, options.evaluator), predicting(constants, large, options.evaluator);
  const Extrapolation far = extrapolate(predicting, fitted, fit, false);
  std::vector<double> errors;
  for (const Prediction& r : far.rows) errors.push_back(r.predicted_s / r.measured_s - 1);
  add_line(p, "fitted on 64 devices or fewer, 512 and more", errors, "6 %; 80 % covered", "3 %; 88 to 95 %",
           fmt::format("{} of {} measured times inside the 90 % interval", far.inside, far.measured));
}

}  // namespace

Result<Protocol> run_protocol(Observations rows, const CalibrateOptions& options) {
  const auto constants = read_constants(
      options.constants.empty() ? default_constants(options.catalog_root) : options.constants, options.catalog_root);
  if (!constants) return constants.errors();
  if (rows.rows.empty()) return make_error(ErrorCode::invalid, "no row to score", "protocol");
  weigh_families(rows.rows, options.family_rows);
  Evaluator evaluator(*constants, rows.rows, options.evaluator);
  FitOptions fit_options;
  fit_options.max_iterations = options.max_iterations;
  for (const Observation& o : evaluator.rows()) fit_options.used.push_back(o.family != box_of_unknown_level ? 1 : 0);
  const Fit full = fit_constants(evaluator, fit_options);
  Protocol p;
  p.fitted = summary_of(evaluator, full, options.name);
  p.fitted.refused.insert(p.fitted.refused.end(), rows.refused.begin(), rows.refused.end());
  const Splits splits(evaluator, full);
  const auto device = [](const Observation& o) { return o.device; };
  const std::vector<std::function<void()>> parts = {
      [&] { halves(splits, p); },
      [&] { leave_out(splits, p, "moe", "source", source_group, "8 %", "5 %"); },
      [&] { leave_out(splits, p, "moe", "model", base_model, "9 %", "6 %"); },
      [&] { leave_out(splits, p, "moe", "device", device, "12 %", "8 %"); },
      [&] { leave_out(splits, p, "dense", "family", source_group, "", ""); },
      [&] { leave_out(splits, p, "dense", "device", device, "", ""); },
      [&] { in_sample(splits, p); },
      [&] { one_box(splits, p, *constants, options.evaluator); },
      [&] { ladder(splits, p); },
      [&] { overlap_pair(splits, p); },
      [&] { small_to_large(splits, p, *constants, options); }};
  for (const auto& part : parts) {
    if (!evaluator.cancelled()) part();
  }
  p.interrupted = evaluator.cancelled();
  return p;
}

}  // namespace stepcast::validation
