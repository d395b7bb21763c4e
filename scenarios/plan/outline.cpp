#include "scenarios/plan/outline.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "parallelism/lower.h"
#include "parallelism/lowering/shared_device.h"
#include "parallelism/lowering/stage.h"

namespace stepcast::scenarios::plan {
namespace {

using parallelism::CohortBuilder;
using parallelism::CommGroup;
using parallelism::CommSpec;
using parallelism::OpSpec;
using parallelism::Pass;
using parallelism::StageContext;
using parallelism::StepSpec;
using sim::Instruction;
using sim::Opcode;
using sim::Stream;

using List = std::vector<Instruction>;

// A block's instructions, and one without length that takes what they leave to be waited for, if anything.
struct Listed {
  List kernels;
  std::optional<Instruction> wait;
};

// As the lowering has it: of a kernel's gap, what remains inside a CUDA graph.
constexpr double graphed_gap_share = 0.3;

bool same(const CommGroup& a, const CommGroup& b) {
  return a.size == b.size && a.span == b.span && a.cross_domain.value == b.cross_domain.value;
}

double seconds(Ticks ticks) { return to_seconds(ticks).value; }

}  // namespace

bool operator==(const StageGroups& a, const StageGroups& b) {
  return same(a.tp, b.tp) && same(a.cp, b.cp) && same(a.etp, b.etp) && same(a.ep, b.ep) && same(a.dp, b.dp) &&
         same(a.edp, b.edp) && same(a.shard, b.shard) && same(a.replica, b.replica);
}

Paths::Paths() {
  for (auto& row : at) row.fill(never);
}

Paths then(const Paths& first, const Paths& second) {
  Paths out;
  for (std::size_t o = 0; o < ports; ++o) {
    for (std::size_t i = 0; i < ports; ++i) {
      out.at[o][i] = std::max(second.at[o][compute_port] + first.at[compute_port][i],
                              second.at[o][host_port] + first.at[host_port][i]);
    }
  }
  return out;
}

void Outline::follow(const Outline& next) {
  paths = then(paths, next.paths);
  busy += next.busy;
  peak = std::max(peak, net + next.peak);
  net += next.net;
}

std::vector<int> layer_blocks(const models::Model& model) {
  std::vector<models::Layer> kinds;
  std::vector<int> blocks;
  for (const models::Layer& layer : model.layers) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const models::Layer& k) {
      return k.attention == layer.attention && k.ffn == layer.ffn;
    });
    blocks.push_back(first_layer_block + static_cast<int>(known - kinds.begin()));
    if (known == kinds.end()) kinds.push_back(layer);
  }
  return blocks;
}

double mean_rows(const StepSpec& spec, const parallelism::Layout& layout, double tokens_per_rank) {
  const double ranks = static_cast<double>(layout.ep) * layout.etp;
  const double routed = std::floor(tokens_per_rank * ranks) * spec.model.moe.top_k / layout.ep;
  const auto& routing = spec.routing;
  if (routing.drop == parallelism::DropPolicy::none || routing.capacity_factor <= 0) return routed;
  const double local = static_cast<double>(spec.model.moe.experts) / layout.ep;
  const double mean = tokens_per_rank * spec.model.moe.top_k / spec.model.moe.experts;
  const double slots = std::floor(mean * routing.capacity_factor) * ranks * local;
  if (routing.drop == parallelism::DropPolicy::pad) return std::max(slots, ranks * local);
  return routing.kind == parallelism::SkewKind::balanced ? std::min(routed, slots) : 0;
}

// One scratch cohort that all lists are written into, so that their slots agree.
struct Outliner::Lists {
  const StepSpec spec;
  const parallelism::Layout layout;
  sim::Cohort cohort;
  std::vector<std::string> parts;
  CohortBuilder out{cohort, parts};
  StageContext ctx;
  std::vector<models::Layer> kinds;  // of layers, by block
  double rows = 0, speed = 1;
  double launch = 0, sync = 0;
  std::map<std::tuple<int, Pass, bool>, Listed> lists;  // the last: of the second of two interleaved lists
  int receive[2] = {-1, -1}, send[2] = {-1, -1};        // works of the marks

