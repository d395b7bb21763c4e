// Bodies: one microbatch through one piece of the model, forward or backward.
#include "parallelism/lowering/stage.h"

#include <array>
#include <map>

namespace stepcast::parallelism {
namespace {

constexpr double bf16_bytes = 2;

}  // namespace

void Stage::set_layer(int layer) {
  ctx_.layer = layer;
  ctx_.load = layer >= 0 ? low_.load_of_layer[static_cast<std::size_t>(layer)] : -1;
  ctx_.repeat_layer = true;
}

bool Stage::repeats(int layer_of_piece) const {
  const Recompute& r = low_.spec.recompute;
  return r.method != "block" || r.block_layers == 0 || layer_of_piece < r.block_layers;
}

double Stage::stage_output_bytes() const { return ctx_.tokens_sp * low_.spec.model.hidden * bf16_bytes; }

// Whoever waits for a batch of messages with the host sees the device idle while the next kernels are issued.
void Stage::await_messages() {
  const StepSpec& spec = low_.spec;
  const bool synchronises = spec.software.p2p_host_sync && !spec.overlap.p2p;
  if (!synchronises || spec.runtime.cuda_graphs == CudaGraphs::full_iteration) return;
  out_.host_sync("message",
                 static_cast<std::uint8_t>(sim::bit(sim::Stream::pp_send) | sim::bit(sim::Stream::pp_receive) |
                                           sim::bit(sim::Stream::compute)));
}

bool Stage::receive_activation(int chunk, bool backward) {
  const Neighbour n = neighbour(chunk, backward ? 1 : -1);
  if (n.rank < 0 || n.rank == rank_) return false;
  CommSpec op;
  op.name = backward ? "receive_gradient" : "receive_activation";
  op.collective = "send_receive";
  op.target = low_.channel(n.rank, n.chunk, rank_, chunk, backward);
  out_.receive(op);
  if (backward && low_.spec.software.keeps_stage_outputs) out_.free("activations.stage_output", stage_output_bytes());
  out_.wait_next(sim::bit(sim::Stream::pp_receive));
  return true;
}

void Stage::send_activation(int chunk, bool backward, const BodyKey& key) {
  const Neighbour n = neighbour(chunk, backward ? -1 : 1);
  if (n.rank < 0 || n.rank == rank_) return;
  // Ranks of one TP group hold the same activation unless sequence parallelism splits it; each then sends its part.
  const double bytes = ctx_.tokens / low_.step.layout.tp * low_.spec.model.hidden * bf16_bytes;
  const auto device = [&](int rank) {
    const RankId r = low_.step.layout.stage_ranks(StageId(rank)).front();
    return low_.step.placement[static_cast<std::size_t>(r.value)];
  };
  const bool same_domain = low_.fabric.domain_of(device(rank_)) == low_.fabric.domain_of(device(n.rank));
  const auto t = topology::send_receive_time(low_.spec.cluster, Bytes(bytes), same_domain);
  CommSpec op;
  op.name = backward ? "send_gradient" : "send_activation";
  op.collective = "send_receive";
  op.time = {t.time, Seconds(0), Seconds(0)};
  op.target = low_.channel(rank_, chunk, n.rank, n.chunk, backward);
  op.payload = bytes;
  op.wire = bytes;
  op.nic_share = same_domain ? 0 : 1;
  out_.send(op);
  if (!backward && low_.spec.software.keeps_stage_outputs) out_.alloc("activations.stage_output", stage_output_bytes());
  if (key.holds_send) {
    OpSpec wait;
    wait.name = "wait_send";
    wait.wait_streams = sim::bit(sim::Stream::pp_send);
    wait.launch = false;
    out_.compute(wait);
  }
  if (key.send_alone) await_messages();
}

int Stage::gathered(const ParameterBlock& block) const { return out_.second_instance() ? block.pair_slot : block.slot; }

void Stage::forward(const BodyKey& key) {
  const int chunk = key.chunk;
  const PieceState& p = pieces_[static_cast<std::size_t>(chunk)];
  const bool wait_parameters = key.first && gathers_ahead();
  const auto enter_block = [&](int block) {
    if (gathers_every_pass()) prefetch_block(p, block + static_cast<int>(low_.spec.overlap.prefetch));
    if (wait_parameters || gathers_every_pass()) out_.wait_next(0, gathered(p.blocks[static_cast<std::size_t>(block)]));
  };
  if (gathers_every_pass()) {
    for (int b = 0; b < static_cast<int>(low_.spec.overlap.prefetch); ++b) prefetch_block(p, b);
  }
  set_layer(-1);
  // One graph holds the whole iteration: nothing is launched kernel by kernel.
  out_.in_graph(low_.spec.runtime.cuda_graphs == CudaGraphs::full_iteration);
  bool received = receive_activation(chunk, false);
  if (key.gradient_chunk >= 0 && receive_activation(key.gradient_chunk, true)) received = true;
  if (received) await_messages();
  if (p.content.embedding) {
    enter_block(p.embedding_block);
    lower_embedding(ctx_, Pass::forward);
  }
  for (int i = 0; i < p.content.layers; ++i) {
    enter_block(p.first_layer_block + i);
    set_layer(p.content.first_layer + i);
    ctx_.repeat_layer = repeats(i);
    const std::size_t first_work = cohort_.works.size();
    lower_layer(ctx_, low_.spec.model.layers[static_cast<std::size_t>(ctx_.layer)], Pass::forward);
    if (offloads(p, i)) offload_layer(chunk, i, first_work);
  }
  if (p.content.loss) {
    enter_block(p.head_block);
    set_layer(-1);
    lower_norm(ctx_, Pass::forward, "final_norm");
    lower_loss(ctx_, Pass::forward);
  }
  for (int i = 0; i < p.content.mtp_layers; ++i) {
    enter_block(p.first_layer_block + p.content.layers + i);
    set_layer(low_.spec.model.layer_count() - 1);
    ctx_.load = low_.mtp_first_load < 0 ? -1 : low_.mtp_first_load + i;
    lower_mtp(ctx_, Pass::forward);
  }
  send_activation(chunk, false, key);
  out_.wait_now();
}

void Stage::backward(const BodyKey& key, int chunk, Pass pass) {
  const PieceState& p = pieces_[static_cast<std::size_t>(chunk)];
  const bool reduce_here = has_wgrad(pass) && ((key.last && low_.spec.overlap.gradients) || reduces_every_microbatch());
  const auto leave_block = [&](int block, bool flush) {
    if (reduce_here) reduce_block(p.blocks[static_cast<std::size_t>(block)], flush);
  };
  const auto enter_block = [&](int block) {
    if (!gathers_every_pass() || !has_dgrad(pass)) return;
    prefetch_block(p, block - static_cast<int>(low_.spec.overlap.prefetch));
    out_.wait_next(0, gathered(p.blocks[static_cast<std::size_t>(block)]));
  };
  if (gathers_every_pass() && has_dgrad(pass)) {
    const int n = static_cast<int>(p.blocks.size());
    for (int b = 0; b < static_cast<int>(low_.spec.overlap.prefetch); ++b) prefetch_block(p, n - 1 - b);
  }
  set_layer(-1);
  out_.in_graph(low_.spec.runtime.cuda_graphs == CudaGraphs::full_iteration);
  if (has_dgrad(pass) && !key.received && receive_activation(chunk, true)) await_messages();
  for (int i = p.content.mtp_layers - 1; i >= 0; --i) {
    enter_block(p.first_layer_block + p.content.layers + i);
    set_layer(low_.spec.model.layer_count() - 1);
    ctx_.load = low_.mtp_first_load < 0 ? -1 : low_.mtp_first_load + i;
    lower_mtp(ctx_, pass);
    leave_block(p.first_layer_block + p.content.layers + i, false);
  }
  if (p.content.loss) {
    enter_block(p.head_block);
    set_layer(-1);
    lower_loss(ctx_, pass);
    lower_norm(ctx_, pass, "final_norm");
    leave_block(p.head_block, p.content.layers == 0 && !p.content.embedding);
  }
  const auto reload = [&](int layer) {
    if (has_dgrad(pass) && offloads(p, layer)) reload_layer(chunk, layer);
  };
  reload(p.content.layers - 1);
  for (int i = p.content.layers - 1; i >= 0; --i) {
    if (has_dgrad(pass) && offloads(p, i)) await_layer(chunk, i);
    reload(i - 1);
    enter_block(p.first_layer_block + i);
    set_layer(p.content.first_layer + i);
    ctx_.repeat_layer = repeats(i);
    lower_layer(ctx_, low_.spec.model.layers[static_cast<std::size_t>(ctx_.layer)], pass);
    leave_block(p.first_layer_block + i, i == 0 && !p.content.embedding);
  }
  set_layer(-1);
  if (p.content.embedding) {
    enter_block(p.embedding_block);
    lower_embedding(ctx_, pass);
    leave_block(p.embedding_block, true);
  }
  if (has_dgrad(pass)) send_activation(chunk, true, key);
  out_.wait_now();
}

void Stage::forward_backward(const BodyKey& key) {
  auto& body = out_.instructions();
  forward(key);
  const std::vector<sim::Instruction> ahead = std::move(body);
  body.clear();
  out_.second_instance(true);
  backward(key, key.second_chunk, Pass::backward);
  out_.second_instance(false);
  body = separate_waits(interleave(ahead, body), out_);
}

std::vector<sim::Instruction> separate_waits(std::vector<sim::Instruction> merged, CohortBuilder& out) {
  constexpr int none = -1;
  struct Writer {
    int own[2] = {none, none};  // last instruction of each list on the stream
    int last = none;
  };
  std::array<Writer, sim::stream_count> writers;
  const auto list_of = [](const sim::Instruction& in) { return (in.flags & sim::flag_second_instance) != 0 ? 1 : 0; };
  // Slots to wait for, by the instruction that waits.
  std::map<std::size_t, std::vector<int>> slots;
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const int list = list_of(merged[i]);
    for (std::size_t s = 0; s < writers.size(); ++s) {
      const auto stream = static_cast<sim::Stream>(s);
      const Writer& w = writers[s];
      if ((merged[i].wait_streams & sim::bit(stream)) == 0 || w.own[list] == none || w.own[list] == w.last) continue;
      sim::Instruction& made = merged[static_cast<std::size_t>(w.own[list])];
      if (made.record_slot == sim::none16) made.record_slot = static_cast<std::uint16_t>(out.new_slot());
      merged[i].wait_streams = static_cast<std::uint8_t>(merged[i].wait_streams & ~sim::bit(stream));
      slots[i].push_back(made.record_slot);
    }
    if (merged[i].op == sim::Opcode::host_sync) continue;
    Writer& w = writers[static_cast<std::size_t>(merged[i].stream)];
    w.own[list] = w.last = static_cast<int>(i);
  }
  std::vector<sim::Instruction> separate;
  separate.reserve(merged.size() + slots.size());
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const auto found = slots.find(i);
    if (found != slots.end()) {
      std::vector<int> wait_for = found->second;
      if (merged[i].wait_slot != sim::none16) wait_for.push_back(merged[i].wait_slot);
      // The instruction has room for one; others are waited for on its stream just before.
      for (std::size_t k = 1; k < wait_for.size(); ++k) {
        separate.push_back(out.wait_instruction(merged[i].stream, wait_for[k], list_of(merged[i]) == 1));
      }
      merged[i].wait_slot = static_cast<std::uint16_t>(wait_for.front());
    }
    separate.push_back(merged[i]);
  }
  return separate;
}

std::vector<sim::Instruction> interleave(const std::vector<sim::Instruction>& forward,
                                         const std::vector<sim::Instruction>& backward) {
  const auto segment_end = [](const std::vector<sim::Instruction>& list, std::size_t from) {
    for (std::size_t i = from; i < list.size(); ++i) {
      if (list[i].op != sim::Opcode::collective || list[i].stream != sim::Stream::ep) continue;
      std::size_t end = i + 1;
      while (end < list.size() && (list[end].flags & mark_beside_exchange) != 0) ++end;
      return end;
    }
    return list.size();
  };
  std::vector<sim::Instruction> merged;
  merged.reserve(forward.size() + backward.size());
  std::size_t f = 0;
  std::size_t b = 0;
  while (f < forward.size() || b < backward.size()) {
    for (const std::size_t end = segment_end(backward, b); b < end; ++b) merged.push_back(backward[b]);
    for (const std::size_t end = segment_end(forward, f); f < end; ++f) merged.push_back(forward[f]);
  }
  return merged;
}

}  // namespace stepcast::parallelism
