// Field names are those that other tools rely on: a renamed field is a new schema version.
#include <algorithm>

#include "scenarios/report/diagnosis.h"
#include "scenarios/report/report.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;

double seconds(Ticks ticks) { return to_seconds(ticks).value; }

Json step_time_json(const StepTimeStats& stats) {
  Json json = {{"mean", stats.mean_s}, {"p50", stats.p50_s}, {"min", stats.min_s}, {"max", stats.max_s}};
  if (stats.p95_s >= 0) json["p95"] = stats.p95_s;
  if (stats.p99_s >= 0) json["p99"] = stats.p99_s;
  if (stats.p95_interval) json["p95_interval"] = {stats.p95_interval->low, stats.p95_interval->high};
  if (stats.p99_interval) json["p99_interval"] = {stats.p99_interval->low, stats.p99_interval->high};
  if (stats.p95_interval) json["interval_confidence"] = 0.95;
  json["samples"] = stats.samples;
  return json;
}

Json throughput_json(const Forecast& forecast) {
  const double step = forecast.step_time.mean_s;
  const double tokens_per_s = step > 0 ? forecast.tokens_per_step / step : 0;
  return {{"tokens_per_s", tokens_per_s},
          {"tokens_per_s_per_device", tokens_per_s / std::max(1, forecast.engine.devices)},
          {"steps_per_s", step > 0 ? 1 / step : 0},
          {"assignments_per_s", step > 0 ? forecast.assignments_per_step / step : 0},
          {"tokens_per_step", forecast.tokens_per_step},
          {"slots_per_step", forecast.slots_per_step}};
}

Json utilisation_json(const Utilisation& utilisation) {
  Json json = {{"mfu", utilisation.mfu},
               {"hfu", utilisation.hfu},
               {"model_flops", utilisation.model_flops},
               {"executed_flops", utilisation.executed_flops},
               {"convention", utilisation.convention},
               {"peak_flops_per_device", utilisation.peak_flops_per_device},
               {"peak_precision", utilisation.peak_precision},
               {"bf16_peak_flops_per_device", utilisation.bf16_peak_flops_per_device}};
  json["by_convention"] = Json::object();
  for (const auto& entry : utilisation.by_convention) {
    json["by_convention"][entry.name] = {{"model_flops", entry.model_flops}, {"mfu", entry.mfu}};
  }
  return json;
}

Json breakdown_json(const Forecast& forecast) {
  Json json = Json::object();
  for (const auto& [category, stats] : forecast.breakdown) {
    json[category] = {{"mean_s", seconds(stats.mean)},    {"p50_s", seconds(stats.p50)},
                      {"p95_s", seconds(stats.p95)},      {"max_s", seconds(stats.max)},
                      {"max_rank", stats.max_rank.value}, {"critical_path_s", seconds(stats.critical_path)}};
  }
  return json;
}

Json communication_json(const Forecast& forecast) {
  Json json = Json::array();
  // The rows are those of the recorded step, in its order.
  const auto& recorded = forecast.report.communication;
  const bool same_rows = recorded.size() == forecast.communication.size();
  for (std::size_t i = 0; i < forecast.communication.size(); ++i) {
    const CommunicationRow& row = forecast.communication[i];
    json.push_back({{"kind", row.kind},
                    {"group", row.group},
                    {"span", row.span},
                    {"domains", row.domains},
                    {"leaf_groups", row.leaf_groups},
                    {"crosses_leaf", row.crosses_leaf},
                    {"calls", row.calls},
                    {"payload_bytes", row.payload_bytes},
                    {"wire_bytes", row.wire_bytes},
                    {"raw_s", row.raw_s},
                    {"exposed_s", row.exposed_s},
                    {"wait_s", row.wait_s},
                    {"algbw_gb_per_s", row.algbw_gb_per_s},
                    {"busbw_gb_per_s", row.busbw_gb_per_s}});
    if (!same_rows) continue;
    json.back()["exposed_p95_s"] = seconds(recorded[i].exposed_p95);
    json.back()["exposed_max_s"] = seconds(recorded[i].exposed_max);
  }
  return json;
}

