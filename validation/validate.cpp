#include "validation/validate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>

#include "scenarios/forecast.h"
#include "scenarios/scenario.h"
#include "validation/mapping.h"
#include "validation/rates.h"

namespace stepcast::validation {
namespace {

constexpr std::size_t smallest_sweep = 5;

std::string first_words(const Errors& errors) {
  std::string text = errors.front().message;
  if (errors.size() > 1) text += fmt::format(" (and {} more)", errors.size() - 1);
  return text;
}

Result<scenarios::Forecast> forecast_row(const MappedRun& mapped, const std::string& id,
                                         const std::vector<std::string>& sets, const ValidateOptions& validate) {
  scenarios::ScenarioRequest request;
  auto with = mapped.scenario;
  if (!validate.calibration.empty()) with["calibration"] = validate.calibration;
  request.text = with.dump();
  request.text_name = id;
  request.sets = sets;
  request.sets.insert(request.sets.end(), validate.sets.begin(), validate.sets.end());
  request.catalog_root = validate.catalog_root;
  const auto scenario = scenarios::load_scenario(request);
  if (!scenario) return scenario.errors();
  scenarios::ForecastOptions options;
  options.threads = 1;
  options.ignore_memory = true;
  options.critical_path = false;
  options.representative = true;
  return scenarios::forecast(*scenario, options);
}

// What the row's figure counts: its notes say so, else what the framework's log prints.
std::string memory_report(const MeasuredRun& run, const std::string& usual) {
  for (const char* word : {"allocated", "reserved"}) {
    if (run.text("notes").find(word) != std::string::npos) return word;
  }
  return usual;
}

// Rows of one sweep differ in layout only.
std::string sweep_of(const MeasuredRun& run) {
  return fmt::format("{} {} {} x{} s{} b{} {}", run.text("family"), run.text("model"), run.text("device"),
                     run.text("devices"), run.text("sequence_length"), run.text("global_batch"), run.text("precision"));
}

std::string layout_of(const MeasuredRun& run) {
  std::string layout;
  for (const char* key : {"layers",
                          "hidden",
                          "heads",
                          "tp",
                          "pp",
                          "vpp",
                          "cp",
                          "ep",
                          "etp",
                          "dp",
                          "micro_batch",
                          "sharding",
                          "recompute",
                          "schedule",
                          "sequence_parallel",
                          "dispatcher",
                          "cuda_graphs",
                          "ep_overlap",
                          "tp_overlap",
                          "dp_overlap",
                          "delay_wgrad",
                          "software",
                          "software_tags",
                          "pipeline_layout"}) {
    layout += run.text(key) + ';';
  }
  return layout;
}

struct Outcome {
  std::optional<RowResult> row;
  std::optional<Refusal> refusal;
};

Outcome run_row(const MeasuredRun& run, const ValidateOptions& options) {
  Outcome out;
  const auto refuse = [&](const Errors& errors) {
    out.refusal = Refusal{run.id, run.line, first_words(errors)};
    return out;
  };
  const auto mapped = map_run(run, options.catalog_root);
  if (!mapped) return refuse(mapped.errors());
  auto forecast = forecast_row(*mapped, run.id, {}, options);
  if (!forecast) return refuse(forecast.errors());
  if (std::string why = mixed_units(run, forecast->scenario.spec); !why.empty()) {
    out.refusal = Refusal{run.id, run.line, std::move(why)};
    return out;
  }
  RowResult row;
  row.assumed = mapped->assumed;
  for (const std::string& set : options.sets) row.assumed.push_back("set for every row: " + set);
  if (!forecast->memory.fits) {
    const bool open = std::any_of(mapped->alternatives.begin(), mapped->alternatives.end(),
                                  [](const Alternative& a) { return a.field == "recompute"; });
    row.assumed.push_back(
        open
            ? "by the memory account it does not fit without recomputation, of which the row says nothing: it ran with "
              "some, or the account is too high here"
            : "by the memory account it does not fit this way, and it ran: the account is too high here");
  }
  row.id = run.id;
  row.family = run.text("family");
  row.device = run.text("device");
  row.kind = run.text("kind");
  row.software = run.text("software");
  row.model = run.text("model");
  row.sweep = sweep_of(run);
  row.layout = layout_of(run);
  row.measured_s = run.step_time_s();
  row.predicted_s = row.low_s = row.high_s = forecast->step_time.mean_s;
  row.error = row.predicted_s / row.measured_s - 1;
  row.memory_report = memory_report(run, forecast->scenario.spec.software.memory_report);
  const scenarios::MemoryAccount& memory = forecast->memory;
  row.predicted_peak_memory_gb = (row.memory_report == "allocated"  ? memory.allocated_bytes
                                  : row.memory_report == "reserved" ? memory.reserved_bytes
                                                                    : memory.peak_bytes) /
                                 1e9;
  row.measured_peak_memory_gb = run.number("peak_memory_gb").value_or(0);
  row.fits = forecast->memory.fits;
  if (options.ranges) {
    for (const Alternative& a : mapped->alternatives) {
      if (options.cancelled && options.cancelled()) break;
      const auto other = forecast_row(*mapped, run.id, a.sets, options);
      if (!other || !other->memory.fits) continue;  // a layout that cannot be is no alternative
      row.low_s = std::min(row.low_s, other->step_time.mean_s);
      row.high_s = std::max(row.high_s, other->step_time.mean_s);
    }
  }
  out.row = std::move(row);
  return out;
}

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

void summarise(Validation& v) {
  std::vector<double> all;
  std::vector<double> memory;
  std::map<std::string, std::vector<double>> family, device, kind, software;
  std::map<std::string, std::map<std::string, std::pair<std::vector<double>, std::vector<double>>>> sweeps;
  for (const RowResult& r : v.rows) {
    all.push_back(r.error);
    family[r.family].push_back(r.error);
    device[r.device].push_back(r.error);
    kind[r.kind].push_back(r.error);
    software[r.software].push_back(r.error);
    auto& repeats = sweeps[r.sweep][r.layout];
    repeats.first.push_back(r.predicted_s);
    repeats.second.push_back(r.measured_s);
    if (r.measured_peak_memory_gb > 0) memory.push_back(r.predicted_peak_memory_gb / r.measured_peak_memory_gb - 1);
  }
  v.all = error_stats(all);
  v.memory = error_stats(memory);
  const auto each = [](const std::map<std::string, std::vector<double>>& groups,
                       std::map<std::string, ErrorStats>& out) {
    for (const auto& [name, errors] : groups) out[name] = error_stats(errors);
  };
  each(family, v.by_family);
  each(device, v.by_device);
  each(kind, v.by_kind);
  each(software, v.by_software);
  for (const auto& [name, layouts] : sweeps) {
    if (layouts.size() < smallest_sweep) continue;
    std::vector<double> predicted, measured;
    for (const auto& [layout, repeats] : layouts) {
      predicted.push_back(median(repeats.first));
      measured.push_back(median(repeats.second));
    }
    v.layout_rank_correlation[name] = kendall_tau(predicted, measured);
  }
}

}  // namespace

ErrorStats error_stats(std::vector<double> errors) {
  ErrorStats s;
  s.n = static_cast<int>(errors.size());
  if (errors.empty()) return s;
  std::sort(errors.begin(), errors.end());
  const auto at = [](const std::vector<double>& sorted, double q) {
    const double x = q * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<std::size_t>(x);
    const std::size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (x - static_cast<double>(low)) * (sorted[high] - sorted[low]);
  };
  s.bias = at(errors, 0.5);
  for (double& e : errors) e = std::abs(e);
  std::sort(errors.begin(), errors.end());
  s.median_abs = at(errors, 0.5);
  s.p90_abs = at(errors, 0.9);
  s.max_abs = errors.back();
  return s;
}

double kendall_tau(const std::vector<double>& a, const std::vector<double>& b) {
  const std::size_t n = std::min(a.size(), b.size());
  if (n < 2) return 1;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double x = (a[i] - a[j]) * (b[i] - b[j]);
      sum += x > 0 ? 1 : x < 0 ? -1 : 0;
    }
  }
  return sum / (static_cast<double>(n) * static_cast<double>(n - 1) / 2);
}

