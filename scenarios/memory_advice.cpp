#include "scenarios/memory_advice.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>

namespace stepcast::scenarios {
namespace {

using parallelism::RecomputeMode;
using parallelism::ScheduleKind;
using parallelism::Sharding;

// Rank operations of one step above which a dozen forecasts would take minutes.
constexpr std::int64_t most_rank_ops = 400'000'000;

using Changes = std::vector<std::vector<std::string>>;

void add_recompute(const parallelism::StepSpec& spec, Changes& changes) {
  if (spec.recompute.mode == RecomputeMode::full) return;
  const auto& now = spec.recompute.modules;
  const auto offer = [&](std::vector<std::string> modules) {
    for (const std::string& m : modules) {
      if (std::find(now.begin(), now.end(), m) != now.end()) return;
    }
    modules.insert(modules.begin(), now.begin(), now.end());
    changes.push_back({fmt::format("recompute=selective:{}", fmt::join(modules, ","))});
  };
  const models::Model& model = spec.model;
  const bool dense = std::any_of(model.layers.begin(), model.layers.end(),
                                 [](const models::Layer& l) { return l.ffn == models::FfnKind::dense; });
  offer({"layernorm"});
  offer({"core_attn"});
  if (model.attention.mla) offer({"mla_up_proj"});
  if (model.is_moe()) offer({"moe_act"});
  if (model.is_moe()) offer({"moe"});
  if (dense) offer({"mlp"});
  changes.push_back({"recompute=full"});
}

void add_state(const parallelism::StepSpec& spec, Changes& changes) {
  if (spec.sharding == Sharding::none) changes.push_back({"parallelism.sharding=zero1"});
  if (spec.sharding < Sharding::zero2 && spec.degrees.pp == 1) changes.push_back({"parallelism.sharding=zero2"});
  if (spec.sharding < Sharding::zero3) changes.push_back({"parallelism.sharding=zero3"});
  if (spec.recipe.gradient_bytes > 2) changes.push_back({"precision.gradients=bf16"});
  if (spec.recipe.optimizer_bytes > 8) changes.push_back({"precision.optimizer_state=bf16"});
  if (!spec.offload.optimizer) changes.push_back({"offload.optimizer=true"});
  if (!spec.offload.activations) changes.push_back({"offload.activations=true"});
}

void add_layout(const parallelism::StepSpec& spec, Changes& changes) {
  const auto& d = spec.degrees;
  const auto degree = [&](const char* key, int value) {
    changes.push_back({fmt::format("parallelism.{}={}", key, value)});
  };
  if (spec.workload.micro_batch > 1 && spec.workload.micro_batch % 2 == 0) {
    changes.push_back({fmt::format("workload.micro_batch={}", spec.workload.micro_batch / 2)});
  }
  const bool free_split = spec.stage_layers.empty() && spec.pipeline_layout.empty() && !d.dp;
  if (!d.dp) degree("tp", 2 * d.tp);
  if (!d.dp) degree("cp", 2 * d.cp);
  if (free_split) degree("pp", 2 * d.pp);
  if (spec.model.is_moe()) degree("ep", 2 * d.ep);
  if (!spec.sequence_parallel && d.tp > 1) changes.push_back({"parallelism.sequence_parallel=true"});
  const bool heavy = spec.schedule == ScheduleKind::gpipe || spec.schedule == ScheduleKind::dualpipe ||
                     spec.schedule == ScheduleKind::interleaved || spec.schedule == ScheduleKind::coscheduled;
  if (heavy && free_split && d.pp > 1) {
    auto& change = changes.emplace_back(std::vector<std::string>{"parallelism.schedule=1f1b"});
    // What 1f1b has no use for and is refused with.
    if (d.vpp > 1) change.emplace_back("parallelism.vpp=1");
    if (spec.overlap.ep) change.emplace_back("overlap.ep=false");
    if (spec.overlap.delay_wgrad) change.emplace_back("overlap.delay_wgrad=false");
    if (spec.overlap.parameters_with_optimizer) change.emplace_back("overlap.parameters_with_optimizer=false");
  }
}

}  // namespace

MemoryAdvice memory_advice(const Scenario& scenario, const std::filesystem::path& catalog_root,
                           const ForecastOptions& options, int most) {
  MemoryAdvice advice;
  const auto lowered = parallelism::lower(scenario.spec);
  if (!lowered || lowered->program.rank_ops() > most_rank_ops) {
    advice.too_large = true;
    return advice;
  }
  Changes changes;
  add_recompute(scenario.spec, changes);
  add_state(scenario.spec, changes);
  add_layout(scenario.spec, changes);

  std::vector<MemoryChange> found(changes.size());
  std::vector<char> refused(changes.size(), 0);
  const std::string text = scenario.resolved.dump();
  const auto one = [&](std::size_t i) {
    if (options.cancelled && options.cancelled()) return;
    ScenarioRequest request;
    request.text = text;
    request.text_name = scenario.name;
    request.sets = changes[i];
    request.sets.emplace_back("workload.steps=1");
    request.catalog_root = catalog_root;
    ForecastOptions quiet;
    quiet.threads = 1;
    quiet.ignore_memory = true;
    quiet.critical_path = false;
    quiet.representative = true;
    const auto changed = load_scenario(request);
    const auto forecast = changed ? scenarios::forecast(*changed, quiet) : Result<Forecast>(changed.errors());
    if (!forecast) {
      refused[i] = 1;
      return;
    }
    if (!forecast->memory.fits) return;
    found[i] = {changes[i], fmt::format("{}", fmt::join(changes[i], " ")), forecast->step_time.mean_s,
                forecast->memory.peak_bytes};
  };
  const int threads = options.threads > 0 ? options.threads : tbb::info::default_concurrency();
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  tbb::parallel_for(std::size_t{0}, changes.size(), one, tbb::simple_partitioner());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    advice.refused += refused[i];
    if (!found[i].words.empty()) advice.changes.push_back(std::move(found[i]));
  }
  advice.tried = static_cast<int>(changes.size()) - advice.refused;
  std::stable_sort(advice.changes.begin(), advice.changes.end(),
                   [](const MemoryChange& a, const MemoryChange& b) { return a.step_time_s < b.step_time_s; });
  if (advice.changes.size() > static_cast<std::size_t>(most)) advice.changes.resize(static_cast<std::size_t>(most));
  return advice;
}

std::string advice_text(const MemoryAdvice& advice) {
  if (advice.too_large) return "the step is too large to try changes on";
  if (advice.changes.empty()) return fmt::format("none of {} single changes tried would fit", advice.tried);
  std::string text = fmt::format("single changes that fit, of {} tried:", advice.tried);
  for (const MemoryChange& c : advice.changes) {
    text += fmt::format("\n  --set {}: {:.4g} s a step, {:.1f} GiB", fmt::format("{}", fmt::join(c.sets, " --set ")),
                        c.step_time_s, c.peak_bytes / gib(1).value);
  }
  return text;
}

}  // namespace stepcast::scenarios
