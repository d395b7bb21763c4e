#include "parallelism/lower.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "parallelism/lowering/limits.h"
#include "parallelism/lowering/links.h"
#include "parallelism/lowering/no_effect.h"
#include "parallelism/lowering/refusals.h"
#include "parallelism/lowering/shared_device.h"
#include "parallelism/lowering/stage.h"
#include "parallelism/tails.h"

namespace stepcast::parallelism {

Divisibility divisibility(const StepSpec& spec) {
  const models::Model& m = spec.model;
  Divisibility d;
  d.devices = spec.cluster.devices;
  d.heads = m.attention.heads;
  d.kv_heads = m.attention.mla ? 0 : m.attention.kv_heads;
  d.hidden = m.hidden;
  d.ffn = m.dense_ffn;
  d.experts = m.moe.experts;
  d.expert_ffn = m.moe.expert_ffn;
  d.sequence_length = spec.workload.sequence_length;
  d.sequence_parallel = spec.sequence_parallel;
  const bool explicit_split = !spec.stage_layers.empty() || !spec.pipeline_layout.empty();
  d.layers = explicit_split ? 0 : m.layer_count();
  return d;
}

models::Documents microbatch_documents(const StepSpec& spec) {
  const int s = spec.workload.sequence_length;
  const double b = spec.workload.micro_batch;
  models::Documents d;
  if (spec.workload.document_lengths.empty() || spec.workload.packing == Packing::padded) {
    d = models::one_sequence(s, spec.model.window);
  } else {
    d = models::make_documents(spec.workload.document_lengths, spec.model.window, s);
    const double scale = s / d.tokens;
    d.tokens *= scale;
    d.sum_of_squares *= scale;
    d.sum_windowed *= scale;
    d.sum_chunked *= scale;
  }
  d.tokens *= b;
  d.sum_of_squares *= b;
  d.sum_windowed *= b;
  d.sum_chunked *= b;
  return d;
}

namespace {

void number_loads(Lowering& low) {
  const models::Model& m = low.spec.model;
  int loads = 0;
  for (const models::Layer& layer : m.layers)
    low.load_of_layer.push_back(layer.ffn == models::FfnKind::moe ? loads++ : -1);
  if (m.mtp_layers > 0 && models::mtp_layer(m).ffn == models::FfnKind::moe) {
    low.mtp_first_load = loads;
    loads += m.mtp_layers;
  }
  low.step.program.loads = loads;
}

void make_joins(Lowering& low) {
  sim::Program& program = low.step.program;
  const int stages = low.step.layout.pp;
  if (low.step.layout.ranks() > 1) {
    sim::JoinClass all;
    all.name = "world";
    for (int i = 0; i < stages; ++i) all.cohorts.push_back(i);
    program.joins.push_back(std::move(all));
    low.step_join = static_cast<int>(program.joins.size()) - 1;
    low.step.spans["world"] = low.fabric.span(low.step.placement);
  }
  const auto lanes = static_cast<std::size_t>(low.step.layout.ranks_per_stage());
  // Lane i of one stage meets lane i of the other.
  const auto by_lane = [&](const char* name, int a, int b) {
    sim::JoinClass j;
    j.name = name;
    j.cohorts = {a, b};
    std::vector<std::int32_t> group(lanes);
    for (std::size_t i = 0; i < lanes; ++i) group[i] = static_cast<std::int32_t>(i);
    j.group_of_lane = {group, group};
    program.joins.push_back(std::move(j));
    return static_cast<int>(program.joins.size()) - 1;
  };
  if (low.step.schedule.parameter_copies > 1) {
    const Layout& layout = low.step.layout;
    // Both stages have the same lanes; a group of one and the same lanes of the other reduce together.
    const auto pair = [&](const char* name, int a, auto&& group_of) {
      sim::JoinClass j;
      j.name = name;
      j.cohorts = {a, stages - 1 - a};
      std::map<RankId, std::int32_t> known;  // by first member
      std::vector<std::int32_t> group;
      for (const RankId r : layout.stage_ranks(StageId(a))) {
        const auto members = group_of(r);
        const RankId first = *std::min_element(members.begin(), members.end());
        group.push_back(known.try_emplace(first, static_cast<std::int32_t>(known.size())).first->second);
      }
      j.group_of_lane = {group, group};
      program.joins.push_back(std::move(j));
      return static_cast<int>(program.joins.size()) - 1;
    };
    for (int r = 0; r < stages / 2; ++r) {
      Lowering::PairJoins& joins = low.pair_joins[{r, stages - 1 - r}];
      joins.dense = pair("dp", r, [&](RankId rank) { return layout.dp_cp_group(rank); });
      if (low.spec.model.is_moe()) joins.experts = pair("edp", r, [&](RankId k) { return layout.group(k, Axis::edp); });
    }
  }
  const auto first = low.step.schedule.owner(0, 0);
  const auto last = low.step.schedule.owner(low.step.schedule.virtual_stages - 1, 0);
  if (low.spec.model.tied_embeddings && stages > 1 && first.rank != last.rank &&
      low.step.schedule.parameter_copies == 1) {
    low.embedding_join = by_lane("embedding", std::min(first.rank, last.rank), std::max(first.rank, last.rank));
  }
}

std::unique_ptr<Routing> make_routing(const Lowering& low) {
  const StepSpec& spec = low.spec;
  const Layout& layout = low.step.layout;
  if (low.step.program.loads == 0) return nullptr;
  std::vector<ExpertLanes> lanes;
  for (const sim::Cohort& cohort : low.step.program.cohorts) {
    ExpertLanes e;
    for (const RankId r : cohort.ranks) {
      e.group.push_back(layout.coordinate(r, Axis::edp));
      e.position.push_back(layout.coordinate(r, Axis::ep));
    }
    lanes.push_back(std::move(e));
  }
  RoutingShape shape;
  shape.experts = spec.model.moe.experts;
  shape.top_k = spec.model.moe.top_k;
  shape.layers = low.step.program.loads;
  shape.ep = layout.ep;
  shape.etp = layout.etp;
  shape.tokens_per_rank = low.documents.tokens / layout.cp / layout.tp;
  return std::make_unique<Routing>(spec.routing, shape, spec.seed, std::move(lanes), low.step.microbatches);
}

}  // namespace

Result<LoweredStep> lower(const StepSpec& spec) {
  Errors errors = refusals(spec);
  const auto add = [&errors](const Errors& more) { errors.insert(errors.end(), more.begin(), more.end()); };

  LoweredStep step;
  auto layout = make_layout(spec.degrees, divisibility(spec));
  if (!layout) add(layout.errors());
  if (!errors.empty()) return errors;
  step.layout = std::move(*layout);

  const int pipelines_batch = step.layout.dp * spec.workload.micro_batch;
  if (spec.workload.global_batch % pipelines_batch != 0 || spec.workload.global_batch < pipelines_batch) {
    return make_error(
        ErrorCode::invalid,
        fmt::format("global_batch {} must be a multiple of dp {} x micro_batch {} = {}", spec.workload.global_batch,
                    step.layout.dp, spec.workload.micro_batch, pipelines_batch),
        "/workload/global_batch");
  }
  step.microbatches = spec.workload.global_batch / pipelines_batch;

  const ScheduleInfo& kind = info(spec.schedule);
  ScheduleShape shape{step.layout.pp, step.layout.vpp, step.microbatches, spec.schedule_group};
  auto schedule = kind.make(shape);
  if (!schedule) return schedule.errors();
  step.schedule = std::move(*schedule);
  step.ideal_bubble = kind.ideal_bubble(step.schedule.shape, 1, 1, 1);

  SplitRequest request;
  request.layers = spec.model.layer_count();
  request.mtp_layers = spec.model.mtp_layers;
  request.virtual_stages = step.schedule.virtual_stages;
  request.stage_layers = spec.stage_layers;
  request.pipeline_layout = spec.pipeline_layout;
  auto split = split_stages(request);
  if (!split) return split.errors();
  step.split = std::move(*split);
  step.assumptions.push_back("stage split: " + step.split.how);

  const topology::Fabric fabric(spec.cluster);
  step.placement = topology::place_ranks(fabric, step.layout.ranks());
  step.program.ranks = step.layout.ranks();
  step.program.cohorts.resize(static_cast<std::size_t>(step.layout.pp));

  Lowering low{spec, fabric, step, microbatch_documents(spec), {}, -1, 0, {}, {}, -1, -1};
  low.padded_vocab = padded_vocabulary(spec.software, spec.model.vocab, step.layout.tp);
  if (Errors limits = layout_limits(low); !limits.empty()) return limits;
  number_loads(low);
  make_joins(low);
  for (int rank = 0; rank < step.layout.pp; ++rank) Stage(low, rank).lower_all();
  for (sim::Cohort& cohort : step.program.cohorts) cohort.static_bytes.resize(step.program.memory_parts.size(), 0);
  if (Errors limits = program_limits(low); !limits.empty()) return limits;
  step.routing = make_routing(low);
  mark_units(step.program);
  if (spec.noise.degraded_links.share > 0) mark_network_transfers(step.program);
  slow_kernels_beside_transfers(low);
  if (spec.fabric.contention) attach_links(low);
  note_what_has_no_effect(low);
  STEPCAST_ASSERT(sim::check(step.program).empty());
  return step;
}

std::vector<float> LoweredStep::slow_factors(const StepSpec& spec, std::uint64_t sampled_step) const {
  return draw_tails(spec, placement, sampled_step).slow;
}

}  // namespace stepcast::parallelism