  Lists(const StepSpec& given, const parallelism::Layout& at, const StageGroups& g, double speed_factor)
      : spec(given),
        layout(at),
        ctx{spec, layout, out, g.tp, g.cp, g.etp, g.ep, g.dp, g.edp, {}, 0, 0, 0, 0, -1, -1, {}},
        speed(speed_factor) {
    ctx.documents = parallelism::microbatch_documents(spec);
    ctx.tokens = ctx.documents.tokens / layout.cp;
    ctx.tokens_sp = spec.sequence_parallel ? ctx.tokens / layout.tp : ctx.tokens;
    ctx.tokens_moe = ctx.tokens / layout.tp;
    ctx.padded_vocab = parallelism::padded_vocabulary(spec.software, spec.model.vocab, layout.tp);
    const double binding = spec.runtime.host_binding
                               ? parallelism::factor_of(spec.software.host_binding_factor, spec.cluster.device.name)
                               : 1;
    launch = seconds(to_ticks(microseconds(spec.runtime.host_launch_us * binding)));
    const double local_experts = spec.model.is_moe() ? static_cast<double>(spec.model.moe.experts) / layout.ep : 0;
    const double sync_us = spec.runtime.host_sync_us + spec.software.host_sync_per_expert_us * local_experts;
    sync = seconds(to_ticks(microseconds(sync_us * binding)));
    const Seconds gap = microseconds(spec.software.kernel_gap_us);
    out.kernel_gap(gap, gap * graphed_gap_share);
    out.floor_launches();
    if (spec.model.is_moe()) rows = mean_rows(spec, layout, ctx.tokens_moe);
    const std::vector<int> blocks = layer_blocks(spec.model);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto kind = static_cast<std::size_t>(blocks[i] - first_layer_block);
      if (kind == kinds.size()) kinds.push_back(spec.model.layers[i]);
    }
  }

  // A place where a message comes in or goes out; costs nothing and is not launched.
  Instruction mark(bool receives, int port) {
    int& work = receives ? receive[port] : send[port];
    if (work < 0) {
      CommSpec op;
      op.launch = false;
      op.target = port;
      op.wait_streams = receives ? std::uint8_t{0} : sim::bit(Stream::compute);
      out.begin_body("");
      receives ? out.receive(op) : out.send(op);
      work = static_cast<int>(cohort.bodies[static_cast<std::size_t>(out.end_body())].instructions.back().work);
    }
    Instruction in;
    in.op = receives ? Opcode::receive : Opcode::send;
    in.stream = receives ? Stream::pp_receive : Stream::pp_send;
    in.wait_streams = receives ? std::uint8_t{0} : sim::bit(Stream::compute);
    in.flags = sim::flag_no_launch;
    in.target = static_cast<std::uint16_t>(port);
    in.work = static_cast<std::uint16_t>(work);
    in.cost = in.work;
    return in;
  }

  void lower(int block, Pass pass) {
    ctx.layer = -1;
    ctx.load = -1;
    ctx.repeat_layer = true;
    if (block == embedding_block) {
      parallelism::lower_embedding(ctx, pass);
    } else if (block == head_block) {
      const bool forward = parallelism::is_forward(pass);
      if (forward) parallelism::lower_norm(ctx, pass, "final_norm");
      parallelism::lower_loss(ctx, pass);
      if (!forward) parallelism::lower_norm(ctx, pass, "final_norm");
    } else if (block == mtp_block) {
      ctx.layer = spec.model.layer_count() - 1;
      ctx.load = models::mtp_layer(spec.model).ffn == models::FfnKind::moe ? 0 : -1;
      parallelism::lower_mtp(ctx, pass);
    } else {
      const models::Layer& layer = kinds[static_cast<std::size_t>(block - first_layer_block)];
      ctx.layer = 0;
      ctx.load = layer.ffn == models::FfnKind::moe ? 0 : -1;
      parallelism::lower_layer(ctx, layer, pass);
    }
  }

  // The block's kernels, the first of which waits for a message.
  const Listed& of(int block, Pass pass, bool second) {
    const auto key = std::make_tuple(block, pass, second);
    const auto found = lists.find(key);
    if (found != lists.end()) return found->second;
    out.begin_body("");
    out.second_instance(second);
    out.in_graph(spec.runtime.cuda_graphs == parallelism::CudaGraphs::full_iteration);
    out.wait_next(sim::bit(Stream::pp_receive));
    lower(block, pass);
    Listed listed;
    const std::size_t own = out.instructions().size();
    out.wait_now();
    const int body = out.end_body();
    listed.kernels = std::move(cohort.bodies[static_cast<std::size_t>(body)].instructions);
    if (listed.kernels.size() > own) {
      listed.wait = listed.kernels.back();
      listed.kernels.pop_back();
    }
    return lists.emplace(key, std::move(listed)).first->second;
  }

  // After `listed`: a message leaves once compute and what the list awaits are done, then compute waits as well.
  void append_end(List& list, const Listed& listed, int port) {
    Instruction leave = mark(false, port);
    if (listed.wait) {
      leave.wait_streams = static_cast<std::uint8_t>(leave.wait_streams | listed.wait->wait_streams);
      leave.wait_slot = listed.wait->wait_slot;
    }
    list.push_back(leave);
    if (listed.wait) list.push_back(*listed.wait);
  }

  [[nodiscard]] double duration(const Instruction& in) const {
    const sim::Cost& cost = cohort.costs[in.cost];
    double ticks = cost.base_ticks;
    if (in.load != sim::none16) ticks += cost.per_row_ticks * rows;
    ticks = std::max(ticks, cost.floor_ticks);
    return ticks / ticks_per_second * (cost.noise == sim::NoiseKind::kernel ? speed : 1);
  }

  // Of each instruction, beside what the list itself sends. A longer list that holds it slows no kernel less: what it
  // still sends as this one begins only adds.
  [[nodiscard]] std::vector<double> durations(const List& list) const {
    const auto slowed = parallelism::slowed_beside_transfers(spec, layout, ctx.tokens_moe, cohort, list);
    std::vector<double> seconds(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) seconds[i] = duration(list[i]) * (slowed.empty() ? 1 : slowed[i]);
    return seconds;
  }

  // Times of all outputs when only one input has happened, at zero.
  std::array<double, ports> run(const List& list, const std::vector<double>& takes, std::size_t input,
                                std::vector<double>& slots) const {
    std::array<double, sim::stream_count> tail;
    tail.fill(never);
    std::array<double, ports> result;
    result.fill(never);
    slots.assign(static_cast<std::size_t>(cohort.slots), never);
    double& compute = tail[static_cast<std::size_t>(Stream::compute)];
    if (input == compute_port) compute = 0;
    double host = input == host_port ? 0 : never;
    for (std::size_t k = 0; k < list.size(); ++k) {
      const Instruction& in = list[k];
      double ready = never;
      if (in.op != Opcode::host_sync) ready = tail[static_cast<std::size_t>(in.stream)];
      for (unsigned waits = in.wait_streams; waits != 0; waits &= waits - 1)
        ready = std::max(ready, tail[static_cast<std::size_t>(__builtin_ctz(waits))]);
      if (in.wait_slot != sim::none16) ready = std::max(ready, slots[in.wait_slot]);
      if (in.op == Opcode::host_sync) {
        host = std::max(host, ready) + sync;
        continue;
      }
      if (in.op == Opcode::receive) {
        if (input == message_port + in.target) ready = std::max(ready, 0.0);
        tail[static_cast<std::size_t>(in.stream)] = ready;
        continue;
      }
      if (in.op == Opcode::send) {
        result[message_port + in.target] = ready;
        continue;
      }
      if ((in.flags & sim::flag_no_launch) == 0) {
        ready = std::max(ready, host + launch);
        host += launch;
      }
      const double end = ready + takes[k];
      tail[static_cast<std::size_t>(in.stream)] = end;
      if (in.record_slot != sim::none16) slots[in.record_slot] = end;
    }
    result[compute_port] = compute;
    result[host_port] = host;
    return result;
  }

  Outline outline(const List& list, std::size_t inputs) const {
    Outline o;
    const std::vector<double> takes = durations(list);
    std::vector<double> slots;
    for (std::size_t i = 0; i < inputs; ++i) {
      const auto out_times = run(list, takes, i, slots);
      for (std::size_t k = 0; k < ports; ++k) o.paths.at[k][i] = out_times[k];
    }
    for (const Instruction& in : list) {
      if (in.op == Opcode::compute && in.stream == Stream::compute) o.busy += duration(in);
      double begin = 0;
      double end = 0;
      for (const sim::MemoryEffect& m : cohort.works[in.work].memory) {
        const double bytes = m.bytes + (in.load != sim::none16 ? m.bytes_per_row * rows : 0);
        (m.at_end ? end : begin) += bytes;
      }
      o.net += begin;
      o.peak = std::max(o.peak, o.net);
      o.net += end;
      o.peak = std::max(o.peak, o.net);
    }
    return o;
  }
};

