#include "scenarios/step_detail.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "parallelism/lower.h"
#include "scenarios/samples.h"
#include "scenarios/strip_pieces.h"
#include "sim/record/dependencies.h"
#include "sim/record/pieces.h"
#include "sim/record/recorder.h"

namespace stepcast::scenarios {
namespace {

using parallelism::LoweredStep;

double seconds(Ticks ticks) { return to_seconds(ticks).value; }

Ticks kernel_time(const sim::Partition& p) {
  return std::accumulate(p.begin(), p.begin() + static_cast<int>(sim::Category::exposed_tp), Ticks{0});
}

std::vector<RankPlace> places_of(const sim::Program& program) {
  std::vector<RankPlace> places(static_cast<std::size_t>(program.ranks));
  for (const sim::Cohort& cohort : program.cohorts) {
    for (std::size_t l = 0; l < cohort.ranks.size(); ++l) {
      places[static_cast<std::size_t>(cohort.ranks[l].value)] = {cohort.name, static_cast<int>(l)};
    }
  }
  return places;
}

// Without a pipeline: who has most to do, who least, and one between.
std::vector<RankId> spread_ranks(const Forecast& forecast) {
  std::vector<std::pair<Ticks, int>> by_kernels;
  for (std::size_t r = 0; r < forecast.report.by_rank.size(); ++r) {
    by_kernels.emplace_back(kernel_time(forecast.report.by_rank[r]), static_cast<int>(r));
  }
  std::sort(by_kernels.begin(), by_kernels.end());
  std::set<int> chosen = {by_kernels.front().second, by_kernels[by_kernels.size() / 2].second,
                          by_kernels.back().second};
  return {chosen.begin(), chosen.end()};
}

std::vector<RankId> ranks_to_draw(const Forecast& forecast, const sim::Program& program) {
  if (program.cohorts.size() < 2) return spread_ranks(forecast);
  const std::vector<RankPlace> places = places_of(program);
  std::map<std::string, Ticks> on_path;  // by cohort
  for (const sim::CriticalHop& hop : forecast.report.critical_path) {
    on_path[places[static_cast<std::size_t>(hop.rank.value)].cohort] += hop.end - hop.begin;
  }
  std::size_t stage = 0;
  for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
    if (on_path[program.cohorts[c].name] > on_path[program.cohorts[stage].name]) stage = c;
  }
  std::map<std::size_t, Ticks> by_lane;
  for (const sim::CriticalHop& hop : forecast.report.critical_path) {
    const RankPlace& place = places[static_cast<std::size_t>(hop.rank.value)];
    if (place.cohort == program.cohorts[stage].name)
      by_lane[static_cast<std::size_t>(place.lane)] += hop.end - hop.begin;
  }
  const auto busiest = std::max_element(by_lane.begin(), by_lane.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::size_t lane = busiest == by_lane.end() ? 0 : busiest->first;
  const std::size_t last = program.cohorts.size() - 1;
  const std::size_t from = stage == 0 ? 0 : std::min(stage - 1, last < 2 ? 0 : last - 2);
  std::vector<RankId> ranks;
  for (std::size_t c = from; c <= std::min(last, from + 2); ++c) {
    const auto& lanes = program.cohorts[c].ranks;
    ranks.push_back(lanes[std::min(lane, lanes.size() - 1)]);
  }
  return ranks;
}

std::string doing(const sim::Program& program, const sim::TimelineOp& op) {
  const sim::Cohort& cohort = program.cohorts[static_cast<std::size_t>(op.cohort)];
  const sim::Call& call = cohort.calls[static_cast<std::size_t>(op.call)];
  std::string text = cohort.bodies[call.body].name;
  if (call.instance >= 0) text += fmt::format(", microbatch {}", call.instance);
  if (call.second_instance >= 0) text += fmt::format(" and {}", call.second_instance);
  return text;
}

bool is_kernel(const sim::Program& program, const sim::TimelineOp& op) {
  const sim::Instruction& in = sim::instruction_of(program, op);
  return in.op == sim::Opcode::compute && in.stream == sim::Stream::compute && op.end > op.begin;
}

// Ops of one rank, in issue order.
std::vector<sim::TimelineOp> ops_of(const sim::Timeline& timeline, RankId rank) {
  std::vector<sim::TimelineOp> ops;
  for (const sim::TimelineOp& op : timeline.ops) {
    if (op.rank == rank) ops.push_back(op);
  }
  return ops;
}

std::vector<StripCall> calls_of(const sim::Program& program, const sim::Timeline& timeline, RankId rank,
                                std::size_t most) {
  std::vector<StripCall> calls;
  std::int32_t current = -1;
  for (const sim::TimelineOp& op : ops_of(timeline, rank)) {
    if (!is_kernel(program, op) || op.end <= timeline.step_begin) continue;
    const double begin = seconds(std::max<Ticks>(0, op.begin - timeline.step_begin));
    if (op.call != current) {
      const sim::Cohort& cohort = program.cohorts[static_cast<std::size_t>(op.cohort)];
      const sim::Call& call = cohort.calls[static_cast<std::size_t>(op.call)];
      calls.push_back({begin, begin, cohort.bodies[call.body].name, call.instance, call.second_instance, 1});
      current = op.call;
    }
    calls.back().end_s = seconds(op.end - timeline.step_begin);
  }
  const std::size_t every = (calls.size() + most - 1) / std::max<std::size_t>(1, most);
  if (every < 2) return calls;
  std::vector<StripCall> merged;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i % every == 0) {
      merged.push_back(calls[i]);
      continue;
    }
    merged.back().end_s = calls[i].end_s;
    ++merged.back().calls;
  }
  return merged;
}

