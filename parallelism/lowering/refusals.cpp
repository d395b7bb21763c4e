#include "parallelism/lowering/refusals.h"

#include <fmt/format.h>

namespace stepcast::parallelism {
namespace {

void refuse(Errors& errors, ErrorCode code, std::string why, std::string where) {
  errors.push_back(make_error(code, std::move(why), std::move(where)));
}

void check_precision(const StepSpec& spec, Errors& errors) {
  const auto& device = spec.cluster.device;
  if (!device.peak_flops.contains(spec.recipe.gemm)) {
    std::string has;
    for (const auto& [precision, peak] : device.peak_flops) {
      if (peak > 0) has += (has.empty() ? "" : ", ") + std::string(topology::name(precision));
    }
    refuse(errors, ErrorCode::unsupported,
           fmt::format("{} has no {}; it runs {}", device.name, topology::name(spec.recipe.gemm), has), "/precision");
  } else if (!device.gemm.contains(spec.recipe.gemm)) {
    refuse(errors, ErrorCode::unsupported,
           fmt::format("{} has no GEMM constants for {}", device.name, topology::name(spec.recipe.gemm)), "/precision");
  }
  if (!device.gemm.contains(topology::Precision::bf16) && spec.recipe.gemm != topology::Precision::fp16) {
    refuse(errors, ErrorCode::unsupported,
           fmt::format("{} has no BF16, which attention and logits need; use precision fp16", device.name),
           "/precision");
  }
}

bool pairs_passes(ScheduleKind kind) {
  return kind == ScheduleKind::coscheduled || kind == ScheduleKind::dualpipe || kind == ScheduleKind::dualpipe_v;
}

bool holds_several_chunks(const StepSpec& spec) {
  return spec.degrees.vpp > 1 || spec.schedule == ScheduleKind::zb_v || spec.schedule == ScheduleKind::dualpipe ||
         spec.schedule == ScheduleKind::dualpipe_v;
}

void check_schedule(const StepSpec& spec, Errors& errors) {
  if (spec.model.is_moe() && pairs_passes(spec.schedule) && !spec.overlap.ep) {
    refuse(errors, ErrorCode::invalid,
           fmt::format("schedule {} runs the expert exchange of one microbatch beside another's kernels; overlap.ep is "
                       "off: another schedule, or overlap.ep on",
                       info(spec.schedule).name),
           "/overlap/ep");
  }
  const bool copies = spec.schedule == ScheduleKind::dualpipe;
  const bool gathers = spec.sharding == Sharding::zero3 || spec.sharding == Sharding::hsdp;
  if (copies && (gathers || spec.sharding == Sharding::zero2)) {
    refuse(errors, ErrorCode::unsupported,
           "dualpipe keeps two copies of the parameters and reduces gradients once a step: sharding none or zero1 only",
           "/parallelism/sharding");
  }
  if (spec.sharding == Sharding::hsdp && spec.shard_group <= 1) {
    refuse(errors, ErrorCode::invalid,
           "sharding hsdp needs parallelism.shard_group, the ranks that share one copy (two or more)",
           "/parallelism/shard_group");
  }
  if (spec.overlap.ep && spec.model.is_moe() && !pairs_passes(spec.schedule)) {
    refuse(errors, ErrorCode::unsupported,
           fmt::format("overlap.ep runs the expert exchange of one microbatch beside another's kernels, which schedule "
                       "{} never holds together; use coscheduled, dualpipe or dualpipe-v",
                       info(spec.schedule).name),
           "/overlap/ep");
  }
}

void check_messages(const Overlap& overlap, Errors& errors) {
  if (overlap.p2p && overlap.p2p_batched) {
    refuse(errors, ErrorCode::invalid,
           "overlap.p2p_batched waits for a slot pair's sends and receives as one group; it needs overlap.p2p off",
           "/overlap/p2p_batched");
  }
  if (!overlap.p2p && overlap.p2p_warmup_flush) {
    refuse(errors, ErrorCode::invalid,
           "overlap.p2p_warmup_flush extends overlap.p2p to the warm-up and the flush; overlap.p2p is off: both on, "
           "or both off",
           "/overlap/p2p_warmup_flush");
  }
}

void check_overlap(const StepSpec& spec, Errors& errors) {
  const Overlap& overlap = spec.overlap;
  check_messages(overlap, errors);
  if (overlap.delay_wgrad && !(pairs_passes(spec.schedule) && spec.model.is_moe())) {
    refuse(errors, ErrorCode::unsupported,
           fmt::format("overlap.delay_wgrad moves expert weight gradients beside an exchange of a co-scheduled pair; "
                       "schedule {} of {} has none (schedules coscheduled, dualpipe and dualpipe-v of a model with "
                       "experts do)",
                       info(spec.schedule).name, spec.model.name),
           "/overlap/delay_wgrad");
  }
  if (!overlap.parameters_with_optimizer) return;
  const bool gathers_once = spec.sharding == Sharding::zero1 || spec.sharding == Sharding::zero2 ||
                            (spec.sharding != Sharding::none && !spec.reshard_after_forward);
  const char* why = !overlap.parameters ? "overlap.parameters is off"
                    : !gathers_once     ? "the sharding gathers no parameters once a step"
                    : !holds_several_chunks(spec)
                        ? "a rank holds one chunk, whose update its gather has to wait for (vpp 2 or more has several)"
                        : nullptr;
  if (why != nullptr) {
    refuse(
        errors, ErrorCode::unsupported,
        fmt::format("overlap.parameters_with_optimizer gathers the first chunk's parameters beside the update of the "
                    "others, but {}",
                    why),
        "/overlap/parameters_with_optimizer");
  }
}

void check_model(const StepSpec& spec, Errors& errors) {
  const auto& m = spec.model;
  if (!m.is_moe() && (spec.degrees.ep > 1 || spec.degrees.etp.value_or(1) > 1)) {
    refuse(errors, ErrorCode::invalid, fmt::format("{} has no experts: ep and etp must be 1", m.name),
           "/parallelism/ep");
  }
  if (!m.is_moe() && (spec.routing.kind != SkewKind::balanced || spec.routing.capacity_factor > 0)) {
    refuse(errors, ErrorCode::invalid, fmt::format("{} has no experts: routing has no meaning", m.name), "/routing");
  }
  if (spec.degrees.cp > 1) {
    for (const models::Layer& layer : m.layers) {
      if (layer.attention == models::AttentionKind::linear || layer.attention == models::AttentionKind::mamba2) {
        refuse(errors, ErrorCode::unsupported,
               fmt::format("context parallelism of linear attention and Mamba layers ({}) is not modelled", m.name),
               "/parallelism/cp");
        break;
      }
    }
  }
  if (m.is_moe() && spec.degrees.tp > 1 && spec.degrees.ep > 1 && !spec.sequence_parallel) {
    refuse(errors, ErrorCode::unsupported,
           "experts over ep with tensor parallelism take the tokens that sequence parallelism splits (Megatron-Core "
           "refuses it without): parallelism.sequence_parallel on, or tp 1",
           "/parallelism/sequence_parallel");
  }
  const auto& attention = spec.software.attention;
  const auto& device = spec.cluster.device;
  if (const auto own = attention.find(device.name);
      own != attention.end() && !device.attention.contains(own->second) && !device.attention.empty()) {
    std::string known;
    for (const auto& [generation, fit] : device.attention) known += (known.empty() ? "" : ", ") + generation;
    refuse(errors, ErrorCode::invalid,
           fmt::format("software.attention of {} is '{}'; {} has constants for {}", device.name, own->second,
                       device.name, known),
           "/software/attention");
  }
  if (spec.sequence_parallel && spec.degrees.tp == 1) return;  // no effect
  if (spec.cp_kind == CpKind::all_to_all && spec.degrees.cp > 1 &&
      m.attention.heads % (spec.degrees.tp * spec.degrees.cp) != 0) {
    refuse(errors, ErrorCode::invalid,
           fmt::format("cp_kind a2a splits heads: tp {} x cp {} must divide {} heads", spec.degrees.tp, spec.degrees.cp,
                       m.attention.heads),
           "/parallelism/cp_kind");
  }
}

void check_dispatcher(const StepSpec& spec, Errors& errors) {
  const int sms = spec.cluster.device.sms;
  if (sms <= 0 || stated_sms(spec) < sms) return;
  refuse(errors, ErrorCode::invalid,
         fmt::format("found {}: an exchange leaves SMs to the kernels beside it, and {} has {}; allowed are 0 (the "
                     "dispatcher's default) to {}",
                     stated_sms(spec), spec.cluster.device.name, sms, sms - 1),
         "/runtime/dispatcher_sms");
}

}  // namespace

Errors refusals(const StepSpec& spec) {
  Errors errors;
  check_dispatcher(spec, errors);
  check_precision(spec, errors);
  check_schedule(spec, errors);
  check_overlap(spec, errors);
  check_model(spec, errors);
  return errors;
}

}  // namespace stepcast::parallelism
