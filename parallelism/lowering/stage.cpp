#include "parallelism/lowering/stage.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace stepcast::parallelism {
namespace {

// Of a kernel's gap that remains inside a CUDA graph; whole-step fits of dense runs with and without graphs.
constexpr double graphed_gap_share = 0.3;

}  // namespace

int Lowering::channel(int from_rank, int from_chunk, int to_rank, int to_chunk, bool backward) {
  const auto key = std::make_tuple(from_rank, from_chunk, to_rank, to_chunk, backward);
  const auto found = channels.find(key);
  if (found != channels.end()) return found->second;
  sim::Channel c;
  c.name =
      fmt::format("{} {}.{} -> {}.{}", backward ? "gradient" : "activation", from_rank, from_chunk, to_rank, to_chunk);
  c.from = from_rank;
  c.to = to_rank;
  step.program.channels.push_back(std::move(c));
  const int index = static_cast<int>(step.program.channels.size()) - 1;
  channels.emplace(key, index);
  return index;
}

Stage::Stage(Lowering& lowering, int rank)
    : low_(lowering),
      rank_(rank),
      cohort_(lowering.step.program.cohorts[static_cast<std::size_t>(rank)]),
      out_(cohort_, lowering.step.program.memory_parts),
      ctx_{lowering.spec, lowering.step.layout, out_, {}, {}, {}, {}, {}, {}, {}, 0, 0, 0, 0, -1, -1, {}} {
  const StepSpec& spec = low_.spec;
  const Layout& layout = low_.step.layout;
  cohort_.name = fmt::format("stage {}", rank);
  cohort_.ranks = layout.stage_ranks(StageId(rank));
  const double binding =
      spec.runtime.host_binding ? factor_of(spec.software.host_binding_factor, spec.cluster.device.name) : 1;
  cohort_.launch_ticks = to_ticks(microseconds(spec.runtime.host_launch_us * binding));
  const double local_experts = spec.model.is_moe() ? static_cast<double>(spec.model.moe.experts) / layout.ep : 0;
  cohort_.sync_ticks = to_ticks(
      microseconds((spec.runtime.host_sync_us + spec.software.host_sync_per_expert_us * local_experts) * binding));
  out_.kernel_gap(microseconds(spec.software.kernel_gap_us),
                  microseconds(spec.software.kernel_gap_us * graphed_gap_share));
  cohort_.step_host_ticks = to_ticks(microseconds(spec.software.host_step_us));

  ctx_.documents = low_.documents;
  ctx_.tokens = low_.documents.tokens / layout.cp;
  ctx_.tokens_sp = spec.sequence_parallel ? ctx_.tokens / layout.tp : ctx_.tokens;
  ctx_.tokens_moe = ctx_.tokens / layout.tp;
  ctx_.padded_vocab = low_.padded_vocab;
  make_groups();
  make_pieces();
}

CommGroup Stage::make_group(const std::string& name, const std::vector<std::vector<RankId>>& groups) {
  CommGroup g;
  g.size = static_cast<int>(groups.front().size());
  if (g.size == 1) return g;
  sim::GroupClass c;
  c.name = name;
  c.group_size = g.size;
  std::map<RankId, std::int32_t> lane_of;
  for (std::size_t lane = 0; lane < cohort_.ranks.size(); ++lane)
    lane_of[cohort_.ranks[lane]] = static_cast<std::int32_t>(lane);
  // Experts are anywhere in the group; the others pass data round a ring.
  const auto pattern = name == "ep" ? topology::TrafficPattern::uniform : topology::TrafficPattern::ring;
  bool first = true;
  for (const auto& members : groups) {
    std::vector<DeviceId> devices;
    for (const RankId r : members) {
      c.lanes.push_back(lane_of.at(r));
      devices.push_back(low_.step.placement[static_cast<std::size_t>(r.value)]);
    }
    // Groups of a class may lie differently on the fabric (a group across a box edge): the widest sets the cost.
    const topology::GroupSpan span = low_.fabric.span(devices);
    const BytesPerSecond rate = low_.fabric.cross_domain_rate(devices, pattern, !low_.spec.fabric.contention);
    if (first || span.domains > g.span.domains || (span.domains == g.span.domains && rate < g.cross_domain)) {
      g.span = span;
      g.cross_domain = rate;
    }
    first = false;
  }
  const auto [known, added] = low_.step.spans.try_emplace(name, g.span);
  if (!added && g.span.domains > known->second.domains) known->second = g.span;
  cohort_.groups.push_back(std::move(c));
  g.index = static_cast<int>(cohort_.groups.size()) - 1;
  return g;
}

