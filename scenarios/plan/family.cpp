#include "scenarios/plan/family.h"

#include <algorithm>
#include <array>

#include "parallelism/lower.h"
#include "parallelism/lowering/refusals.h"
#include "parallelism/stage_split.h"
#include "scenarios/plan/pipeline.h"
#include "topology/collective_cost.h"

namespace stepcast::scenarios::plan {
namespace {

using parallelism::Pass;
using parallelism::ScheduleKind;
using parallelism::StepSpec;

parallelism::Divisibility limits_of(const StepSpec& spec) {
  parallelism::Divisibility d = parallelism::divisibility(spec);
  d.layers = 0;  // the split's business
  return d;
}

bool holds_two_pieces(ScheduleKind kind) {
  return kind == ScheduleKind::zb_v || kind == ScheduleKind::dualpipe || kind == ScheduleKind::dualpipe_v;
}

int shape_of(ScheduleKind kind) {
  if (kind == ScheduleKind::dualpipe) return 2;
  return holds_two_pieces(kind) ? 1 : 0;
}

template <class T>
bool is_first(const std::vector<T>& axis, T value) {
  return axis.empty() || axis.front() == value;
}

constexpr std::array<const char*, refusal_count> names = {"degrees",   "batch", "split", "schedule",
                                                          "framework", "twin",  "memory"};
constexpr std::array<const char*, refusal_count> sentences = {
    "degrees do not divide the model or the devices",
    "microbatches do not fill the global batch",
    "more stages than layers",
    "the schedule cannot take so many stages, chunks or microbatches",
    "no framework runs the combination",
    "the same step as another point",
    "cannot fit: weights, optimizer and activations alone are above the limit"};

}  // namespace

const char* name(Refusal refusal) { return names[static_cast<std::size_t>(refusal)]; }
const char* words(Refusal refusal) { return sentences[static_cast<std::size_t>(refusal)]; }

const PieceOutlines& Family::Bodies::piece(const Pipeline& pipeline, int kind, int piece) {
  const auto p = static_cast<std::size_t>(piece);
  const auto key = std::make_pair(kind, pipeline.content[p]);
  const auto found = pieces.find(key);
  if (found != pieces.end()) return found->second;
  Outliner& outliner = *outliners[static_cast<std::size_t>(kind)];
  const std::vector<int>& blocks = pipeline.pieces[p].blocks;
  const auto joined = [&](Pass pass) {
    Outline all;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const int block = parallelism::is_forward(pass) ? blocks[i] : blocks[blocks.size() - 1 - i];
      const Outline& next = outliner.block(block, pass);
      if (i == 0) {
        all = next;
      } else {
        all.follow(next);
      }
    }
    return all;
  };
  PieceOutlines out{joined(Pass::forward), joined(Pass::backward), {}, {}};
  const ScheduleKind k = pipeline.schedule.kind;
  // Only schedules that split the backward pass call for its halves; their key is their own.
  if (k == ScheduleKind::zb_h1 || holds_two_pieces(k)) {
    out.dgrad = joined(Pass::dgrad);
    out.wgrad = joined(Pass::wgrad);
  }
  return pieces.emplace(key, std::move(out)).first->second;
}

const Outline& Family::Bodies::pair(const Pipeline& pipeline, int kind, int ahead, int behind) {
  const auto a = static_cast<std::size_t>(ahead);
  const auto b = static_cast<std::size_t>(behind);
  const std::array<int, 3> key = {kind, pipeline.content[a], pipeline.content[b]};
  const auto found = pairs.find(key);
  if (found != pairs.end()) return found->second;
  std::vector<int> backward = pipeline.pieces[b].blocks;
  std::reverse(backward.begin(), backward.end());
  return pairs.emplace(key, outliners[static_cast<std::size_t>(kind)]->pair(pipeline.pieces[a].blocks, backward))
      .first->second;
}

Family::Family(const SearchBase& base, const Degrees& degrees, OutlinerCache& outliners)
    : base_(base), degrees_(degrees), spec_(base.spec), outliners_(outliners) {
  Point p;
  p.devices = base.spec.cluster.devices;
  p.global_batch = degrees.global_batch;
  p.tp = degrees.tp;
  p.cp = degrees.cp;
  p.pp = degrees.pp;
  p.ep = degrees.ep;
  p.etp = degrees.etp;
  apply(base.space, p, spec_);
  auto layout = parallelism::make_layout(spec_.degrees, limits_of(spec_));
  if (layout) layout_ = std::move(*layout);
}

Family::~Family() = default;

