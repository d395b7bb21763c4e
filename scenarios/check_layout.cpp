// What needs several blocks of a scenario: degrees against model and cluster, stages, batch.
#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "parallelism/layout.h"
#include "parallelism/stage_split.h"
#include "scenarios/draft.h"

namespace stepcast::scenarios {
namespace {

using parallelism::ScheduleKind;

// Without errors in the blocks that a check needs; a wrong value has been reported and would only bring more.
bool sound(const Draft& draft) {
  if (!draft.model_ok || !draft.cluster_ok) return false;
  constexpr std::array<std::string_view, 4> blocks = {"/model", "/cluster", "/parallelism", "/workload"};
  return std::none_of(draft.errors.begin(), draft.errors.end(), [&](const Error& error) {
    const std::string pointer = pointer_in(error.where);
    return std::any_of(blocks.begin(), blocks.end(), [&](auto block) { return pointer.starts_with(block); });
  });
}

void adopt(Draft& draft, const Errors& errors) {
  for (const Error& e : errors) {
    draft.errors.push_back(
        make_error(e.code, e.message, draft.document->where(e.where.starts_with('/') ? e.where : "/parallelism")));
  }
}

parallelism::Divisibility limits_of(const Draft& draft) {
  const parallelism::StepSpec& spec = draft.spec;
  const models::Model& model = spec.model;
  const auto any = [&](auto&& is) { return std::any_of(model.layers.begin(), model.layers.end(), is); };
  const bool scores = any([](const models::Layer& l) { return models::has_scores(l.attention); });
  const bool dense = any([](const models::Layer& l) { return l.ffn == models::FfnKind::dense; });
  parallelism::Divisibility limits;
  limits.devices = spec.cluster.devices;
  limits.heads = scores ? model.attention.heads : 0;
  limits.kv_heads = scores && !model.attention.mla ? model.attention.kv_heads : 0;
  limits.hidden = model.hidden;
  limits.ffn = dense ? model.dense_ffn : 0;
  limits.experts = model.moe.experts;
  limits.expert_ffn = model.is_moe() ? model.moe.expert_ffn : 0;
  limits.sequence_length = spec.workload.sequence_length;
  limits.layers = spec.stage_layers.empty() && spec.pipeline_layout.empty() ? model.layer_count() : 0;
  limits.sequence_parallel = spec.sequence_parallel;
  return limits;
}

// Pieces that the schedule cuts the model into. The V-shaped schedules hold two on a rank.
std::int64_t pieces_of(const parallelism::StepSpec& spec) {
  const std::int64_t pp = spec.degrees.pp;
  switch (spec.schedule) {
    case ScheduleKind::dualpipe:
      return pp;
    case ScheduleKind::zb_v:
    case ScheduleKind::dualpipe_v:
      return pp * std::max(spec.degrees.vpp, 2);
    default:
      return pp * spec.degrees.vpp;
  }
}

void check_split(Draft& draft) {
  const parallelism::StepSpec& spec = draft.spec;
  constexpr std::int64_t most_pieces = 1 << 20;
  const std::int64_t pieces = pieces_of(spec);
  if (pieces > most_pieces) {
    draft.fail("/parallelism/pp", fmt::format("{} pipeline stages; at most {} are allowed", pieces, most_pieces));
    return;
  }
  parallelism::SplitRequest request;
  request.layers = spec.model.layer_count();
  request.mtp_layers = spec.model.mtp_layers;
  request.virtual_stages = static_cast<int>(pieces);
  request.stage_layers = spec.stage_layers;
  request.pipeline_layout = spec.pipeline_layout;
  if (const auto split = parallelism::split_stages(request); !split) adopt(draft, split.errors());
}

void check_batch(Draft& draft, int dp) {
  const parallelism::Workload& workload = draft.spec.workload;
  const std::int64_t at_once = std::int64_t{workload.micro_batch} * dp;
  if (workload.global_batch % at_once != 0) {
    const std::int64_t below = workload.global_batch / at_once * at_once;
    draft.fail(
        "/workload/global_batch",
        fmt::format("global_batch {} does not fill its microbatches: micro_batch {} x dp {} = {} must divide it; "
                    "nearest: {}",
                    workload.global_batch, workload.micro_batch, dp, at_once,
                    below > 0 ? fmt::format("{} or {}", below, below + at_once) : std::to_string(at_once)));
  }
}

}  // namespace

void settle_batch(Draft& draft) {
  parallelism::StepSpec& spec = draft.spec;
  if (draft.given("/workload/global_batch") || !draft.cluster_ok) return;
  constexpr std::int64_t microbatches_per_stage = 4;
  constexpr std::int64_t largest = 1 << 28;
  const std::int64_t model_ranks = std::int64_t{spec.degrees.tp} * spec.degrees.cp * spec.degrees.pp;
  const std::int64_t dp = std::max<std::int64_t>(1, spec.cluster.devices / model_ranks);
  const std::int64_t microbatches = spec.degrees.pp > 1 ? microbatches_per_stage * spec.degrees.pp : 1;
  spec.workload.global_batch = static_cast<int>(std::min(largest, dp * microbatches * spec.workload.micro_batch));
  draft.assume(fmt::format("workload.global_batch not given: {} ({} microbatch(es) a pipeline, dp {})",
                           spec.workload.global_batch, microbatches, dp));
}

void check_layout(Draft& draft) {
  if (!sound(draft)) return;
  const auto layout = parallelism::make_layout(draft.spec.degrees, limits_of(draft));
  if (!layout) {
    adopt(draft, layout.errors());
  } else {
    check_batch(draft, layout->dp);
  }
  check_split(draft);
}

}  // namespace stepcast::scenarios
