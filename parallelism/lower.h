// Lowering: a resolved step becomes a program of cohorts, ready for an engine.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/ledger.h"
#include "parallelism/layout.h"
#include "parallelism/routing.h"
#include "parallelism/schedule.h"
#include "parallelism/stage_split.h"
#include "parallelism/step_spec.h"
#include "sim/base/error.h"
#include "sim/engine/conditions.h"
#include "sim/program/program.h"
#include "topology/fabric.h"

namespace stepcast::parallelism {

struct LoweredStep {
  sim::Program program;
  Layout layout;
  Schedule schedule;
  StageSplit split;
  std::unique_ptr<Routing> routing;  // null for dense models
  int microbatches = 1;              // per pipeline
  std::vector<DeviceId> placement;   // rank -> device
  double ideal_bubble = 0;           // closed form, share of a rank's ideal time; negative: none
  double parameters_per_rank_max = 0;
  std::map<std::string, topology::GroupSpan> spans;  // by group class: how its groups lie on the fabric (the widest)
  std::vector<std::string> assumptions;
  std::vector<std::string> warnings;

  // Slow factors by rank for one sampled step.
  [[nodiscard]] std::vector<float> slow_factors(const StepSpec& spec, std::uint64_t step) const;
};

// What the degrees must divide; the layers only where the split is not explicit.
[[nodiscard]] Divisibility divisibility(const StepSpec& spec);

// One microbatch of one pipeline: micro_batch sequences, each filled with documents (packed) or holding one (padded).
[[nodiscard]] models::Documents microbatch_documents(const StepSpec& spec);

// Fails with all faults at once: divisibility, precision that the device lacks, more stages than layers, batch that
// does not fill the microbatches, combinations that no framework runs (each with the reason).
[[nodiscard]] Result<LoweredStep> lower(const StepSpec& spec);

}  // namespace stepcast::parallelism
