#include "scenarios/explain.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "parallelism/lower.h"
#include "topology/cluster.h"
#include "topology/fabric.h"

namespace stepcast::scenarios {
namespace {

using parallelism::Axis;
using parallelism::LoweredStep;

constexpr std::array<const char*, sim::stream_count> stream_names = {"compute", "tp",      "cp", "ep",
                                                                     "pp_send", "pp_recv", "dp", "copy"};

std::string group_lies(const topology::GroupSpan& span) {
  return span.inside_domain() ? fmt::format("{} ranks in one NVLink domain", span.ranks)
                              : fmt::format("{} ranks over {} NVLink domains, at most {} in one", span.ranks,
                                            span.domains, span.max_per_domain);
}

std::string piece_text(const parallelism::StageContent& piece) {
  std::string text = piece.embedding ? "embedding" : "";
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (piece.layers == 1) add(fmt::format("layer {}", piece.first_layer));
  if (piece.layers > 1) add(fmt::format("layers {}-{}", piece.first_layer, piece.first_layer + piece.layers - 1));
  if (piece.mtp_layers > 0) add(fmt::format("{} MTP layer(s)", piece.mtp_layers));
  if (piece.loss) add("loss");
  return text.empty() ? "nothing" : text;
}

void add_stages(Explanation& e, const LoweredStep& lowered) {
  e.stage_split = lowered.split.how;
  for (std::size_t rank = 0; rank < lowered.schedule.virtual_stage.size(); ++rank) {
    std::string text = fmt::format("stage {}:", rank);
    const char* between = " ";
    for (const int piece : lowered.schedule.virtual_stage[rank]) {
      text += between + piece_text(lowered.split.pieces[static_cast<std::size_t>(piece)]);
      between = " | ";
    }
    e.stages.push_back(std::move(text));
  }
}

void add_ranks(Explanation& e, const LoweredStep& lowered, const Scenario& scenario, const std::vector<int>& ranks) {
  const topology::Fabric fabric(scenario.spec.cluster);
  const parallelism::Layout& layout = lowered.layout;
  std::vector<int> shown = ranks;
  if (shown.empty()) {
    for (int stage = 0; stage < layout.pp; ++stage) {
      shown.push_back(layout.stage_ranks(StageId(stage)).front().value);
    }
  }
  for (const int r : shown) {
    const RankId rank(r);
    const DeviceId device = lowered.placement[static_cast<std::size_t>(r)];
    const auto at = [&](Axis axis) { return layout.coordinate(rank, axis); };
    e.ranks.push_back({r, device.value, fabric.node_of(device), fabric.domain_of(device), at(Axis::pp), at(Axis::tp),
                       at(Axis::cp), at(Axis::dp), at(Axis::etp), at(Axis::ep), at(Axis::edp)});
  }
  for (const auto& [name, span] : lowered.spans) e.groups.push_back({name, group_lies(span)});
}

OpRow op_row(const LoweredStep& lowered, int cohort, const sim::Body& body, const sim::Instruction& instruction) {
  const sim::Cohort& c = lowered.program.cohorts[static_cast<std::size_t>(cohort)];
  const sim::Work& work = c.works[instruction.work];
  double rows = 0;
  if (instruction.load != sim::none16 && lowered.routing) {
    std::vector<float> by_lane(c.ranks.size());
    lowered.routing->rows(0, instruction.load, cohort, 0, by_lane);
    rows = by_lane.front();
  }
  OpRow row;
  row.body = body.name;
  row.name = work.name;
  row.category = sim::name(work.category);
  row.stream = stream_names[static_cast<std::size_t>(instruction.stream)];
  row.alone_s = to_seconds(sim::duration_ticks(c.costs[instruction.cost], rows, 1, 1)).value;
  row.executed_flops = work.executed_flops + work.flops_per_row * rows;
  row.payload_bytes = work.payload_bytes + work.payload_per_row * rows;
  row.wire_bytes = work.wire_bytes + work.wire_per_row * rows;
  return row;
}

// Every instruction of the layer in the first cohort that holds it, body by body. Bodies that differ elsewhere (the
// first microbatch, the last one) often do the same for the layer, and are then listed once.
void add_ops(Explanation& e, const LoweredStep& lowered) {
  const auto& cohorts = lowered.program.cohorts;
  for (std::size_t cohort = 0; cohort < cohorts.size() && e.ops.empty(); ++cohort) {
    std::vector<std::vector<OpRow>> listed;
    for (const sim::Body& body : cohorts[cohort].bodies) {
      std::vector<OpRow> rows;
      for (const sim::Instruction& instruction : body.instructions) {
        if (cohorts[cohort].works[instruction.work].layer != e.layer) continue;
        rows.push_back(op_row(lowered, static_cast<int>(cohort), body, instruction));
      }
      const auto same_ops = [&rows](const std::vector<OpRow>& other) {
        return std::equal(rows.begin(), rows.end(), other.begin(), other.end(),
                          [](const OpRow& a, const OpRow& b) { return a.name == b.name && a.alone_s == b.alone_s; });
      };
      if (std::any_of(listed.begin(), listed.end(), same_ops)) continue;
      e.ops.insert(e.ops.end(), rows.begin(), rows.end());
      listed.push_back(std::move(rows));
    }
  }
}

int chosen_layer(const models::Model& model, int wanted) {
  if (wanted >= 0) return wanted;
  const auto moe = std::find_if(model.layers.begin(), model.layers.end(),
                                [](const models::Layer& layer) { return layer.ffn == models::FfnKind::moe; });
  return moe == model.layers.end() ? 0 : static_cast<int>(moe - model.layers.begin());
}

}  // namespace

Result<Explanation> explain(const Scenario& scenario, const ExplainOptions& options) {
  const models::Model& model = scenario.spec.model;
  if (options.layer >= model.layer_count()) {
    return make_error(
        ErrorCode::usage,
        fmt::format("found {}, {} has layers 0 to {}", options.layer, model.name, model.layer_count() - 1), "--layer");
  }
  for (const int rank : options.ranks) {
    if (rank >= scenario.spec.cluster.devices) {
      return make_error(ErrorCode::usage,
                        fmt::format("found {}, ranks are 0 to {}", rank, scenario.spec.cluster.devices - 1), "--ranks");
    }
  }
  Explanation e;
  e.resolved = scenario.resolved;
  e.origins = scenario.origins;
  e.facts = topology::describe(scenario.spec.cluster);
  e.assumptions = scenario.assumptions;
  e.warnings = scenario.warnings;
  const auto lowered = parallelism::lower(scenario.spec);
  if (!lowered) {
    e.faults = lowered.errors();
    return e;
  }
  const parallelism::Layout& l = lowered->layout;
  e.layout = fmt::format("tp {} x cp {} x dp {} x pp {}; etp {} x ep {} x edp {} x pp {}; {} microbatches a pipeline",
                         l.tp, l.cp, l.dp, l.pp, l.etp, l.ep, l.edp, l.pp, lowered->microbatches);
  e.layer = chosen_layer(model, options.layer);
  add_stages(e, *lowered);
  add_ranks(e, *lowered, scenario, options.ranks);
  add_ops(e, *lowered);
  e.assumptions.insert(e.assumptions.end(), lowered->assumptions.begin(), lowered->assumptions.end());
  e.warnings.insert(e.warnings.end(), lowered->warnings.begin(), lowered->warnings.end());
  return e;
}

}  // namespace stepcast::scenarios
