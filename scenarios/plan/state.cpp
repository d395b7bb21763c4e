#include "scenarios/plan/state.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/ledger.h"
#include "topology/collective_cost.h"

namespace stepcast::scenarios::plan {
namespace {

using parallelism::CommGroup;
using parallelism::Sharding;
using parallelism::StepSpec;
using topology::Collective;

// Megatron-Core's default bucket, as the lowering has it.
constexpr double default_bucket_parameters = 40e6;

constexpr double bf16_bytes = 2;
constexpr double fp32_bytes = 4;

bool fully_sharded(const StepSpec& spec) { return spec.sharding == Sharding::zero3 || spec.sharding == Sharding::hsdp; }
bool every_pass(const StepSpec& spec) { return fully_sharded(spec) && spec.reshard_after_forward; }
bool every_microbatch(const StepSpec& spec) { return every_pass(spec) || spec.sharding == Sharding::zero2; }
bool shards_optimizer(const StepSpec& spec) { return spec.sharding != Sharding::none; }

double padded_vocabulary(const StepSpec& spec, const parallelism::Layout& layout) {
  return parallelism::padded_vocabulary(spec.software, spec.model.vocab, layout.tp);
}

double move_seconds(const StepSpec& spec, const CommGroup& group, Collective kind, double bytes) {
  if (group.index < 0 || bytes <= 0) return 0;
  const BytesPerSecond rate = group.cross_domain * spec.software.dp_network_share;
  return topology::collective_time(spec.cluster, kind, Bytes(bytes), group.span, rate).time.value;
}

double gather_seconds(const StateRequest& r, const StageGroups& g, double dense, double experts) {
  const double width = r.spec.recipe.parameter_bytes;
  return move_seconds(r.spec, g.shard, Collective::all_gather, dense * width) +
         move_seconds(r.spec, g.edp, Collective::all_gather, experts * width);
}

double barrier_seconds(const StepSpec& spec, double bytes, int ranks) {
  topology::GroupSpan span;
  span.ranks = ranks;
  span.nodes = spec.cluster.nodes();
  span.domains = spec.cluster.domains();
  span.max_per_domain = span.min_per_domain = std::min(ranks, spec.cluster.nvlink_domain);
  return topology::collective_time(spec.cluster, Collective::all_reduce, Bytes(bytes), span, spec.cluster.nic_bandwidth)
      .time.value;
}

double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

// Buckets over blocks in the order of a backward pass, which is the gather order reversed but for the head.
void add_reductions(const StateRequest& r, const StageGroups& g, const PieceBlocks& piece, PieceState& state) {
  const bool each = every_pass(r.spec);
  double dense = 0;
  double experts = 0;
  for (std::size_t i = piece.items.size(); i > 0; --i) {
    const auto p = static_cast<std::size_t>(piece.items[i - 1].parameters);
    dense += piece.dense[p];
    experts += piece.experts[p];
    if (i > 1 && !each && dense + experts < bucket_parameters(r.spec)) continue;
    state.reduce_last = reduce_seconds(r, g, dense, experts);
    state.reduce_all += state.reduce_last;
    dense = experts = 0;
  }
}

double update_seconds(const StateRequest& r, double owned) {
  const StepSpec& spec = r.spec;
  Seconds t =
      topology::membound_time(spec.cluster.device, Bytes(owned * spec.software.optimizer_bytes_per_parameter), 1);
  if (spec.offload.optimizer) {
    const Bytes moved(owned * spec.offload.optimizer_fraction *
                      (spec.recipe.gradient_bytes + spec.recipe.parameter_bytes));
    t = std::max(t, moved / spec.cluster.device.host_link_bandwidth);
  }
  return t.value * r.speed;
}

struct Weights {
  double dense = 0, experts = 0, quantised = 0;
  double root = 0;     // embedding and head
  double largest = 0;  // other block
  [[nodiscard]] double total() const { return dense + experts; }
};

Weights weigh(const StateRequest& r, std::size_t rank) {
  Weights w;
  for (const int piece : r.pieces_of_rank[rank]) {
    const PieceBlocks& p = r.pieces[static_cast<std::size_t>(piece)];
    w.dense += sum(p.dense);
    w.experts += sum(p.experts);
    for (std::size_t b = 0; b < p.dense.size(); ++b) {
      const double block = p.dense[b] + p.experts[b];
      if (p.quantised[b]) w.quantised += block;
      if (p.root[b]) {
        w.root += block;
      } else {
        w.largest = std::max(w.largest, block);
      }
    }
  }
  return w;
}

// As parallelism/lowering/stage_memory.cpp has it, less what it holds for Transformer Engine's placeholder gradients.
double static_bytes(const StepSpec& spec, const Weights& w, double owned) {
  const auto& recipe = spec.recipe;
  const auto& software = spec.software;
  const bool each = every_pass(spec);
  const bool fp32 = software.fp32_parameters && fully_sharded(spec);
  const double kept = each ? owned : w.total();
  const double narrow = 2 * topology::element_bytes(recipe.gemm);
  double bytes = fp32 ? owned * fp32_bytes
                      : kept * recipe.parameter_bytes + narrow * w.quantised * kept / std::max(1.0, w.total());
  bytes += (every_microbatch(spec) ? owned : w.total()) * recipe.gradient_bytes;
  if (software.bf16_gradients_stay && recipe.gradient_bytes > bf16_bytes) bytes += w.total() * bf16_bytes;
  if (fp32 && !each) bytes += owned * recipe.gradient_bytes;
  const double on_device = spec.offload.optimizer ? 1 - spec.offload.optimizer_fraction : 1;
  bytes += owned * (recipe.optimizer_bytes - (fp32 ? fp32_bytes : 0)) * on_device;
  if (each) {
    const double ahead = w.largest * (1 + spec.overlap.prefetch);
    bytes += (fp32 ? w.root + ahead : std::max(w.root, ahead)) * recipe.parameter_bytes;
    if (fp32 && w.quantised > 0) bytes += narrow * w.largest;
    bytes += w.largest * (bf16_bytes + recipe.reduce_bytes) + (fp32 ? w.root * bf16_bytes : 0);
  } else if (fp32) {
    bytes += w.total() * recipe.parameter_bytes;
  }
  if (software.fp32_gradient_copy && recipe.gradient_bytes < fp32_bytes) bytes += owned * fp32_bytes;
  return bytes + software.bucket_bytes + software.context_bytes;
}

RankState rank_state(const StateRequest& r, std::size_t rank) {
  const StepSpec& spec = r.spec;
  const StageGroups& g = r.groups.kinds[static_cast<std::size_t>(r.groups.kind_of_stage[rank])];
  const Weights w = weigh(r, rank);
  const double copies = r.parameter_copies;
  const double owned =
      shards_optimizer(spec) ? w.dense / (g.shard.size * copies) + w.experts / (g.edp.size * copies) : w.total();
  RankState state;
  state.update = update_seconds(r, owned);
  state.static_bytes = static_bytes(spec, w, owned);
  const double f = spec.software.unfused_factor;
  if (w.quantised > 0) {
    const Bytes cast(w.quantised * (2 + 2 * topology::element_bytes(spec.recipe.gemm)) * f);
    state.quantise = topology::membound_time(spec.cluster.device, cast, f).value * r.speed;
  }
  double gathers = 0;
  double dense = 0;
  double experts = 0;
  for (const int piece : r.pieces_of_rank[rank]) {
    const PieceBlocks& p = r.pieces[static_cast<std::size_t>(piece)];
    PieceState s;
    if (r.parameter_copies > 1) {
      // Groups over two stages, which the bounds do not place: their gathers and reductions count as free.
      s.gather.assign(p.dense.size(), 0);
      state.pieces.push_back(std::move(s));
      continue;
    }
    for (std::size_t b = 0; b < p.dense.size(); ++b) s.gather.push_back(gather_seconds(r, g, p.dense[b], p.experts[b]));
    s.gather_all = sum(s.gather);
    // Beside the update of the other pieces: the bounds count them as free.
    if (spec.overlap.parameters_with_optimizer && state.pieces.empty()) s.gather.assign(p.dense.size(), 0);
    gathers += s.gather_all;
    add_reductions(r, g, p, s);
    state.pieces.push_back(std::move(s));
    for (std::size_t b = p.dense.size(); b > 0; --b) {
      dense += p.dense[b - 1];
      experts += p.experts[b - 1];
      if (b > 1 && dense + experts < bucket_parameters(spec)) continue;
      state.late_reduce += reduce_seconds(r, g, dense, experts);
      dense = experts = 0;
    }
  }
  if (shards_optimizer(spec) && !spec.overlap.parameters && !every_pass(spec)) state.update += gathers;
  return state;
}

}  // namespace

double bucket_parameters(const StepSpec& spec) {
  return spec.overlap.gradient_bucket_bytes > 0 ? spec.overlap.gradient_bucket_bytes / spec.recipe.reduce_bytes
                                                : default_bucket_parameters;
}

double reduce_seconds(const StateRequest& r, const StageGroups& g, double dense, double experts) {
  const double width = r.spec.recipe.reduce_bytes;
  const Collective kind = shards_optimizer(r.spec) ? Collective::reduce_scatter : Collective::all_reduce;
  double t = move_seconds(r.spec, g.shard, kind, dense * width);
  if (g.replica.index >= 0) t += move_seconds(r.spec, g.replica, Collective::all_reduce, dense * width / g.shard.size);
  return t + move_seconds(r.spec, g.edp, kind, experts * width);
}

std::vector<PieceBlocks> piece_blocks(const StepSpec& spec, const parallelism::Layout& layout,
                                      const parallelism::StageSplit& split) {
  const std::vector<int> block_of_layer = layer_blocks(spec.model);
  const bool quantised = spec.recipe.gemm != topology::Precision::bf16 && spec.recipe.gemm != topology::Precision::fp16;
  const double hidden = spec.model.hidden;
  const double vocabulary = padded_vocabulary(spec, layout) * hidden / layout.tp;
  const double positions = spec.model.learned_positions ? spec.model.max_positions * hidden : 0;
  std::vector<PieceBlocks> pieces;
  for (const parallelism::StageContent& content : split.pieces) {
    PieceBlocks p;
    const auto add = [&p](double dense, double experts, bool narrow, bool root) {
      p.dense.push_back(dense);
      p.experts.push_back(experts);
      p.quantised.push_back(narrow);
      p.root.push_back(root);
      return static_cast<int>(p.dense.size()) - 1;
    };
    const auto layer = [&](const models::LayerParameters& l) {
      return add((l.attention_tp + l.mlp_tp) / layout.tp + l.replicated, l.routed_experts / (layout.ep * layout.etp),
                 quantised, false);
    };
    if (content.embedding) p.items.push_back({embedding_block, add(vocabulary + positions, 0, false, true)});
    for (int i = 0; i < content.layers; ++i) {
      const int index = content.first_layer + i;
      p.items.push_back(
          {block_of_layer[static_cast<std::size_t>(index)], layer(models::layer_parameters(spec.model, index))});
    }
    std::vector<PieceBlocks::Item> mtp;
    for (int i = 0; i < content.mtp_layers; ++i) {
      const bool held = i > 0 && spec.model.mtp_shared_weights;
      mtp.push_back({mtp_block, layer(held ? models::LayerParameters{} : models::mtp_parameters(spec.model))});
    }
    if (content.loss) {
      const bool shares = spec.model.tied_embeddings && content.embedding;
      p.items.push_back(
          {head_block, add((shares ? 0 : vocabulary) + models::final_norm_parameters(spec.model), 0, false, true)});
    }
    p.items.insert(p.items.end(), mtp.begin(), mtp.end());
    for (const auto& item : p.items) p.blocks.push_back(item.block);
    pieces.push_back(std::move(p));
  }
  return pieces;
}

State make_state(const StateRequest& r) {
  const StepSpec& spec = r.spec;
  State s;
  s.every_pass = every_pass(spec);
  s.every_microbatch = every_microbatch(spec);
  s.gathers_ahead = shards_optimizer(spec) && spec.overlap.parameters && !s.every_pass;
  s.reduces_beside = spec.overlap.gradients && r.parameter_copies == 1;
  std::size_t blocks = 0;
  for (std::size_t rank = 0; rank < r.pieces_of_rank.size(); ++rank) {
    s.ranks.push_back(rank_state(r, rank));
    std::size_t own = 0;
    for (const auto& p : s.ranks.back().pieces) own += p.gather.size();
    blocks = std::max(blocks, own);
  }
  if (r.layout.ranks() > 1) s.norm = barrier_seconds(spec, 4, r.layout.ranks());
  const auto& first = r.pieces_of_rank.front();
  const bool one_rank = std::find(first.begin(), first.end(), static_cast<int>(r.pieces.size()) - 1) != first.end();
  if (spec.model.tied_embeddings && r.layout.pp > 1 && r.parameter_copies == 1 && !one_rank) {
    s.embedding = barrier_seconds(
        spec, padded_vocabulary(spec, r.layout) * spec.model.hidden / r.layout.tp * spec.recipe.reduce_bytes, 2);
  }
  // After the norm the host issues the update and at most two gathers a block.
  s.slack = static_cast<double>(2 * blocks + 4) * spec.runtime.host_launch_us * 1e-6;
  return s;
}

}  // namespace stepcast::scenarios::plan