Json memory_json(const MemoryAccount& memory) {
  return {{"fits", memory.fits},
          {"peak_bytes", memory.peak_bytes},
          {"limit_bytes", memory.limit_bytes},
          {"allocated_bytes", memory.allocated_bytes},
          {"reserved_bytes", memory.reserved_bytes},
          {"peak_rank", memory.peak_rank},
          {"peak_at_s", memory.peak_at_s},
          {"by_part", memory.by_part}};
}

Json moe_json(const parallelism::ExpertLoad& load) {
  return {{"tokens_per_expert", {{"min", load.min}, {"median", load.median}, {"max", load.max}}},
          {"imbalance", load.imbalance},
          {"capacity_use", load.capacity_use},
          {"routed", load.routed},
          {"dropped", load.dropped},
          {"padded", load.padded}};
}

Json flows_json(const EngineStats& engine) {
  const sim::FlowStats& flows = engine.flows;
  Json levels;
  for (std::size_t l = 0; l < flows.levels.size(); ++l) {
    const sim::FlowStats::Level& level = flows.levels[l];
    levels[sim::name(static_cast<sim::FlowLevel>(l))] = {
        {"operations", level.operations},
        {"flows", level.flows},
        {"alone_s", level.alone_s},
        {"delay_s", level.delay_s},
        {"share_of_transfer_time", flows.alone_s > 0 ? level.alone_s / flows.alone_s : 0}};
  }
  return {{"level", engine.flow_level}, {"steps", engine.flow_steps},
          {"flows", flows.flows},       {"slowed", flows.slowed},
          {"promoted", flows.promoted}, {"levels", std::move(levels)},
          {"solves", flows.solves},     {"solved_flows", flows.solved_flows},
          {"alone_s", flows.alone_s},   {"delay_s", flows.delay_s},
          {"late", flows.late}};
}

Json engine_json(const EngineStats& engine) {
  Json json = {{"devices", engine.devices},       {"rank_ops", engine.rank_ops},
               {"tier_share", engine.tier_share}, {"wall_s", engine.wall_s},
               {"cpu_s", engine.cpu_s},           {"rank_ops_per_s", engine.rank_ops_per_s},
               {"threads", engine.threads},       {"peak_rss_bytes", engine.peak_rss_bytes}};
  if (engine.flow_steps > 0) json["contention"] = flows_json(engine);
  return json;
}

}  // namespace

nlohmann::ordered_json to_json(const Forecast& forecast) {
  Json json;
  json["schema"] = forecast_schema;
  json["name"] = forecast.scenario.name;
  json["scenario"] = forecast.scenario.resolved;
  json["step_time_s"] = step_time_json(forecast.step_time);
  json["samples_s"] = forecast.samples_s;
  json["throughput"] = throughput_json(forecast);
  json["utilisation"] = utilisation_json(forecast.utilisation);
  json["breakdown"] = breakdown_json(forecast);
  json["communication"] = communication_json(forecast);
  json["bubble"] = {{"fraction", forecast.bubble_fraction}};
  if (forecast.ideal_bubble_fraction >= 0) json["bubble"]["ideal_fraction"] = forecast.ideal_bubble_fraction;
  json["memory"] = memory_json(forecast.memory);
  json["moe"] = forecast.moe ? moe_json(forecast.expert_load) : Json::object();
  json["stage_split"] = forecast.stage_split;
  json["engine"] = engine_json(forecast.engine);
  json["hints"] = Json::array();
  for (const Hint& hint : diagnose(symptoms_of(forecast))) {
    json["hints"].push_back({{"symptom", hint.symptom}, {"look_at", hint.look_at}});
  }
  json["assumptions"] = forecast.assumptions;
  json["warnings"] = forecast.warnings;
  json["interrupted"] = forecast.interrupted;
  return json;
}

}  // namespace stepcast::scenarios
