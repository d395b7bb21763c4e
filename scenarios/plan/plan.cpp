#include "scenarios/plan/plan.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/forecast.h"
#include "scenarios/plan/exact.h"
#include "scenarios/report/report.h"

namespace stepcast::scenarios::plan {
namespace {

// Free shares of the memory at which the front is searched.
constexpr double level_step = 0.1;
constexpr double last_level = 0.8;

// One device count.
struct Site {
  Scenario scenario;
  Space space;
  std::unique_ptr<Search> search;
  std::vector<Found> found;
  double limit = 0;
};

double tokens_a_step(const parallelism::StepSpec& spec, int global_batch) {
  const auto& w = spec.workload;
  double tokens = w.sequence_length;
  // Padded sequences hold one document of the mean length.
  if (!w.document_lengths.empty() && w.packing == parallelism::Packing::padded) {
    double sum = 0;
    for (const double length : w.document_lengths) sum += length;
    tokens = sum / static_cast<double>(w.document_lengths.size());
  }
  return tokens * global_batch;
}

double model_flops(const parallelism::StepSpec& spec) {
  models::FlopOptions options;
  const auto& w = spec.workload;
  models::Documents d = models::one_sequence(w.sequence_length, spec.model.window);
  if (!w.document_lengths.empty()) {
    d = models::make_documents(w.document_lengths, spec.model.window, w.sequence_length);
    const double scale = w.packing == parallelism::Packing::packed
                             ? w.sequence_length / d.tokens
                             : 1.0 / static_cast<double>(w.document_lengths.size());
    d.tokens *= scale;
    d.sum_of_squares *= scale;
    d.sum_windowed *= scale;
  }
  return models::flops(spec.model, d, options).total();
}

class Planner {
 public:
  Planner(const ScenarioRequest& request, const PlanOptions& options) : request_(request), options_(options) {}

  Result<PlanResult> run() {
    if (Status status = open_sites(); !status) return status.errors();
    for (auto& site : sites_) {
      site->search->judge();
      site->found = site->search->best(options_.top, site->limit);
    }
    add_up();
    rank();
    if (result_.layouts.empty() && result_.interrupted) return std::move(result_);  // what was judged so far
    if (result_.layouts.empty()) return nothing_runs();
    if (options_.fronts) find_fronts();
    add_up();
    if (options_.explain) {
      if (Status status = explain_winner(); !status) return status.errors();
    }
    return std::move(result_);
  }

 private:
  Result<Scenario> load(const std::vector<std::string>& sets, bool check_layout) const {
    ScenarioRequest request = request_;
    request.sets.insert(request.sets.end(), sets.begin(), sets.end());
    request.check_layout = check_layout;
    return load_scenario(request);
  }

  Status open_sites() {
    const auto own = load({}, false);
    if (!own) return own.errors();
    result_.scenario = own->name;
    result_.model = own->spec.model.name;
    result_.assumptions = own->assumptions;
    result_.samples = own->spec.workload.steps;
    result_.threads = options_.threads;
    result_.price = options_.price_per_device_hour;
    if (const auto found = own->resolved.find("reliability"); result_.price <= 0 && found != own->resolved.end())
      result_.price = found->value("price_per_device_hour", 0.0);
    if (!own->spec.stage_layers.empty() || !own->spec.pipeline_layout.empty()) {
      result_.assumptions.emplace_back(
          "the scenario's own split of layers over stages is not used: every layout spreads them evenly");
    }
    std::vector<int> counts = options_.space.devices;
    if (counts.empty()) counts.push_back(own->spec.cluster.devices);
    for (const int devices : counts) {
      auto site = std::make_unique<Site>();
      auto scenario = load({fmt::format("cluster.devices={}", devices)}, false);
      if (!scenario) return scenario.errors();
      site->scenario = std::move(*scenario);
      SpaceRequest request = options_.space;
      request.devices = {devices};
      auto space = make_space(site->scenario, request);
      if (!space) return space.errors();
      site->space = std::move(*space);
      site->limit = site->scenario.spec.cluster.device.hbm.value * (1 - options_.headroom);
      SearchOptions search;
      search.threads = options_.threads;
      search.memory_limit = site->limit;
      search.progress = options_.progress;
      search.cancelled = options_.cancelled;
      site->search = std::make_unique<Search>(site->scenario, site->space, search);
      sites_.push_back(std::move(site));
    }
    if (options_.space.free_batch && options_.space.global_batch.empty()) {
      result_.assumptions.push_back(fmt::format("global batch free: {} sequences a step are compared by tokens/s",
                                                fmt::join(sites_.front()->space.global_batch, ", ")));
    }
    result_.cluster = sites_.front()->scenario.spec.cluster.name;
    result_.memory_limit = sites_.front()->limit;
    return Unit{};
  }