void Stage::make_groups() {
  const Layout& layout = low_.step.layout;
  const auto partition = [&](auto&& group_of) {
    std::vector<std::vector<RankId>> groups;
    std::set<RankId> seen;
    for (const RankId r : cohort_.ranks) {
      if (seen.contains(r)) continue;
      groups.push_back(group_of(r));
      seen.insert(groups.back().begin(), groups.back().end());
    }
    return groups;
  };
  const auto axis = [&](const char* name, Axis a) {
    return make_group(name, partition([&](RankId r) { return layout.group(r, a); }));
  };
  ctx_.tp = axis("tp", Axis::tp);
  ctx_.cp = axis("cp", Axis::cp);
  ctx_.etp = low_.spec.model.is_moe() ? axis("etp", Axis::etp) : CommGroup{};
  ctx_.ep = low_.spec.model.is_moe() ? axis("ep", Axis::ep) : CommGroup{};
  const auto dp_groups = partition([&](RankId r) { return layout.dp_cp_group(r); });
  ctx_.dp = make_group("dp", dp_groups);
  ctx_.edp = low_.spec.model.is_moe() ? axis("edp", Axis::edp) : CommGroup{};
  shard_ = ctx_.dp;
  expert_shard_ = ctx_.edp;
  if (low_.step.schedule.parameter_copies > 1) {
    const int other = layout.pp - 1 - rank_;
    const Lowering::PairJoins& joins = low_.pair_joins.at({std::min(rank_, other), std::max(rank_, other)});
    shard_ = pair_group(joins.dense);
    low_.step.spans["dp"] = shard_.span;
    if (joins.experts >= 0) {
      expert_shard_ = pair_group(joins.experts);
      low_.step.spans["edp"] = expert_shard_.span;
    }
  }
  if (low_.spec.sharding == Sharding::hsdp && low_.spec.shard_group > 1 && low_.spec.shard_group < ctx_.dp.size) {
    const auto n = static_cast<std::size_t>(low_.spec.shard_group);
    std::vector<std::vector<RankId>> shards, replicas;
    for (const auto& members : dp_groups) {
      for (std::size_t i = 0; i < members.size(); i += n)
        shards.emplace_back(members.begin() + static_cast<std::ptrdiff_t>(i),
                            members.begin() + static_cast<std::ptrdiff_t>(i + n));
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<RankId> replica;
        for (std::size_t j = i; j < members.size(); j += n) replica.push_back(members[j]);
        replicas.push_back(std::move(replica));
      }
    }
    shard_ = make_group("shard", shards);
    replica_ = make_group("replica", replicas);
  }
}

// The groups of a join class between two stages: the widest sets the cost.
CommGroup Stage::pair_group(int join) const {
  const sim::JoinClass& c = low_.step.program.joins[static_cast<std::size_t>(join)];
  std::map<std::int32_t, std::vector<DeviceId>> members;
  for (std::size_t m = 0; m < c.cohorts.size(); ++m) {
    const auto ranks = low_.step.layout.stage_ranks(StageId(c.cohorts[m]));
    for (std::size_t lane = 0; lane < ranks.size(); ++lane)
      members[c.group_of_lane[m][lane]].push_back(low_.step.placement[static_cast<std::size_t>(ranks[lane].value)]);
  }
  CommGroup g;
  g.index = join;
  g.join = true;
  for (auto& [id, devices] : members) {
    std::sort(devices.begin(), devices.end());
    g.size = static_cast<int>(devices.size());
    const topology::GroupSpan span = low_.fabric.span(devices);
    const BytesPerSecond rate =
        low_.fabric.cross_domain_rate(devices, topology::TrafficPattern::ring, !low_.spec.fabric.contention);
    if (id > 0 && span.domains <= g.span.domains && (span.domains != g.span.domains || rate >= g.cross_domain))
      continue;
    g.span = span;
    g.cross_domain = rate;
  }
  return g;
}