Validation validate(const RunsFile& runs, const ValidateOptions& options) {
  Validation v;
  v.warnings = runs.warnings;
  const std::set<std::string> wanted(options.only.begin(), options.only.end());
  for (const Refusal& r : runs.refused) {
    if (wanted.empty() || r.id.empty() || wanted.contains(r.id)) v.refused.push_back(r);
  }
  std::vector<const MeasuredRun*> chosen;
  for (const MeasuredRun& run : runs.runs) {
    if (wanted.empty() || wanted.contains(run.id)) chosen.push_back(&run);
  }
  std::vector<Outcome> outcomes(chosen.size());
  std::atomic<int> done{0};
  std::mutex lock;
  const int threads = options.threads > 0 ? options.threads : tbb::info::default_concurrency();
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  tbb::parallel_for(
      std::size_t{0}, chosen.size(),
      [&](std::size_t i) {
        if (options.cancelled && options.cancelled()) return;
        outcomes[i] = run_row(*chosen[i], options);
        const int count = ++done;
        if (options.progress) {
          const std::scoped_lock hold(lock);
          options.progress(count, static_cast<int>(chosen.size()));
        }
      },
      tbb::simple_partitioner());
  for (Outcome& o : outcomes) {
    if (o.row) v.rows.push_back(std::move(*o.row));
    if (o.refusal) v.refused.push_back(std::move(*o.refusal));
    if (!o.row && !o.refusal) v.interrupted = true;
  }
  summarise(v);
  return v;
}

}  // namespace stepcast::validation