  void add_up() {
    result_.counts = {};
    result_.cost = {};
    for (const auto& site : sites_) {
      const Counts& c = site->search->counts();
      Counts& all = result_.counts;
      all.enumerated += c.enumerated;
      for (std::size_t i = 0; i < refusal_count; ++i) all.refused[i] += c.refused[i];
      all.valid += c.valid;
      all.closely_bound += c.closely_bound;
      all.simulated += c.simulated;
      all.out_of_memory += c.out_of_memory;
      all.failed += c.failed;
      all.pruned += c.pruned;
      result_.cost.judging_cpu_s += site->search->cost().judging_cpu_s;
      result_.cost.simulating_cpu_s += site->search->cost().simulating_cpu_s;
      result_.cost.wall_s += site->search->cost().wall_s;
      result_.interrupted = result_.interrupted || site->search->interrupted();
    }
  }

  PlannedLayout describe(const Site& site, const Found& found, double seconds) const {
    const auto& spec = site.scenario.spec;
    PlannedLayout l;
    l.point = found.point;
    l.words = plan::words(site.space, found.point);
    l.recompute = site.space.recompute[found.point.recompute].text;
    l.overlap = site.space.overlap[found.point.overlap].name;
    l.settings = settings(site.space, found.point);
    l.step_time_s = seconds;
    l.bound_s = found.bound;
    const double tokens = tokens_a_step(spec, found.point.global_batch);
    l.tokens_per_s = tokens / seconds;
    l.mfu = model_flops(spec) * found.point.global_batch /
            (spec.cluster.device.peak_flops.at(spec.recipe.gemm) * spec.cluster.devices * seconds);
    l.peak_bytes = found.peak_bytes;
    l.free_share = 1 - found.peak_bytes / spec.cluster.device.hbm.value;
    if (result_.price > 0)
      l.cost_per_million_tokens = result_.price * spec.cluster.devices / 3600 / l.tokens_per_s * 1e6;
    return l;
  }

  // Mean of the asked samples; the search's own sample when it is one.
  double settled_seconds(const Site& site, const Found& found) const {
    if (result_.samples <= 1 || result_.interrupted) return found.seconds;
    parallelism::StepSpec spec = site.scenario.spec;
    apply(site.space, found.point, spec);
    const auto mean = mean_seconds(spec, result_.samples);
    return mean ? *mean : found.seconds;
  }

  void rank() {
    for (const auto& site : sites_) {
      for (const Found& f : site->found) result_.layouts.push_back(describe(*site, f, settled_seconds(*site, f)));
    }
    std::stable_sort(result_.layouts.begin(), result_.layouts.end(),
                     [](const auto& a, const auto& b) { return a.tokens_per_s > b.tokens_per_s; });
    if (sites_.size() > 1) {
      for (const PlannedLayout& l : result_.layouts) {
        const auto beaten = [&](const PlannedLayout& o) {
          return o.point.devices <= l.point.devices && o.tokens_per_s > l.tokens_per_s;
        };
        if (std::none_of(result_.layouts.begin(), result_.layouts.end(), beaten)) result_.devices_front.push_back(l);
      }
      std::stable_sort(result_.devices_front.begin(), result_.devices_front.end(),
                       [](const auto& a, const auto& b) { return a.point.devices < b.point.devices; });
    }
    if (result_.layouts.size() > static_cast<std::size_t>(options_.top))
      result_.layouts.resize(static_cast<std::size_t>(options_.top));
  }