void Stage::make_pieces() {
  const StepSpec& spec = low_.spec;
  const Layout& layout = low_.step.layout;
  const double hidden = spec.model.hidden;
  for (const int piece : low_.step.schedule.virtual_stage[static_cast<std::size_t>(rank_)]) {
    PieceState p;
    p.piece = piece;
    p.content = low_.step.split.pieces[static_cast<std::size_t>(piece)];
    const auto add = [&](double dense, double experts, bool quantised) {
      ParameterBlock b;
      b.quantised = quantised && ctx_.quantised();
      b.parameters = {dense, experts};
      b.slot = out_.new_slot();
      if (gathers_every_pass()) b.pair_slot = out_.new_slot();
      p.blocks.push_back(b);
      return static_cast<int>(p.blocks.size()) - 1;
    };
    const auto layer_block = [&](const models::LayerParameters& l) {
      return add((l.attention_tp + l.mlp_tp) / layout.tp + l.replicated, l.routed_experts / (layout.ep * layout.etp),
                 true);
    };
    const double vocabulary = low_.padded_vocab * hidden / layout.tp;
    const double positions = spec.model.learned_positions ? spec.model.max_positions * hidden : 0;
    if (p.content.embedding) p.embedding_block = add(vocabulary + positions, 0, false);
    p.first_layer_block = static_cast<int>(p.blocks.size());
    for (int i = 0; i < p.content.layers; ++i) {
      layer_block(models::layer_parameters(spec.model, p.content.first_layer + i));
    }
    // Modules that repeat one set of weights hold it once.
    const models::LayerParameters none;
    for (int i = 0; i < p.content.mtp_layers; ++i) {
      layer_block(i > 0 && spec.model.mtp_shared_weights ? none : models::mtp_parameters(spec.model));
    }
    if (p.content.loss) {
      const bool shares_embedding = spec.model.tied_embeddings && p.content.embedding;
      p.head_block = add((shares_embedding ? 0 : vocabulary) + models::final_norm_parameters(spec.model), 0, false);
    }
    pieces_.push_back(std::move(p));
  }
}

Neighbour Stage::neighbour(int chunk, int offset) const {
  const Schedule& schedule = low_.step.schedule;
  const int piece = pieces_[static_cast<std::size_t>(chunk)].piece + offset;
  if (piece < 0 || piece >= schedule.virtual_stages) return {};
  // Any microbatch that runs through this chunk takes the chunk's way.
  for (const Slot& s : schedule.ranks[static_cast<std::size_t>(rank_)]) {
    const bool own = s.chunk == chunk;
    if (!own && s.second_chunk != chunk) continue;
    const auto place = schedule.owner(piece, own ? s.microbatch : s.second_microbatch);
    return {place.rank, place.chunk};
  }
  return {};
}

void Stage::lower_all() {
  static_memory();
  step_begin();
  lower_calls();
  step_end();
}

