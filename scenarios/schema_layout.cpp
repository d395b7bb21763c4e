// The blocks parallelism and workload.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "parallelism/layout.h"
#include "parallelism/pipeline_layout.h"
#include "scenarios/documents.h"
#include "scenarios/draft.h"

namespace stepcast::scenarios {
namespace {

using Json = nlohmann::ordered_json;
using parallelism::CpKind;
using parallelism::Packing;
using parallelism::ScheduleKind;
using parallelism::Sharding;

constexpr int most_tokens = 1 << 28;
constexpr int largest_batch = 1 << 28;

const std::vector<std::string> sharding_names = {"none", "zero1", "zero2", "zero3", "hsdp"};
const std::vector<std::string> cp_names = {"ring", "allgather", "a2a", "a2a+ring"};

void read_degrees(JsonFields& fields, parallelism::Degrees& degrees) {
  fields.read("tp", degrees.tp, 1, parallelism::largest_degree);
  fields.read("cp", degrees.cp, 1, parallelism::largest_degree);
  fields.read("pp", degrees.pp, 1, parallelism::largest_degree);
  fields.read("vpp", degrees.vpp, 1, parallelism::largest_degree);
  fields.read("ep", degrees.ep, 1, parallelism::largest_degree);
  int etp = 1;
  fields.read("etp", etp, 1, parallelism::largest_degree);
  degrees.etp = etp;
  if (const auto dp = fields.integer("dp", 1, parallelism::most_devices)) degrees.dp = static_cast<int>(*dp);
  fields.read("order", degrees.order);
}

void read_split(JsonFields& fields, parallelism::StepSpec& spec) {
  constexpr int most_layers = 100'000;
  constexpr std::size_t longest_layout = 100'000;
  fields.list("stage_layers", [&](const Json& element, const std::string& pointer) {
    const bool whole = element.is_number_integer() || element.is_number_unsigned();
    const auto layers = whole ? element.get<std::int64_t>() : -1;
    if (layers < 0 || layers > most_layers ||
        (element.is_number_unsigned() && element.get<std::uint64_t>() > most_layers)) {
      fields.errors().push_back(make_error(
          ErrorCode::invalid,
          fmt::format("found {}; a whole number of layers from 0 to {} is expected", shown(element), most_layers),
          fields.document().where(pointer)));
      return;
    }
    spec.stage_layers.push_back(static_cast<int>(layers));
  });
  fields.read("pipeline_layout", spec.pipeline_layout);
  if (spec.pipeline_layout.size() > longest_layout) {
    fields.fail("pipeline_layout", fmt::format("pipeline_layout has {} characters; at most {} are read",
                                               spec.pipeline_layout.size(), longest_layout));
    spec.pipeline_layout.clear();
  }
  if (fields.has("stage_layers") && fields.has("pipeline_layout")) {
    fields.fail("pipeline_layout", "stage_layers and pipeline_layout both place the layers; give one of them");
  }
  // An explicit split says how many pieces there are, so vpp need not.
  if (fields.has("vpp")) return;
  std::size_t pieces = spec.stage_layers.size();
  if (!spec.pipeline_layout.empty()) {
    const auto stages = parallelism::parse_pipeline_layout(spec.pipeline_layout);
    pieces = stages ? stages->size() : 0;
  }
  const auto pp = static_cast<std::size_t>(spec.degrees.pp);
  if (pieces > pp && pieces % pp == 0 && pieces / pp <= parallelism::largest_degree) {
    spec.degrees.vpp = static_cast<int>(pieces / pp);
  }
}

void read_schedule(Draft& draft, JsonFields& fields) {
  parallelism::StepSpec& spec = draft.spec;
  std::vector<std::string> names;
  for (const auto& info : parallelism::schedules()) names.emplace_back(info.name);
  if (const auto index = fields.choice("schedule", names)) {
    spec.schedule = parallelism::schedules()[*index].kind;
  } else {
    // overlap.ep asks for a schedule that can hide the expert exchange.
    const bool hide = draft.given("/overlap/ep") && draft.tree["overlap"]["ep"] == true;
    spec.schedule = hide                   ? ScheduleKind::coscheduled
                    : spec.degrees.vpp > 1 ? ScheduleKind::interleaved
                                           : ScheduleKind::one_f_one_b;
    if ((spec.degrees.pp > 1 || hide) && !fields.has("schedule")) {
      draft.assume(fmt::format("parallelism.schedule not given: {}", parallelism::info(spec.schedule).name));
    }
  }
  fields.read("schedule_group", spec.schedule_group, 0, largest_batch);
}

void read_sharding(Draft& draft, JsonFields& fields) {
  parallelism::StepSpec& spec = draft.spec;
  const auto usual = std::find(sharding_names.begin(), sharding_names.end(), spec.software.sharding);
  if (usual != sharding_names.end()) spec.sharding = static_cast<Sharding>(usual - sharding_names.begin());
  if (const auto index = fields.choice("sharding", sharding_names)) {
    spec.sharding = static_cast<Sharding>(*index);
  } else if (!fields.has("sharding")) {
    draft.assume(
        fmt::format("parallelism.sharding not given: {}, as {} runs it", spec.software.sharding, spec.software.name));
  }
  const bool full = spec.sharding == Sharding::zero3 || spec.sharding == Sharding::hsdp;
  spec.reshard_after_forward = spec.degrees.pp == 1;
  if (const auto reshard = fields.boolean("reshard_after_forward")) {
    spec.reshard_after_forward = *reshard;
    if (!full) {
      fields.fail("reshard_after_forward",
                  fmt::format("reshard_after_forward belongs to sharding zero3 and hsdp; the sharding is {}",
                              sharding_names[static_cast<std::size_t>(spec.sharding)]));
    }
  } else if (full && spec.degrees.pp > 1 && !fields.has("reshard_after_forward")) {
    draft.assume(
        "parallelism.reshard_after_forward not given: off with a pipeline, parameters are gathered and gradients "
        "reduced once a step");
  }
  fields.read("shard_group", spec.shard_group, 1, parallelism::most_devices);
  if (spec.sharding != Sharding::hsdp) {
    if (fields.has("shard_group")) {
      fields.fail("shard_group", fmt::format("shard_group belongs to sharding hsdp; the sharding is {}",
                                             sharding_names[static_cast<std::size_t>(spec.sharding)]));
    }
  } else if (!fields.has("shard_group") && draft.cluster_ok) {
    spec.shard_group = spec.cluster.nvlink_domain;
    draft.assume(fmt::format("parallelism.shard_group not given: {} devices, one NVLink domain", spec.shard_group));
  }
}

void read_sequence_parallel(Draft& draft, JsonFields& fields) {
  parallelism::StepSpec& spec = draft.spec;
  spec.sequence_parallel = spec.degrees.tp > 1 && spec.software.sequence_parallel;
  if (const auto on = fields.boolean("sequence_parallel")) {
    spec.sequence_parallel = *on;
  } else if (spec.degrees.tp > 1 && !fields.has("sequence_parallel")) {
    draft.assume(fmt::format("parallelism.sequence_parallel not given: {}, as {} runs it with tp above 1",
                             spec.sequence_parallel ? "on" : "off", spec.software.name));
  }
}

}  // namespace

void read_parallelism(Draft& draft) {
  JsonFields fields = draft.block("parallelism");
  parallelism::StepSpec& spec = draft.spec;
  read_degrees(fields, spec.degrees);
  read_split(fields, spec);
  read_schedule(draft, fields);
  read_sharding(draft, fields);
  read_sequence_parallel(draft, fields);
  if (const auto index = fields.choice("cp_kind", cp_names)) {
    spec.cp_kind = static_cast<CpKind>(*index);
  } else if (spec.degrees.cp > 1 && !fields.has("cp_kind")) {
    draft.assume("parallelism.cp_kind not given: ring");
  }
  fields.refuse_unknown();
}

void read_workload(Draft& draft) {
  JsonFields fields = draft.block("workload");
  parallelism::Workload& workload = draft.spec.workload;
  const auto or_assume = [&](const char* key, int& target, int low, int high, int usual) {
    target = usual;
    fields.read(key, target, low, high);
    if (!fields.has(key)) draft.assume(fmt::format("workload.{} not given: {}", key, usual));
  };
  or_assume("sequence_length", workload.sequence_length, 1, most_tokens, 4096);
  or_assume("micro_batch", workload.micro_batch, 1, largest_batch, 1);
  // Without a global batch: enough microbatches to fill the pipeline four times, settled once the layout is known.
  fields.read("global_batch", workload.global_batch, 1, largest_batch);
  if (const auto index = fields.choice("packing", {"packed", "padded"}))
    workload.packing = static_cast<Packing>(*index);
  read_documents(draft, fields);
  fields.read("steps", workload.steps, 1, 1'000'000);
  fields.refuse_unknown();
}

}  // namespace stepcast::scenarios