const Groups& Family::groups(const Point& point) {
  const int shard = point.sharding == parallelism::Sharding::hsdp ? spec_.shard_group : 0;
  const auto found = groups_.find(shard);
  if (found != groups_.end()) return found->second;
  return groups_.emplace(shard, find_groups(spec_, *layout_, base_.fabric, shard)).first->second;
}

// The first point of a kind is the one that stands for it.
bool Family::twin(const Point& p) const {
  const Space& space = base_.space;
  if (p.ep == 1 && !is_first(space.dispatcher, p.dispatcher)) return true;
  if (holds_two_pieces(p.schedule) && p.vpp == 2 && std::count(space.vpp.begin(), space.vpp.end(), 1) > 0) return true;
  if (layout_->dp * layout_->cp == 1 && layout_->edp == 1 && !is_first(space.sharding, p.sharding)) return true;
  // With a pipeline zero3 gathers and reduces once a step, as zero1 does, and holds the same unless masters are shards.
  if (p.sharding == parallelism::Sharding::zero3 && p.pp > 1 && !base_.spec.software.fp32_parameters &&
      std::count(space.sharding.begin(), space.sharding.end(), parallelism::Sharding::zero1) > 0)
    return true;
  const OverlapChoice& own = space.overlap[p.overlap];
  for (std::size_t i = 0; i < p.overlap; ++i) {
    const OverlapChoice& o = space.overlap[i];
    if (p.tp == 1 && o.gradients == own.gradients && o.parameters == own.parameters && o.p2p == own.p2p) return true;
  }
  return false;
}

namespace {

// Fewer microbatches that obey the same rules of every schedule (even or not, whole groups or not) and hold no more
// than all do: a round and a half of the longest warm-up and a rest.
int shortened(ScheduleKind kind, int stages, int microbatches) {
  const int round = 2 * stages;
  if (kind == ScheduleKind::gpipe || microbatches <= 4 * round) return microbatches;
  return 3 * round + microbatches % round;
}

}  // namespace

Family::Pipeline& Family::pipeline(const Point& p, bool whole) {
  const int microbatches = degrees_.global_batch / (layout_->dp * p.micro_batch);
  const int listed = whole ? microbatches : shortened(p.schedule, layout_->pp, microbatches);
  const auto key = std::make_tuple(p.schedule, int{p.vpp}, microbatches, listed);
  const auto found = pipelines_.find(key);
  if (found != pipelines_.end()) return *found->second;
  auto made = std::make_unique<Pipeline>();
  made->microbatches = microbatches;
  made->shape = shape_of(p.schedule);
  auto schedule = parallelism::info(p.schedule).make({layout_->pp, p.vpp, listed, spec_.schedule_group});
  if (schedule) {
    made->schedule = std::move(*schedule);
    parallelism::SplitRequest request;
    request.layers = spec_.model.layer_count();
    request.mtp_layers = spec_.model.mtp_layers;
    request.virtual_stages = made->schedule.virtual_stages;
    // Degrees times chunks are checked against the layers whatever the schedule makes of them.
    const auto split = parallelism::split_stages(request);
    if (split && int{p.pp} * p.vpp <= request.layers) made->pieces = piece_blocks(spec_, *layout_, *split);
    for (std::size_t i = 0; i < made->pieces.size(); ++i) {
      std::size_t same = 0;
      while (made->pieces[same].blocks != made->pieces[i].blocks) ++same;
      made->content.push_back(static_cast<int>(same));
    }
  }
  return *pipelines_.emplace(key, std::move(made)).first->second;
}

Family::Bodies& Family::bodies(const Point& p, Pipeline& pipeline) {
  // What kernel lists read of a point beside its degrees and microbatch, as apply() sets it.
  const OverlapChoice& overlap = base_.space.overlap[p.overlap];
  const int kernels = p.recompute | static_cast<int>(p.dispatcher) << 8 | (overlap.tp ? 1 << 16 : 0) |
                      (overlap.delay_wgrad && paired(p.schedule) ? 1 << 17 : 0);
  // Schedules that halve the backward pass hold more outlines of a piece than the others.
  const bool halves = p.schedule == ScheduleKind::zb_h1 || holds_two_pieces(p.schedule);
  const auto key = std::make_tuple(pipeline.schedule.virtual_stages, int{p.micro_batch}, kernels, int{halves},
                                   p.sharding == parallelism::Sharding::hsdp ? 1 : 0);
  const auto found = bodies_.find(key);
  if (found != bodies_.end()) return *found->second;
  auto made = std::make_unique<Bodies>();
  const Groups& g = groups(p);
  StepSpec spec = spec_;
  apply(base_.space, p, spec);
  for (std::size_t kind = 0; kind < g.kinds.size(); ++kind) {
    made->outliners.push_back(&outliners_.get(spec, *layout_, g.kinds[kind], base_.speed, kernels));
  }
  constexpr double bf16_bytes = 2;
  const double tokens = made->outliners.front()->documents().tokens / layout_->cp;
  const Bytes bytes(tokens / layout_->tp * spec_.model.hidden * bf16_bytes);
  made->send_inside = topology::send_receive_time(spec_.cluster, bytes, true).time.value;
  made->send_across = topology::send_receive_time(spec_.cluster, bytes, false).time.value;
  return *bodies_.emplace(key, std::move(made)).first->second;
}