std::vector<RankStrip> strips_of(const sim::Program& program, const std::vector<sim::WatchedRank>& ranks,
                                 const sim::Timeline& timeline, const DetailLimits& limits) {
  const std::vector<RankPlace> places = places_of(program);
  std::vector<RankStrip> strips;
  for (const sim::WatchedRank& watched : ranks) {
    RankStrip strip;
    strip.rank = watched.rank.value;
    strip.cohort = places[static_cast<std::size_t>(strip.rank)].cohort;
    strip.pieces = merged_pieces(watched.pieces, limits.pieces);
    strip.calls = calls_of(program, timeline, watched.rank, limits.calls);
    std::size_t next = 0;
    const auto ops = ops_of(timeline, watched.rank);
    for (StripPiece& piece : strip.pieces) {
      while (next < ops.size() &&
             (!is_kernel(program, ops[next]) || seconds(ops[next].end - timeline.step_begin) <= piece.begin_s)) {
        ++next;
      }
      const bool inside = next < ops.size() && seconds(ops[next].begin - timeline.step_begin) < piece.end_s;
      if (inside) piece.doing = doing(program, ops[next]);
    }
    strips.push_back(std::move(strip));
  }
  return strips;
}

std::vector<LayerLoad> expert_loads(const Forecast& forecast, const LoweredStep& lowered, std::size_t most) {
  std::vector<LayerLoad> loads;
  if (!lowered.routing) return loads;
  const auto& layers = forecast.scenario.spec.model.layers;
  std::vector<int> moe;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (layers[l].ffn == models::FfnKind::moe) moe.push_back(static_cast<int>(l));
  }
  const std::size_t every = std::max<std::size_t>(1, (moe.size() + most - 1) / std::max<std::size_t>(1, most));
  for (std::size_t i = 0; i < moe.size(); i += every) {
    loads.push_back({moe[i], lowered.routing->expert_rows(forecast.report.step, static_cast<int>(i), 0, 0)});
  }
  return loads;
}

}  // namespace

Result<StepDetail> step_detail(const Forecast& forecast, const DetailLimits& limits) {
  const parallelism::StepSpec& spec = forecast.scenario.spec;
  const auto lowered = parallelism::lower(spec);
  if (!lowered) return lowered.errors();
  const sim::Program& program = lowered->program;
  if (forecast.report.by_rank.size() != static_cast<std::size_t>(program.ranks)) {
    return make_error(ErrorCode::invalid, "a forecast of one lane a stage has no ranks to draw");
  }
  StepDetail detail;
  detail.limits = limits;
  detail.duration_s = seconds(forecast.report.duration);
  detail.places = places_of(program);
  for (const sim::Cohort& cohort : program.cohorts) detail.cohorts.push_back(cohort.name);
  const std::vector<float> slow = lowered->slow_factors(spec, 0);
  if (!slow.empty() && *std::min_element(slow.begin(), slow.end()) != *std::max_element(slow.begin(), slow.end())) {
    detail.slow_factors = slow;
  }
  // The sample that the forecast reports this step for.
  const std::uint64_t step = forecast.report.step;
  const auto warm = static_cast<std::uint64_t>(warm_steps);
  SampleConditions met(spec, *lowered, lowered->routing.get(), step >= warm ? step - warm : 0);
  if (const Status found = met.find_delays(program); !found) return found.errors();
  const sim::Conditions& conditions = met.conditions();
  sim::RecordOptions record;
  record.step = forecast.report.step;
  record.warm_steps = warm_steps;
  record.critical_path = false;
  std::vector<RankId> ranks = ranks_to_draw(forecast, program);
  const auto watched = sim::record_pieces(program, conditions, record, ranks);
  if (!watched) return watched.errors();
  ranks.push_back(forecast.report.memory.rank);
  const auto timeline = sim::record_timeline(program, conditions, record, ranks);
  if (!timeline) return timeline.errors();
  detail.strips = strips_of(program, *watched, *timeline, limits);
  detail.memory = memory_track(program, *timeline, forecast.report.memory, limits.memory_points);
  detail.experts = expert_loads(forecast, *lowered, limits.expert_layers);
  return detail;
}

}  // namespace stepcast::scenarios
