#include "parallelism/kernels/context.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast::parallelism {

using sim::Category;
using topology::AffineTime;

namespace {

constexpr double bf16_bytes = 2;
constexpr double fp32_bytes = 4;
// TF32 runs at half the 16-bit rate (data sheets from A100 on) on operands twice as wide: as a product twice as deep.
constexpr double single_depth = 2;

AffineTime fixed(Seconds s) { return {s, Seconds(0), Seconds(0)}; }

Category category_of(Pass pass, Category category) { return pass == Pass::recompute ? Category::recompute : category; }

// One byte a block of scales, read and written again in the order that the product wants (32 elements a block, 16 of
// NVFP4).
double swizzle_bytes(topology::Precision precision) {
  return precision == topology::Precision::nvfp4 ? 2.0 / 16 : 2.0 / 32;
}

// Reads bf16, writes the 1-byte (or narrower) tensor and its transposed copy for the weight gradient.
double quantise_bytes(topology::Precision precision) { return bf16_bytes + 2 * topology::element_bytes(precision); }

}  // namespace

bool StageContext::recomputes(std::string_view module) const {
  if (spec.recompute.mode == RecomputeMode::full) return full_recompute();
  if (spec.recompute.mode == RecomputeMode::none) return false;
  const auto& modules = spec.recompute.modules;
  // torchtitan's selective policy by op: norms and the MLP again, but for one of its inner products.
  if ((module == "layernorm" || module == "mlp") && recomputes("op")) return true;
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

GraphScope::GraphScope(StageContext& ctx, std::string_view module) : ctx_(ctx), before_(ctx.out.in_graph()) {
  const Runtime& runtime = ctx.spec.runtime;
  const auto& modules = runtime.graph_modules;
  const bool covered =
      runtime.cuda_graphs == CudaGraphs::partial && std::find(modules.begin(), modules.end(), module) != modules.end();
  if (!covered || before_) return;
  ctx.host_work("graph_launch", 1);
  ctx.out.in_graph(true);
}

void StageContext::host_work(const std::string& name, double launches) {
  OpSpec op;
  op.name = name;
  op.layer = layer;
  for (int i = out.whole_launches(launches); i > 0; --i) out.compute(op);
}

bool StageContext::swizzles() const {
  const std::string& recipe = spec.recipe.name;
  return quantised() && !software().fused_swizzle && (recipe == "mxfp8" || recipe == "nvfp4");
}

GraphScope::~GraphScope() { ctx_.out.in_graph(before_); }

void StageContext::elementwise(Pass pass, std::string name, Category category, double bytes, double kernels) {
  const double f = software().unfused_factor;
  OpSpec op;
  op.name = std::move(name) + suffix;
  op.category = category_of(pass, category);
  op.time = fixed(topology::membound_time(device(), Bytes(bytes * f), kernels * f));
  op.layer = layer;
  out.compute(op);
}

void StageContext::elementwise_rows(Pass pass, std::string name, Category category, double bytes_per_row,
                                    double kernels) {
  const double f = software().unfused_factor;
  OpSpec op;
  op.name = std::move(name) + suffix;
  op.category = category_of(pass, category);
  op.time = topology::membound_per_row(device(), Bytes(bytes_per_row * f), Bytes(0), kernels * f);
  op.load = load;
  op.layer = layer;
  out.compute(op);
}

void StageContext::linear(Pass pass, const std::string& name, double m, double n, double k, Operands operands) {
  const bool own_precision = operands == Operands::recipe;
  const bool single = operands == Operands::single_backward && !is_forward(pass);
  const bool quantise = quantised() && own_precision;
  const auto precision = quantise ? spec.recipe.gemm
                                  : (spec.recipe.gemm == topology::Precision::fp16 ? topology::Precision::fp16
                                                                                   : topology::Precision::bf16);
  const auto gemm = [&](const char* what, Pass p, double gm, double gn, double gk, double accumulate) {
    OpSpec op;
    op.name = name + what + suffix;
    op.category = category_of(p, Category::gemm);
    const double depth = single ? single_depth * gk : gk;
    op.time = fixed(topology::gemm_time(device(), precision, {gm, gn, depth, accumulate, has_wgrad(p)}));
    op.flops = 2 * gm * gn * gk;
    op.layer = layer;
    if (quantise && swizzles()) {
      OpSpec scales = op;
      scales.name = name + what + ".swizzle" + suffix;
      scales.category = category_of(p, Category::quantise);
      scales.time = fixed(topology::membound_time(device(), Bytes((gm + gn) * gk * swizzle_bytes(precision)), 2));
      scales.flops = 0;
      scales.launch = false;  // by the call that makes the product
      out.compute(scales);
    }
    out.compute(op);
  };
  // Activation and weight, each read or written once in 16 bits and once in fp32.
  const auto cast = [&](const char* what) {
    if (single) elementwise(pass, name + what, Category::memory_bound, (m * k + n * k) * (bf16_bytes + fp32_bytes), 2);
  };
  const auto quantise_kernel = [&](const char* what, double elements) {
    if (quantise) elementwise(pass, name + what, Category::quantise, elements * quantise_bytes(precision), 1);
  };
  if (is_forward(pass)) {
    quantise_kernel(".quantise_input", m * k);
    gemm("", pass, m, n, k, 0);
    return;
  }
  if (has_dgrad(pass)) {
    quantise_kernel(".quantise_gradient", m * n);
    gemm(".dgrad", Pass::dgrad, m, k, n, 0);
    // The gradients that come in and go out; those of logits and router are counted where they are made.
    out.transient("activations.gradients", (m * k + (own_precision ? m * n : 0)) * bf16_bytes);
    cast(".dgrad_cast");
    if (single) out.transient("activations.gradients", m * k * (bf16_bytes + fp32_bytes));
  }
  if (has_wgrad(pass)) {
    cast(".wgrad_cast");
    gemm(".wgrad", Pass::wgrad, n, k, m, software().fused_accumulation ? software().accumulate_bytes_per_weight : 0);
    if (!software().fused_accumulation) {
      elementwise(pass, name + ".accumulate", Category::memory_bound, software().accumulate_bytes_per_weight * n * k,
                  1);
    }
  }
}

void StageContext::linear_of_region(Pass pass, const std::string& name, double m, double n, double k,
                                    const std::string& region, Operands operands) {
  if (pass != Pass::backward || tp.index < 0 || !software().tp_gradients_beside_wgrad) {
    linear(pass, name, m, n, k, operands);
    enter_tp(pass, region);
    return;
  }
  linear(Pass::dgrad, name, m, n, k, operands);
  enter_tp(Pass::dgrad, region, false);
  linear(Pass::wgrad, name, m, n, k, operands);
  out.wait_next(sim::bit(sim::Stream::tp));
}

void StageContext::grouped_linear(Pass pass, const std::string& name, double n, double k) {
  const bool quantise = quantised();
  const auto precision = spec.recipe.gemm;
  const int local_experts = model().moe.experts / layout.ep;
  const double level = quantise ? factor_of(software().expert_fp8_level, device().name) : 1;
  const auto gemm = [&](const char* what, topology::GroupedKind kind, double gn, double gk, double accumulate) {
    OpSpec op;
    op.name = name + what + suffix;
    op.category = category_of(pass, Category::grouped_gemm);
    op.time = topology::grouped_gemm_time(device(), precision, kind, local_experts, gn, gk, accumulate);
    op.time.base = op.time.base / level;
    op.time.per_row = op.time.per_row / level;
    op.flops_per_row = 2 * gn * gk;
    op.load = load;
    op.layer = layer;
    if (swizzles()) {
      OpSpec scales = op;
      scales.name = name + what + ".swizzle" + suffix;
      scales.category = category_of(pass, Category::quantise);
      const double bytes = swizzle_bytes(precision);
      const bool rows_alone = kind == topology::GroupedKind::wgrad;  // else the weights are the other operand
      scales.time =
          topology::membound_per_row(device(), Bytes((rows_alone ? gn + gk : gk) * bytes),
                                     Bytes(rows_alone ? 0 : local_experts * gn * gk * bytes), 2 * local_experts);
      scales.flops_per_row = 0;
      scales.launch = false;  // by the call that makes the products
      out.compute(scales);
    }
    out.compute(op);
  };
  if (is_forward(pass)) {
    if (quantise)
      elementwise_rows(pass, name + ".quantise_input", Category::quantise,
                       k * quantise_bytes(precision) * expert_traffic(), 1);
    gemm("", topology::GroupedKind::forward, n, k, 0);
    return;
  }
  if (has_dgrad(pass)) {
    if (quantise)
      elementwise_rows(pass, name + ".quantise_gradient", Category::quantise,
                       n * quantise_bytes(precision) * expert_traffic(), 1);
    gemm(".dgrad", topology::GroupedKind::dgrad, k, n, 0);
    out.transient("activations.gradients", 0, (n + k) * bf16_bytes);
  }
  if (has_wgrad(pass)) gemm(".wgrad", topology::GroupedKind::wgrad, n, k, software().accumulate_bytes_per_weight);
}

void blocking_collective(StageContext& ctx, const CommGroup& group, sim::Stream stream, topology::Collective kind,
                         const std::string& name, double bytes) {
  if (group.index < 0 || bytes <= 0) return;
  const auto t = topology::collective_time(ctx.spec.cluster, kind, Bytes(bytes), group.span, group.cross_domain);
  CommSpec op;
  op.name = name + ctx.suffix;
  op.collective = std::string(topology::name(kind));
  op.stream = stream;
  op.time = fixed(t.time);
  op.target = group.index;
  op.payload = bytes;
  op.wire = t.wire_per_rank.value;
  op.nic_share = t.wire_per_rank.value > 0 ? t.nic_per_rank / t.wire_per_rank : 0;
  op.layer = ctx.layer;
  ctx.out.collective(op);
  ctx.out.wait_next(sim::bit(stream));
}

void StageContext::tp_collective(topology::Collective kind, const std::string& name, double bytes, bool awaited) {
  if (tp.index < 0) return;
  const auto t = topology::collective_time(spec.cluster, kind, Bytes(bytes), tp.span, tp.cross_domain);
  CommSpec op;
  op.name = name + suffix;
  op.collective = std::string(topology::name(kind));
  op.target = tp.index;
  op.layer = layer;
  op.nic_share = t.wire_per_rank.value > 0 ? t.nic_per_rank / t.wire_per_rank : 0;
  const Seconds time = t.time + microseconds(software().tp_gap_us * std::log2(static_cast<double>(tp.size)));
  // What is not awaited here runs beside the weight gradient whole.
  const double hidden_share = spec.overlap.tp && awaited ? software().tp_overlap_share : 0;
  // The share that the profile hides: of a gather beside the kernel that reads it, of a reduction beside the kernel
  // that makes it. The rest stands between the two.
  const auto part = [&](double share) {
    op.time = fixed(time * share);
    op.payload = bytes * share;
    op.wire = t.wire_per_rank.value * share;
    return op;
  };
  if (hidden_share <= 0) {
    out.collective(part(1));
    if (awaited) out.wait_next(sim::bit(sim::Stream::tp));
    return;
  }
  const bool gathers = kind == topology::Collective::all_gather;
  const std::string exposed = op.name;
  const std::string hidden = op.name + ".overlapped";
  op.name = hidden;
  if (!gathers) out.collective_beside_last(part(hidden_share));
  op.name = exposed;
  if (gathers) op.record_slot = out.shared_slot("tp_exposed");
  out.collective(part(1 - hidden_share));
  if (!gathers) {
    out.wait_next(sim::bit(sim::Stream::tp));
    return;
  }
  const int slot = op.record_slot;
  op.record_slot = -1;
  op.name = hidden;
  op.wait_streams = 0;
  out.collective(part(hidden_share));
  out.wait_next(0, slot);
  out.wait_after_next(sim::bit(sim::Stream::tp));
}

void StageContext::enter_tp(Pass pass, const std::string& name, bool awaited) {
  if (tp.index < 0) return;
  const double bytes = tokens * model().hidden * bf16_bytes;
  if (is_forward(pass)) {
    if (spec.sequence_parallel) tp_collective(topology::Collective::all_gather, name + ".all_gather", bytes);
  } else if (has_dgrad(pass)) {
    tp_collective(spec.sequence_parallel ? topology::Collective::reduce_scatter : topology::Collective::all_reduce,
                  name + ".gradient", bytes, awaited);
  }
}

void StageContext::leave_tp(Pass pass, const std::string& name) {
  if (tp.index < 0) return;
  const double bytes = tokens * model().hidden * bf16_bytes;
  if (is_forward(pass)) {
    tp_collective(spec.sequence_parallel ? topology::Collective::reduce_scatter : topology::Collective::all_reduce,
                  name + ".reduce", bytes);
  } else if (has_dgrad(pass) && spec.sequence_parallel) {
    tp_collective(topology::Collective::all_gather, name + ".gradient_gather", bytes);
  }
}

void StageContext::save(Pass pass, std::string_view part, std::string_view module, double bytes, double bytes_per_row) {
  const bool again = !module.empty() && recomputes(module);
  const bool full = full_recompute() && !module.empty();
  if (pass == Pass::forward && !again && !full) out.alloc(part, bytes, bytes_per_row);
  if (pass == Pass::recompute && (again || full)) out.alloc(part, bytes, bytes_per_row);
}

void StageContext::release(std::string_view part, double bytes, double bytes_per_row) {
  out.free(part, bytes, bytes_per_row);
}

}  // namespace stepcast::parallelism