const State& Family::state(const Point& p, Pipeline& pipeline) {
  const auto key = std::make_tuple(pipeline.shape * 1024 + pipeline.schedule.virtual_stages / layout_->pp,
                                   static_cast<int>(p.sharding), int{p.overlap});
  const auto found = states_.find(key);
  if (found != states_.end()) return *found->second;
  StepSpec spec = spec_;
  apply(base_.space, p, spec);
  const StateRequest request{spec,
                             *layout_,
                             groups(p),
                             pipeline.pieces,
                             pipeline.schedule.virtual_stage,
                             pipeline.schedule.parameter_copies,
                             base_.speed};
  return *states_.emplace(key, std::make_unique<State>(make_state(request))).first->second;
}

std::optional<Refusal> Family::evaluate(const Point& p, bool whole, Evaluated& out) {
  if (!layout_) return Refusal::degrees;
  const std::int64_t at_once = std::int64_t{p.micro_batch} * layout_->dp;
  if (degrees_.global_batch % at_once != 0 || degrees_.global_batch < at_once) return Refusal::batch;
  if (twin(p)) return Refusal::twin;
  Pipeline& line = pipeline(p, whole);
  if (line.schedule.ranks.empty()) return Refusal::schedule;
  if (line.pieces.empty()) return Refusal::split;
  apply(base_.space, p, spec_);
  if (!parallelism::refusals(spec_).empty()) return Refusal::framework;
  if (p.sharding == parallelism::Sharding::hsdp && layout_->dp * layout_->cp % spec_.shard_group != 0)
    return Refusal::framework;
  out.point = &p;
  out.pipeline = &line;
  out.state = &state(p, line);
  // Before any kernel is looked at.
  for (const RankState& rank : out.state->ranks) {
    if (rank.static_bytes > base_.memory_limit) return Refusal::memory;
  }
  out.bodies = &bodies(p, line);
  out.groups = &groups(p);
  return std::nullopt;
}

std::optional<Refusal> Family::quick(const Point& point, Judged& judged) {
  Evaluated e;
  if (const auto refused = evaluate(point, false, e)) return refused;
  judged.point = point;
  judged.peak_bytes = peak_bytes(e);
  if (judged.peak_bytes > base_.memory_limit) return Refusal::memory;
  judged.seconds = quick_seconds(e);
  return std::nullopt;
}

std::vector<Judged> Family::judge(std::vector<std::int64_t>& refused) {
  refused.resize(refusal_count, 0);
  std::vector<Judged> valid;
  const Space& space = base_.space;
  if (!layout_) {
    refused[static_cast<std::size_t>(Refusal::degrees)] += space.points_a_family();
    return valid;
  }
  Point p;
  p.devices = base_.spec.cluster.devices;
  p.global_batch = degrees_.global_batch;
  p.tp = degrees_.tp;
  p.cp = degrees_.cp;
  p.pp = degrees_.pp;
  p.ep = degrees_.ep;
  p.etp = degrees_.etp;
  const auto one = [&] {
    Judged judged;
    if (const auto why = quick(p, judged)) {
      ++refused[static_cast<std::size_t>(*why)];
    } else {
      valid.push_back(judged);
    }
  };
  for (const int micro_batch : space.micro_batch) {
    p.micro_batch = static_cast<std::int16_t>(micro_batch);
    for (const int vpp : space.vpp) {
      p.vpp = static_cast<std::int16_t>(vpp);
      for (const ScheduleKind schedule : space.schedule) {
        p.schedule = schedule;
        for (const parallelism::Sharding sharding : space.sharding) {
          p.sharding = sharding;
          for (std::size_t r = 0; r < space.recompute.size(); ++r) {
            p.recompute = static_cast<std::uint8_t>(r);
            for (const topology::Dispatcher dispatcher : space.dispatcher) {
              p.dispatcher = dispatcher;
              for (std::size_t o = 0; o < space.overlap.size(); ++o) {
                p.overlap = static_cast<std::uint8_t>(o);
                one();
              }
            }
          }
        }
      }
    }
  }
  return valid;
}

}  // namespace stepcast::scenarios::plan