Outliner::Outliner(const StepSpec& spec, const parallelism::Layout& layout, const StageGroups& groups, double speed)
    : lists_(std::make_unique<Lists>(spec, layout, groups, speed)) {}
Outliner::~Outliner() = default;

Outliner& OutlinerCache::get(const StepSpec& spec, const parallelism::Layout& layout, const StageGroups& groups,
                             double speed, int choices) {
  const auto known = std::find_if(groups_.begin(), groups_.end(), [&](const StageGroups& g) {
    return same(g.tp, groups.tp) && same(g.cp, groups.cp) && same(g.etp, groups.etp) && same(g.ep, groups.ep);
  });
  const auto index = static_cast<std::size_t>(known - groups_.begin());
  if (known == groups_.end()) groups_.push_back(groups);
  auto& outliner = outliners_[{index, spec.workload.micro_batch, choices}];
  if (!outliner) outliner = std::make_unique<Outliner>(spec, layout, groups, speed);
  return *outliner;
}

const models::Documents& Outliner::documents() const { return lists_->ctx.documents; }

const Outline& Outliner::block(int block, Pass pass) {
  const auto key = std::make_pair(block, pass);
  const auto found = outlines_.find(key);
  if (found != outlines_.end()) return found->second;
  const Listed& own = lists_->of(block, pass, false);
  List list;
  list.reserve(own.kernels.size() + 4);
  list.push_back(lists_->mark(true, 0));
  list.insert(list.end(), own.kernels.begin(), own.kernels.end());
  // Gradients leave when their kernels are done, whatever else is awaited.
  list.push_back(lists_->mark(false, 1));
  lists_->append_end(list, own, 0);
  return outlines_.emplace(key, lists_->outline(list, 3)).first->second;
}

Outline Outliner::pair(const std::vector<int>& forward, const std::vector<int>& backward) {
  const auto joined = [&](const std::vector<int>& blocks, Pass pass, int port) {
    List list;
    list.push_back(lists_->mark(true, port));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const Listed& own = lists_->of(blocks[i], pass, port == 1);
      list.insert(list.end(), own.kernels.begin(), own.kernels.end());
      if (i + 1 == blocks.size()) {
        lists_->append_end(list, own, port);
      } else if (own.wait) {
        list.push_back(*own.wait);
      }
    }
    if (blocks.empty()) list.push_back(lists_->mark(false, port));
    for (Instruction& in : list) {
      if (port == 1) in.flags |= sim::flag_second_instance;
    }
    return list;
  };
  const List ahead = joined(forward, Pass::forward, 0);
  const List behind = joined(backward, Pass::backward, 1);
  return lists_->outline(parallelism::separate_waits(parallelism::interleave(ahead, behind), lists_->out), ports);
}

}  // namespace stepcast::scenarios::plan