// Which messages hold compute up. Forwards and backwards that follow their own kind are warm-up and flush. Where sends
// and receives are one group and a rank has several chunks, a pair's two inputs come together (Megatron-Core's
// send_forward_backward_recv_forward_backward). A send goes in one batch with what the next slot receives from the
// same stage (send_forward_recv_backward), on interleaved schedules from any (send_forward_recv_forward).
void Stage::plan_messages(const std::vector<Slot>& slots, std::size_t at, BodyKey& key) const {
  const Overlap& overlap = low_.spec.overlap;
  const auto gradient = [](const Slot& s) {
    return s.kind == SlotKind::backward || s.kind == SlotKind::backward_input;
  };
  const bool batched = low_.spec.software.p2p_host_sync && !overlap.p2p && at + 1 < slots.size();
  if (batched && (slots[at].kind == SlotKind::forward || gradient(slots[at]))) {
    const auto other = [&](const Slot& s, bool sends) {
      const bool up = gradient(s) == sends;  // towards the first stage: a gradient sent, an activation received
      return neighbour(s.chunk, up ? -1 : 1).rank;
    };
    const Slot& next = slots[at + 1];
    const int from = next.kind == SlotKind::forward || gradient(next) ? other(next, false) : -1;
    const bool another = from >= 0 && from != rank_;
    key.send_alone = !another || (from != other(slots[at], true) && low_.spec.schedule != ScheduleKind::interleaved);
  }
  const auto pairs = [&](std::size_t first) {
    return first + 1 < slots.size() && slots[first].kind == SlotKind::forward && gradient(slots[first + 1]);
  };
  const bool alone = key.kind != SlotKind::forward_backward && !pairs(at) && (at == 0 || !pairs(at - 1));
  key.holds_send = !overlap.p2p || (alone && !overlap.p2p_warmup_flush);
  if (!overlap.p2p_batched || low_.spec.schedule != ScheduleKind::interleaved) return;
  // Where all forwards come first, the last of them and the first backward are no pair: the one's input may need the
  // other's output.
  const auto steady = [&](std::size_t first) {
    const bool pair_before = first > 0 && gradient(slots[first - 1]);
    const bool pair_after = first + 2 < slots.size() && slots[first + 2].kind == SlotKind::forward;
    return pairs(first) && (pair_before || pair_after);
  };
  if (steady(at)) key.gradient_chunk = slots[at + 1].chunk;
  key.received = at > 0 && steady(at - 1);
}

void Stage::lower_calls() {
  const auto& slots = low_.step.schedule.ranks[static_cast<std::size_t>(rank_)];
  std::vector<int> backwards(pieces_.size(), 0);
  std::vector<bool> started(pieces_.size(), false);
  const auto gives_weights = [](SlotKind k) {
    return k == SlotKind::backward || k == SlotKind::backward_weight || k == SlotKind::forward_backward;
  };
  for (const Slot& s : slots) {
    if (!gives_weights(s.kind)) continue;
    ++backwards[static_cast<std::size_t>(s.kind == SlotKind::forward_backward ? s.second_chunk : s.chunk)];
  }
  for (const Slot& s : slots) {
    BodyKey key{s.kind, s.chunk, s.kind == SlotKind::forward_backward ? s.second_chunk : -1, false, false};
    if (s.kind == SlotKind::forward || s.kind == SlotKind::forward_backward) {
      key.first = !started[static_cast<std::size_t>(s.chunk)];
      started[static_cast<std::size_t>(s.chunk)] = true;
    }
    if (gives_weights(s.kind)) {
      auto& left = backwards[static_cast<std::size_t>(key.second_chunk >= 0 ? key.second_chunk : s.chunk)];
      key.last = --left == 0;
    }
    plan_messages(slots, static_cast<std::size_t>(&s - slots.data()), key);
    sim::Call call;
    call.body = static_cast<std::uint16_t>(body(key));
    call.instance = s.microbatch;
    call.second_instance = s.kind == SlotKind::forward_backward ? s.second_microbatch : -1;
    cohort_.calls.push_back(call);
  }
}

int Stage::body(const BodyKey& key) {
  const auto found = bodies_.find(key);
  if (found != bodies_.end()) return found->second;
  constexpr const char* names[] = {"forward", "backward", "backward input", "backward weight", "forward+backward"};
  out_.begin_body(fmt::format("{} chunk {}{}{}", names[static_cast<int>(key.kind)], key.chunk,
                              key.first ? " first" : "", key.last ? " last" : ""));
  switch (key.kind) {
    case SlotKind::forward:
      forward(key);
      break;
    case SlotKind::backward:
      backward(key, key.chunk, Pass::backward);
      break;
    case SlotKind::backward_input:
      backward(key, key.chunk, Pass::dgrad);
      break;
    case SlotKind::backward_weight:
      backward(key, key.chunk, Pass::wgrad);
      break;
    case SlotKind::forward_backward:
      forward_backward(key);
      break;
  }
  for (sim::Instruction& in : out_.instructions())
    in.flags = static_cast<std::uint8_t>(in.flags & ~mark_beside_exchange);
  const int index = out_.end_body();
  bodies_.emplace(key, index);
  return index;
}

}  // namespace stepcast::parallelism
