#include "parallelism/lowering/limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace stepcast::parallelism {
namespace {

// A step of this many operations takes about ten minutes of one core.
constexpr std::int64_t most_rank_ops = 200'000'000'000;
constexpr double longest_ticks = 0x1p51;    // of one operation: 2,251 s
constexpr int fewest_kernels_a_layer = 10;  // of one pass
constexpr std::size_t most_operations = sim::none16;

Error too_many_layers(int rank, int layers) {
  return make_error(
      ErrorCode::unsupported,
      fmt::format("pipeline rank {} holds {} layers, more than one program's {} operations; more pipeline ranks "
                  "(parallelism.pp) hold fewer each",
                  rank, layers, most_operations),
      "/parallelism/pp");
}

int layers_of(const LoweredStep& step, std::size_t rank) {
  int layers = 0;
  for (const int piece : step.schedule.virtual_stage[rank]) {
    layers += step.split.pieces[static_cast<std::size_t>(piece)].layers;
  }
  return layers;
}

bool too_long(const sim::Cost& cost) {
  const double largest = std::max({cost.base_ticks, cost.per_row_ticks, cost.floor_ticks});
  return !(std::isfinite(largest) && largest <= longest_ticks);
}

}  // namespace

Errors layout_limits(const Lowering& low) {
  Errors errors;
  const StepSpec& spec = low.spec;
  const int replicas = low.step.layout.dp * low.step.layout.cp;
  if (spec.sharding == Sharding::hsdp && spec.shard_group < replicas && replicas % spec.shard_group != 0) {
    errors.push_back(make_error(
        ErrorCode::invalid,
        fmt::format("found {}: the {} data-parallel ranks (dp {} x cp {}) fall into copies of equal size only by a "
                    "divisor of their number",
                    spec.shard_group, replicas, low.step.layout.dp, low.step.layout.cp),
        "/parallelism/shard_group"));
  }
  for (std::size_t rank = 0; rank < low.step.schedule.virtual_stage.size(); ++rank) {
    const int layers = layers_of(low.step, rank);
    if (layers <= static_cast<int>(most_operations) / fewest_kernels_a_layer) continue;
    errors.push_back(too_many_layers(static_cast<int>(rank), layers));
    break;
  }
  return errors;
}

Errors program_limits(const Lowering& low) {
  Errors errors;
  const sim::Program& program = low.step.program;
  // Instructions name these by 16 bits.
  const std::pair<std::size_t, const char*> tables[] = {
      {static_cast<std::size_t>(program.loads), "layers with routing of their own"},
      {program.channels.size(), "channels between pipeline ranks"},
      {program.joins.size(), "groups that span pipeline ranks"}};
  for (const auto& [size, what] : tables) {
    if (size < most_operations) continue;
    return {make_error(ErrorCode::unsupported,
                       fmt::format("{} {}, more than the {} that one program holds", size, what, most_operations - 1),
                       "/parallelism")};
  }
  for (std::size_t c = 0; c < program.cohorts.size(); ++c) {
    const sim::Cohort& cohort = program.cohorts[c];
    const std::size_t largest = std::max({cohort.costs.size(), cohort.works.size(), cohort.bodies.size(),
                                          static_cast<std::size_t>(cohort.slots), cohort.groups.size()});
    if (largest >= most_operations) return {too_many_layers(static_cast<int>(c), layers_of(low.step, c))};
    for (const sim::Body& body : cohort.bodies) {
      for (const sim::Instruction& in : body.instructions) {
        const sim::Cost& cost = cohort.costs[in.cost];
        if (!too_long(cost)) continue;
        const double seconds = std::max({cost.base_ticks, cost.per_row_ticks, cost.floor_ticks}) / ticks_per_second;
        return {make_error(ErrorCode::unsupported,
                           fmt::format("operation {} would take {:.3g} s, more than the {:.0f} s that one may take: "
                                       "sequence_length, micro_batch, or a constant of device or software is out of "
                                       "proportion",
                                       cohort.works[in.work].name, seconds, longest_ticks / ticks_per_second),
                           "/workload")};
      }
    }
  }
  if (const std::int64_t ops = program.rank_ops(); ops > most_rank_ops) {
    errors.push_back(make_error(
        ErrorCode::unsupported,
        fmt::format(
            "one step is {:.3g} operations over all ranks ({} microbatches a pipeline); at most {:.3g} are simulated",
            static_cast<double>(ops), low.step.microbatches, static_cast<double>(most_rank_ops)),
        "/workload/global_batch"));
  }
  return errors;
}

}  // namespace stepcast::parallelism
