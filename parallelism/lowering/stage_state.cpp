// Parameters, gradients and optimizer: what is gathered, reduced and updated, when, over which group.
//
// ZeRO-1: gradients are reduce-scattered after the last microbatch (beside its
// backward when overlapped), each rank updates its share, parameters are gathered
// (beside the next forward when overlapped; the first chunk's also beside the
// update of the others, as Megatron-Core's --overlap-param-gather-with-optimizer-step). ZeRO-2 reduces every
// microbatch. ZeRO-3, FSDP and HSDP also gather every block before each pass, `prefetch` blocks ahead. Plain DP: one
// all-reduce. Experts reduce over edp, all else over dp x cp.
#include <algorithm>

#include "parallelism/lowering/stage.h"

namespace stepcast::parallelism {

using topology::Collective;

namespace {

// Megatron-Core's default bucket: 40 million parameters (distributed_data_parallel_config.py).
constexpr double default_bucket_parameters = 40e6;

// `exposed` of the time runs first and holds the next kernel up; the rest runs beside compute and records `slot`.
void dp_collective(StageContext& ctx, const CommGroup& group, Collective kind, const std::string& name, double bytes,
                   std::uint8_t waits, int slot, double exposed = 0) {
  if (group.index < 0 || bytes <= 0) return;
  const auto t = topology::collective_time(ctx.spec.cluster, kind, Bytes(bytes), group.span,
                                           group.cross_domain * ctx.software().dp_network_share);
  CommSpec op;
  op.name = name;
  op.collective = std::string(topology::name(kind));
  op.stream = sim::Stream::dp;
  op.target = group.index;
  op.nic_share = t.wire_per_rank.value > 0 ? t.nic_per_rank / t.wire_per_rank : 0;
  const auto share = [&](double part) {
    op.time = {t.time * part, Seconds(0), Seconds(0)};
    op.payload = bytes * part;
    op.wire = t.wire_per_rank.value * part;
  };
  const auto run = [&] { group.join ? ctx.out.join(op) : ctx.out.collective(op); };
  if (exposed > 0) {
    op.name = name + ".exposed";
    op.wait_streams = sim::bit(sim::Stream::compute);
    op.record_slot = ctx.out.shared_slot("dp_exposed");
    share(exposed);
    run();
    ctx.out.wait_next(0, op.record_slot);
    op.name = name;
  }
  op.wait_streams = waits;
  op.record_slot = slot;
  share(1 - exposed);
  run();
}

}  // namespace

void Stage::gather_parameters(const ParameterBlock& block, const std::string& name) {
  const double width = low_.spec.recipe.parameter_bytes;
  const bool every_pass = gathers_every_pass();
  // The step's first gather waits for the optimizer step before it; those that run beside a pass follow on their stream
  // and wait for nothing else but the host.
  const bool waits_for_update = !every_pass || first_gather_;
  const std::uint8_t waits = waits_for_update ? sim::bit(sim::Stream::compute) : std::uint8_t{0};
  first_gather_ = false;
  dp_collective(ctx_, shard_, Collective::all_gather, name, block.parameters.dense * width, waits, gathered(block),
                exposed_share());
  dp_collective(ctx_, expert_shard_, Collective::all_gather, name + ".experts", block.parameters.experts * width, waits,
                gathered(block), exposed_share());
}

void Stage::prefetch_block(const PieceState& piece, int block) {
  if (block < 0 || block >= static_cast<int>(piece.blocks.size())) return;
  gather_parameters(piece.blocks[static_cast<std::size_t>(block)], "parameter_gather");
}

void Stage::reduce_gradients(const PieceParameters& p, const std::string& name) {
  const double width = low_.spec.recipe.reduce_bytes;
  const Collective kind = shards_optimizer() ? Collective::reduce_scatter : Collective::all_reduce;
  const std::uint8_t waits = sim::bit(sim::Stream::compute);
  dp_collective(ctx_, shard_, kind, name, p.dense * width, waits, -1, exposed_share());
  if (replica_.index >= 0) {
    dp_collective(ctx_, replica_, Collective::all_reduce, name + ".replicas", p.dense * width / shard_.size, waits, -1,
                  exposed_share());
  }
  dp_collective(ctx_, expert_shard_, kind, name + ".experts", p.experts * width, waits, -1, exposed_share());
}

std::vector<const PieceState*> Stage::pieces_in_order() const {
  std::vector<const PieceState*> order;
  for (const auto& p : pieces_) order.push_back(&p);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->piece < b->piece; });
  return order;
}

// Gathers before every pass and the compute beside them slow each other: part of the communication shows even where
// compute is longer.
double Stage::exposed_share() const { return gathers_every_pass() ? 1 - low_.spec.software.fsdp_overlap : 0; }

void Stage::reduce_block(const ParameterBlock& block, bool flush) {
  bucket_.dense += block.parameters.dense;
  bucket_.experts += block.parameters.experts;
  const double limit = low_.spec.overlap.gradient_bucket_bytes > 0
                           ? low_.spec.overlap.gradient_bucket_bytes
                           : default_bucket_parameters * low_.spec.recipe.reduce_bytes;
  // FSDP reduces block by block; the others fill buckets.
  if (!flush && !gathers_every_pass() && bucket_.total() * low_.spec.recipe.reduce_bytes < limit) return;
  reduce_gradients(bucket_, "gradient_reduce");
  bucket_ = {};
}

