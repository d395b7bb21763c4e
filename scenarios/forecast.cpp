#include "scenarios/forecast.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <numeric>

#include <fmt/format.h>
#include <oneapi/tbb/info.h>

#include "scenarios/leaf_traffic.h"
#include "scenarios/memory_advice.h"
#include "scenarios/memory_check.h"
#include "scenarios/samples.h"
#include "sim/record/recorder.h"
#include "topology/collective_cost.h"

namespace stepcast::scenarios {
namespace {

using parallelism::LoweredStep;
using parallelism::StepSpec;

constexpr double interval_confidence = 0.95;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::int64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

StepTimeStats step_stats(std::vector<double> samples) {
  StepTimeStats s;
  std::sort(samples.begin(), samples.end());
  s.samples = static_cast<int>(samples.size());
  s.mean_s = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  s.min_s = samples.front();
  s.max_s = samples.back();
  s.p50_s = quantile(samples, 0.5);
  if (samples.size() >= samples_for_p95) {
    s.p95_s = quantile(samples, 0.95);
    s.p95_interval = quantile_interval(samples, 0.95, interval_confidence);
  }
  if (samples.size() >= samples_for_p99) {
    s.p99_s = quantile(samples, 0.99);
    s.p99_interval = quantile_interval(samples, 0.99, interval_confidence);
  }
  return s;
}

// Documents of one sequence as the model needs them: padding costs time but is no work.
models::Documents effective_documents(const StepSpec& spec) {
  const int s = spec.workload.sequence_length;
  const auto& lengths = spec.workload.document_lengths;
  if (lengths.empty()) return models::one_sequence(s, spec.model.window);
  models::Documents d = models::make_documents(lengths, spec.model.window, s);
  // Packed: documents fill the sequence. Padded: a sequence holds one document of the mean length.
  const double scale =
      spec.workload.packing == parallelism::Packing::packed ? s / d.tokens : 1.0 / static_cast<double>(lengths.size());
  d.tokens *= scale;
  d.sum_of_squares *= scale;
  d.sum_windowed *= scale;
  d.sum_chunked *= scale;
  return d;
}

Utilisation utilisation(const StepSpec& spec, const models::Documents& sequence, double executed, double seconds) {
  Utilisation u;
  const auto& device = spec.cluster.device;
  const auto gemm = spec.recipe.gemm;
  u.peak_precision = std::string(topology::name(gemm));
  u.peak_flops_per_device = device.peak_flops.at(gemm);
  const auto bf16 = device.peak_flops.find(topology::Precision::bf16);
  u.bf16_peak_flops_per_device = bf16 == device.peak_flops.end() ? 0 : bf16->second;
  const double base = u.peak_flops_per_device * spec.cluster.devices * seconds;
  u.executed_flops = executed;
  u.hfu = executed / base;
  u.convention = std::string(models::name(models::Convention::attention_causal));
  for (const auto convention :
       {models::Convention::attention_causal, models::Convention::attention_full, models::Convention::six_nd_active}) {
    models::FlopOptions options;
    options.convention = convention;
    const double total = models::flops(spec.model, sequence, options).total() * spec.workload.global_batch;
    u.by_convention.push_back({std::string(models::name(convention)), total, total / base});
  }
  u.model_flops = u.by_convention.front().model_flops;
  u.mfu = u.by_convention.front().mfu;
  return u;
}

std::string span_words(const std::map<std::string, topology::GroupSpan>& spans, const std::string& group) {
  const auto found = spans.find(group);
  if (found == spans.end()) return "pipeline neighbours";
  const auto& s = found->second;
  return s.inside_domain() ? fmt::format("{} ranks in one NVLink domain", s.ranks)
                           : fmt::format("{} ranks over {} NVLink domains", s.ranks, s.domains);
}

std::vector<CommunicationRow> communication(const sim::StepReport& report, const LoweredStep& lowered,
                                            const topology::Cluster& cluster) {
  std::vector<CommunicationRow> rows;
  const auto leaves = leaf_traffic(lowered, cluster);
  for (const auto& c : report.communication) {
    CommunicationRow row;
    row.kind = c.collective;
    row.group = c.group;
    row.span = span_words(lowered.spans, c.group);
    const auto span = lowered.spans.find(c.group);
    if (span != lowered.spans.end()) row.domains = span->second.domains;
    if (const auto leaf = leaves.find(c.group); leaf != leaves.end()) {
      row.leaf_groups = leaf->second.leaf_groups;
      row.crosses_leaf = leaf->second.crosses;
    }
    row.calls = static_cast<double>(c.calls);
    row.payload_bytes = c.payload_bytes;
    row.wire_bytes = c.wire_bytes;
    row.raw_s = to_seconds(c.raw).value;
    row.exposed_s = to_seconds(c.exposed_mean).value;
    row.wait_s = to_seconds(c.waiting).value;
    if (row.raw_s > 0) {
      const int ranks = span == lowered.spans.end() ? 2 : span->second.ranks;
      double factor = 1;
      for (const auto kind : {topology::Collective::all_reduce, topology::Collective::all_gather,
                              topology::Collective::reduce_scatter, topology::Collective::all_to_all}) {
        if (c.collective == topology::name(kind)) factor = topology::busbw_factor(kind, ranks);
      }
      if (c.collective == "dispatch" || c.collective == "combine")
        factor = topology::busbw_factor(topology::Collective::all_to_all, ranks);
      row.algbw_gb_per_s = row.payload_bytes / row.raw_s / 1e9;
      row.busbw_gb_per_s = row.algbw_gb_per_s * factor;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Share of rank-ops that are operations on shared links.
double shared_share(const sim::Program& program) {
  double shared = 0;
  for (const sim::Cohort& cohort : program.cohorts) {
    for (const sim::Call& call : cohort.calls) {
      const auto& code = cohort.bodies[call.body].instructions;
      const auto n = std::count_if(code.begin(), code.end(),
                                   [](const sim::Instruction& in) { return (in.flags & sim::flag_shared) != 0; });
      shared += static_cast<double>(n) * static_cast<double>(cohort.ranks.size());
    }
  }
  return shared / std::max(1.0, static_cast<double>(program.rank_ops()));
}

std::string levels_text(const sim::FlowStats& flows) {
  static constexpr std::array<const char*, sim::flow_level_count> names = {
      "macro-flows, one rate a unit and transfer", "flows of box pairs, rails folded", "flows of NIC pairs or rings"};
  std::string text;
  for (std::size_t l = 0; l < names.size(); ++l) {
    const sim::FlowStats::Level& level = flows.levels[l];
    if (level.operations == 0) continue;
    text += fmt::format("{}{:.3g} % of their time alone as {}", text.empty() ? "" : ", ",
                        100 * level.alone_s / std::max(1e-12, flows.alone_s), names[l]);
    if (l == 0) continue;
    text += fmt::format(" ({:.0f} each)", static_cast<double>(level.flows) / static_cast<double>(level.operations));
  }
  return text;
}

// What tests/topology/flow_levels_test.cpp holds of one exchange against a flow a NIC and peer.
// `coarse`: macro-flows stayed whole whatever slowed them.
std::string level_errors(const EngineStats& engine, bool coarse) {
  const auto& levels = engine.flows.levels;
  const auto delayed = [&](sim::FlowLevel level) { return levels[static_cast<std::size_t>(level)].delay_s > 0; };
  const bool chosen = engine.flow_level == "auto";
  std::string text;
  if (delayed(sim::FlowLevel::macro)) {
    text += !coarse
                ? "; macro-flows count each rank as the busiest, which changes no end on NICs or where ranks are alike"
                : "; macro-flows of uneven exchanges end up to 55 % late on uplinks that bind, of even ones on "
                  "hashed uplinks up to 14 % early";
  }
  if (delayed(sim::FlowLevel::box)) text += "; by box within 10 % where a box's ranks are alike, else up to 30 % early";
  if (delayed(sim::FlowLevel::nic)) {
    text += chosen ? "; folded NIC parts are 5 % early to 13 % late, on hashed uplinks up to 24 % late"
                   : "; by NIC up to 10 % late";
  }
  return text;
}

// Whether uplinks can bind and nothing was there to be cut.
bool coarse_flows(const StepSpec& spec, const sim::Program& program) {
  if (spec.fabric.level) return *spec.fabric.level == sim::FlowLevel::macro;
  const bool narrow = spec.cluster.routing == topology::Routing::hashed || spec.cluster.oversubscription > 1 ||
                      spec.fabric.background > 0;
  return narrow && std::none_of(program.patterns.begin(), program.patterns.end(),
                                [](const sim::LinkPattern& p) { return !p.boxes.empty() || !p.nics.empty(); });
}

std::string contention_text(const EngineStats& engine, double share, bool coarse) {
  const sim::FlowStats& flows = engine.flows;
  const auto count = static_cast<double>(std::max<std::int64_t>(1, flows.flows));
  return fmt::format(
      "contention with flow level {}: {:.2g} % of rank-ops are transfers on shared links, {:.0f} a step of a unit, {}; "
      "{:.1f} % of them slowed, in all by {:.1f} % of their time alone{}",
      engine.flow_level, 100 * share, static_cast<double>(flows.flows) / std::max(1, engine.flow_steps),
      levels_text(flows), 100 * static_cast<double>(flows.slowed) / count,
      100 * flows.delay_s / std::max(1e-12, flows.alone_s), level_errors(engine, coarse));
}

}  // namespace

Result<Forecast> forecast(const Scenario& scenario, const ForecastOptions& options) {
  const auto wall_start = std::chrono::steady_clock::now();
  const double cpu_start = cpu_seconds();
  const StepSpec& spec = scenario.spec;
  auto lowered_result = parallelism::lower(spec);
  if (!lowered_result) return lowered_result.errors();
  const LoweredStep& lowered = *lowered_result;
  const int threads = options.threads > 0 ? options.threads : tbb::info::default_concurrency();

  Simulated simulated;
  choose_program(spec, lowered, options.representative, simulated);
  const auto sampled = run_samples(spec, lowered, simulated, {threads, options.progress, options.cancelled});
  if (!sampled) return sampled.errors();
  const Samples& samples = *sampled;
  std::vector<std::pair<double, int>> finished;
  for (std::size_t k = 0; k < samples.seconds.size(); ++k) {
    if (samples.seconds[k] >= 0) finished.emplace_back(samples.seconds[k], static_cast<int>(k));
  }
  if (finished.empty())
    return make_error(ErrorCode::infeasible, "interrupted before the first sampled step was simulated");
  std::sort(finished.begin(), finished.end());
  const int median = finished[(finished.size() - 1) / 2].second;

  SampleConditions met(spec, lowered, simulated.loads, static_cast<std::uint64_t>(median));
  if (const Status found = met.find_delays(*simulated.program); !found) return found.errors();
  sim::RecordOptions record;
  record.step = met.reported_step();
  record.warm_steps = warm_steps;
  record.critical_path = options.critical_path;
  auto report = sim::record_step(*simulated.program, met.conditions(), record);
  if (!report) return report.errors();

  Forecast f;
  f.scenario = scenario;
  f.interrupted = finished.size() < samples.seconds.size();
  for (const auto& [seconds, k] : finished) f.samples_s.push_back(samples.seconds[static_cast<std::size_t>(k)]);
  f.step_time = step_stats(f.samples_s);
  const models::Documents sequence = effective_documents(spec);
  f.tokens_per_step = sequence.tokens * spec.workload.global_batch;
  f.slots_per_step = static_cast<double>(spec.workload.sequence_length) * spec.workload.global_batch;
  f.moe = spec.model.is_moe();
  const auto moe_layers = std::count_if(spec.model.layers.begin(), spec.model.layers.end(),
                                        [](const auto& l) { return l.ffn == models::FfnKind::moe; });
  f.assignments_per_step = f.moe ? f.tokens_per_step * spec.model.moe.top_k * static_cast<double>(moe_layers) : 0;
  // A representative lane stands for its whole stage; all stages have equally many ranks.
  const double stands_for = static_cast<double>(lowered.program.ranks) / simulated.program->ranks;
  f.utilisation = utilisation(spec, sequence, report->executed_flops * stands_for, f.step_time.mean_s);
  for (int c = 0; c < sim::category_count; ++c) {
    f.breakdown[sim::name(static_cast<sim::Category>(c))] = report->categories[static_cast<std::size_t>(c)];
  }
  f.communication = communication(*report, lowered, spec.cluster);
  f.bubble_fraction = static_cast<double>(report->categories[static_cast<std::size_t>(sim::Category::bubble)].mean) /
                      static_cast<double>(report->duration);
  if (lowered.ideal_bubble >= 0) f.ideal_bubble_fraction = lowered.ideal_bubble / (1 + lowered.ideal_bubble);
  f.memory = memory_account(report->memory, spec);
  if (lowered.routing) f.expert_load = lowered.routing->load_of_step(record.step, 4);
  f.stage_split = lowered.split.how;
  f.assumptions = scenario.assumptions;
  f.assumptions.insert(f.assumptions.end(), lowered.assumptions.begin(), lowered.assumptions.end());
  f.warnings = scenario.warnings;
  f.warnings.insert(f.warnings.end(), lowered.warnings.begin(), lowered.warnings.end());
  if (!f.memory.fits) {
    if (!options.ignore_memory) {
      const auto advice = options.advice_catalog.empty()
                              ? std::string{}
                              : advice_text(memory_advice(scenario, options.advice_catalog, options));
      return memory_error(f.memory, spec, advice);
    }
    f.warnings.push_back(
        fmt::format("the layout does not fit: {:.1f} GiB of {:.1f} GiB; forecast anyway (--ignore-memory)",
                    f.memory.peak_bytes / gib(1).value, f.memory.limit_bytes / gib(1).value));
  }
  f.engine.devices = spec.cluster.devices;
  f.engine.rank_ops = lowered.program.rank_ops();
  f.engine.threads = threads;
  f.engine.cpu_s = cpu_seconds() - cpu_start;
  f.engine.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_start).count();
  f.engine.rank_ops_per_s = static_cast<double>(samples.rank_ops) / std::max(1e-9, f.engine.cpu_s);
  f.engine.peak_rss_bytes = peak_rss();
  const double shared = shared_share(lowered.program);
  f.engine.tier_share["lockstep"] = 1 - shared;
  if (sim::shares_links(lowered.program)) {
    f.engine.tier_share["flows"] = shared;
    f.engine.flow_level = spec.fabric.level ? sim::name(*spec.fabric.level) : "auto";
    f.engine.flows = samples.flows;
    f.engine.flow_steps = static_cast<int>(finished.size()) * (1 + warm_steps);
    f.assumptions.push_back(contention_text(f.engine, shared, coarse_flows(spec, lowered.program)));
  }
  f.report = std::move(*report);
  return f;
}

}  // namespace stepcast::scenarios