  // The fastest layout at each level of free memory, on the devices of the winner.
  void find_fronts() {
    const int devices = result_.layouts.front().point.devices;
    const auto found = std::find_if(sites_.begin(), sites_.end(),
                                    [&](const auto& site) { return site->scenario.spec.cluster.devices == devices; });
    Site& site = **found;
    const double hbm = site.scenario.spec.cluster.device.hbm.value;
    std::vector<PlannedLayout> candidates = {result_.layouts.front()};
    for (int i = 1; i * level_step <= last_level + 1e-9 && !result_.interrupted; ++i) {
      const double level = i * level_step;
      if (level <= options_.headroom || level <= candidates.back().free_share) continue;
      const auto best = site.search->best(1, hbm * (1 - level));
      if (site.search->interrupted()) break;
      result_.headroom_levels.push_back(level);
      if (best.empty()) break;  // more headroom cannot be had either
      candidates.push_back(describe(site, best.front(), settled_seconds(site, best.front())));
    }
    for (const PlannedLayout& c : candidates) {
      const auto beaten = [&](const PlannedLayout& o) {
        return o.tokens_per_s >= c.tokens_per_s && o.free_share > c.free_share;
      };
      if (std::none_of(candidates.begin(), candidates.end(), beaten)) result_.memory_front.push_back(c);
    }
  }

  Result<Forecast> forecast_of(const PlannedLayout& layout) const {
    const auto scenario = load(layout.settings, true);
    if (!scenario) return scenario.errors();
    ForecastOptions options;
    options.threads = options_.threads;
    options.critical_path = false;
    return forecast(*scenario, options);
  }

  static Result<RunSummary> summary_of(const Forecast& f) {
    const auto document = parse_json(scenarios::to_json(f).dump(), "forecast");
    if (!document) return document.errors();
    return read_run(*document);
  }

  Status explain_winner() {
    const auto scenario = load(result_.layouts.front().settings, true);
    if (!scenario) return scenario.errors();
    result_.winner = scenario->resolved;
    result_.winner_arguments = megatron::export_megatron(*scenario, request_.catalog_root);
    if (result_.interrupted || result_.layouts.size() < 2) return Unit{};
    const auto winner = forecast_of(result_.layouts[0]);
    if (!winner) return winner.errors();
    const auto second = forecast_of(result_.layouts[1]);
    if (!second) return second.errors();
    result_.layouts[0].mfu = winner->utilisation.mfu;
    auto a = summary_of(*second);
    if (!a) return a.errors();
    auto b = summary_of(*winner);
    if (!b) return b.errors();
    a->name = "runner-up";
    b->name = "winner";
    result_.against_runner_up.push_back(compare(std::move(*a), std::move(*b)));
    return Unit{};
  }

  Errors nothing_runs() const {
    const Counts& c = result_.counts;
    std::string why;
    for (std::size_t i = 0; i < refusal_count; ++i) {
      if (c.refused[i] == 0) continue;
      why += fmt::format("{}{} {}", why.empty() ? "" : "; ", c.refused[i], plan::words(static_cast<Refusal>(i)));
    }
    if (c.out_of_memory > 0) why += fmt::format("; {} out of memory when lowered", c.out_of_memory);
    return {make_error(ErrorCode::infeasible, fmt::format("no layout of {} can run: {}", c.enumerated, why))};
  }

  const ScenarioRequest& request_;
  const PlanOptions& options_;
  std::vector<std::unique_ptr<Site>> sites_;
  PlanResult result_;
};

}  // namespace

Result<PlanResult> plan(const ScenarioRequest& request, const PlanOptions& options) {
  return Planner(request, options).run();
}

}  // namespace stepcast::scenarios::plan