double Stage::owned_parameters(const std::vector<const PieceState*>& pieces) const {
  double dense = 0;
  double experts = 0;
  for (const PieceState* p : pieces) {
    for (const auto& b : p->blocks) {
      dense += b.parameters.dense;
      experts += b.parameters.experts;
    }
  }
  if (!shards_optimizer()) return dense + experts;
  return dense / shard_.size + experts / expert_shard_.size;
}

double Stage::quantised_parameters() const {
  double sum = 0;
  for (const auto& p : pieces_) {
    for (const auto& b : p.blocks) sum += b.quantised ? b.parameters.total() : 0;
  }
  return sum;
}

void Stage::step_begin() {
  const bool quantise = ctx_.quantised();
  if (!gathers_ahead() && !quantise) return;
  out_.begin_body("step begin");
  if (gathers_ahead()) {
    const auto order = pieces_in_order();
    for (std::size_t i = low_.spec.overlap.parameters_with_optimizer ? 1 : 0; i < order.size(); ++i)
      gather_piece(*order[i]);
  }
  if (quantise) {
    // Weights are cast once a step: bf16 read, the narrow tensor and its transposed copy written.
    ctx_.elementwise(Pass::forward, "weight_quantise", sim::Category::quantise,
                     quantised_parameters() * (2 + 2 * topology::element_bytes(low_.spec.recipe.gemm)), 1);
  }
  sim::Call call;
  call.body = static_cast<std::uint16_t>(out_.end_body());
  cohort_.calls.push_back(call);
}

void Stage::optimizer(const char* name, double owned, std::uint8_t waits) {
  OpSpec op;
  op.name = name;
  op.category = sim::Category::optimizer;
  Seconds t =
      topology::membound_time(ctx_.device(), Bytes(owned * low_.spec.software.optimizer_bytes_per_parameter), 1);
  if (low_.spec.offload.optimizer) {
    // Gradients go to the host and updated parameters come back; the update itself runs on the host's memory.
    const Bytes moved(owned * low_.spec.offload.optimizer_fraction *
                      (low_.spec.recipe.gradient_bytes + low_.spec.recipe.parameter_bytes));
    t = std::max(t, moved / ctx_.device().host_link_bandwidth);
  }
  op.time = {t, Seconds(0), Seconds(0)};
  op.wait_streams = waits;
  out_.compute(op);
}

void Stage::gather_piece(const PieceState& piece) {
  for (const auto& b : piece.blocks) gather_parameters(b, "parameter_gather");
}

void Stage::update() {
  const auto order = pieces_in_order();
  const std::uint8_t all_reduced =
      static_cast<std::uint8_t>(sim::bit(sim::Stream::dp) | sim::bit(sim::Stream::compute));
  if (low_.spec.overlap.parameters_with_optimizer) {
    optimizer("optimizer_step.first", owned_parameters({order.front()}), all_reduced);
    gather_piece(*order.front());
    optimizer("optimizer_step", owned_parameters({order.begin() + 1, order.end()}), sim::bit(sim::Stream::compute));
    return;
  }
  optimizer("optimizer_step", owned_parameters(order), all_reduced);
  if (!shards_optimizer() || low_.spec.overlap.parameters || gathers_every_pass()) return;
  for (const PieceState* p : order) gather_piece(*p);
  OpSpec wait;
  wait.name = "wait_parameters";
  wait.wait_streams = sim::bit(sim::Stream::dp);
  wait.launch = false;
  out_.compute(wait);
}

// All ranks of the join meet, with an all-reduce of `bytes` over `ranks` of them.
void Stage::join_barrier(int join, const char* name, double bytes, int ranks) {
  const topology::Cluster& cluster = low_.spec.cluster;
  topology::GroupSpan span;
  span.ranks = ranks;
  span.nodes = cluster.nodes();
  span.domains = cluster.domains();
  span.max_per_domain = span.min_per_domain = std::min(ranks, cluster.nvlink_domain);
  const auto t = topology::collective_time(cluster, Collective::all_reduce, Bytes(bytes), span, cluster.nic_bandwidth);
  CommSpec op;
  op.name = name;
  op.collective = "all_reduce";
  op.stream = sim::Stream::dp;
  op.time = {t.time, Seconds(0), Seconds(0)};
  op.target = join;
  op.payload = bytes;
  op.wire = t.wire_per_rank.value;
  op.wait_streams = static_cast<std::uint8_t>(sim::bit(sim::Stream::compute) | sim::bit(sim::Stream::dp));
  out_.join(op);
}

void Stage::step_end() {
  out_.begin_body("step end");
  set_layer(-1);
  if (!low_.spec.overlap.gradients && !reduces_every_microbatch()) {
    for (const PieceState* p : pieces_in_order()) {
      for (std::size_t b = p->blocks.size(); b > 0; --b) reduce_block(p->blocks[b - 1], b == 1);
    }
  }
  const bool has_embedding = std::any_of(pieces_.begin(), pieces_.end(),
                                         [](const auto& p) { return p.embedding_block >= 0 || p.head_block >= 0; });
  if (low_.embedding_join >= 0 && has_embedding) {
    join_barrier(low_.embedding_join, "tied_embedding_reduce",
                 low_.padded_vocab * low_.spec.model.hidden / low_.step.layout.tp * low_.spec.recipe.reduce_bytes, 2);
  }
  // The gradient norm joins all ranks before anybody updates.
  if (low_.step_join >= 0) join_barrier(low_.step_join, "gradient_norm", 4, low_.step.layout.ranks());
  update();
  sim::Call call;
  call.body = static_cast<std::uint16_t>(out_.end_body());
  cohort_.calls.push_back(call);
}

}  // namespace stepcast::parallelism
