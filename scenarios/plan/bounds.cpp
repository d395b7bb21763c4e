// The bounds of one point: quick, close and memory. See family.h for what they are and outline.h for why they hold.
#include <algorithm>
#include <functional>

#include "scenarios/plan/pipeline.h"

namespace stepcast::scenarios::plan {
namespace {

using parallelism::ScheduleKind;
using parallelism::Slot;
using parallelism::SlotKind;
using parallelism::StepSpec;

// Rounding to whole picoseconds, rows in single precision.
constexpr double rounding = 1 - 1e-7;

double own(const Outline& o) { return o.paths.at[compute_port][compute_port]; }

bool halves_backward(ScheduleKind kind) { return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_v; }

}  // namespace

double Family::send_seconds(const Evaluated& e, int from, int to) const {
  const auto& domain = e.groups->domain_of_stage;
  return domain[static_cast<std::size_t>(from)] == domain[static_cast<std::size_t>(to)] ? e.bodies->send_inside
                                                                                        : e.bodies->send_across;
}

namespace {

// A first forward and a last backward as steps of the way through all ranks: by message in, by message out.
struct Way {
  double arrival = never;     // of the first activation
  std::vector<double> drain;  // by rank: from a gradient's arrival to the end at rank 0
};

double through(const Outline& o, std::size_t out, std::size_t in) { return o.paths.of(out, in); }

}  // namespace

double Family::quick_seconds(const Evaluated& e) const {
  const auto& schedule = e.pipeline->schedule;
  const bool pairs = paired(schedule.kind);
  const bool halves = halves_backward(schedule.kind);
  const double times =
      schedule.kind == ScheduleKind::dualpipe ? e.pipeline->microbatches / 2 : e.pipeline->microbatches;
  const auto stages = static_cast<int>(schedule.ranks.size());
  Way way;
  double longest = 0;
  for (int rank = 0; rank < stages; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const RankState& state = e.state->ranks[r];
    const int kind = e.groups->kind_of_stage[r];
    double work = 0;
    double moved = 0;  // on the stream of parameters and gradients
    const auto& pieces = schedule.virtual_stage[r];
    for (std::size_t chunk = 0; chunk < pieces.size(); ++chunk) {
      const PieceOutlines& o = e.bodies->piece(*e.pipeline, kind, pieces[chunk]);
      // A co-scheduled slot hides one list's exchanges under the other's kernels: the kernels alone are certain.
      work += times * (pairs    ? o.forward.busy + o.backward.busy
                       : halves ? own(o.forward) + own(o.dgrad) + own(o.wgrad)
                                : own(o.forward) + own(o.backward));
      const PieceState& p = state.pieces[chunk];
      if (e.state->every_pass) moved += times * 2 * p.gather_all;
      if (e.state->every_microbatch) moved += times * p.reduce_all;
    }
    const double start = state.update + state.quantise;
    longest = std::max({longest, start + work, moved});
    if (e.pipeline->shape != 0) continue;

    // The rank's first slot is a forward of its first piece, its last one the backward of the same.
    const PieceOutlines& o = e.bodies->piece(*e.pipeline, kind, pieces.front());
    const double counted = pairs ? o.forward.busy : own(o.forward);
    const double entered = way.arrival + through(o.forward, compute_port, message_port);
    const double end = std::max(start + work, entered + work - counted);
    longest = std::max(longest, end);
    if (!e.state->every_microbatch)
      longest = std::max(longest, end + (e.state->reduces_beside ? 0 : state.late_reduce));
    if (!halves) {
      const double leaves =
          end - (pairs ? o.backward.busy : own(o.backward)) + through(o.backward, message_port, compute_port);
      if (e.state->reduces_beside && !e.state->every_microbatch) {
        // What a body leaves to be waited for does not hold its gradients up.
        const double made =
            end - (pairs ? o.backward.busy : own(o.backward)) + through(o.backward, second_message_port, compute_port);
        longest = std::max(longest, made + state.pieces.front().reduce_last);
      }
      double rest = through(o.backward, compute_port, message_port);
      if (rank > 0) {
        const double send = send_seconds(e, rank, rank - 1);
        longest = std::max(longest, leaves + send + way.drain.back());
        rest = std::max(rest, through(o.backward, message_port, message_port) + send + way.drain.back());
      }
      way.drain.push_back(rest);
    }
    if (rank + 1 < stages) {
      way.arrival = std::max(start + through(o.forward, message_port, compute_port),
                             way.arrival + through(o.forward, message_port, message_port)) +
                    send_seconds(e, rank, rank + 1);
    }
  }
  return std::max(0.0, (longest + e.state->norm - e.state->slack) * rounding);
}

double Family::peak_bytes(const Evaluated& e) const {
  const auto& schedule = e.pipeline->schedule;
  const auto stages = schedule.ranks.size();
  // The warm-up and two rounds: later slots repeat them.
  const std::size_t looked_at = 4 * stages * static_cast<std::size_t>(schedule.shape.chunks) + 8;
  double largest = 0;
  double largest_static = 0;
  for (std::size_t r = 0; r < stages; ++r) {
    const int kind = e.groups->kind_of_stage[r];
    std::vector<const PieceOutlines*> outlines;
    for (const int piece : schedule.virtual_stage[r]) outlines.push_back(&e.bodies->piece(*e.pipeline, kind, piece));
    double held = 0;
    double peak = 0;
    std::size_t count = 0;
    const auto run = [&](const Outline& o) {
      peak = std::max(peak, held + o.peak);
      held += o.net;
      peak = std::max(peak, held);
    };
    for (const Slot& slot : schedule.ranks[r]) {
      if (++count > looked_at && schedule.kind != ScheduleKind::gpipe) break;
      const PieceOutlines& o = *outlines[static_cast<std::size_t>(slot.chunk)];
      switch (slot.kind) {
        case SlotKind::forward:
          run(o.forward);
          break;
        case SlotKind::backward:
          run(o.backward);
          break;
        case SlotKind::backward_input:
          run(o.dgrad);
          break;
        case SlotKind::backward_weight:
          run(o.wgrad);
          break;
        case SlotKind::forward_backward:
          // What is held inside depends on how the lists interleave; at the end both are done.
          held += o.forward.net + outlines[static_cast<std::size_t>(slot.second_chunk)]->backward.net;
          peak = std::max(peak, held);
          break;
      }
    }
    if (spec_.offload.activations) peak = 0;  // what is on the host is not followed here
    const double fixed = e.state->ranks[r].static_bytes;
    largest = std::max(largest, fixed + peak);
    largest_static = std::max(largest_static, fixed);
  }
  const double dynamic = std::max(0.0, largest - largest_static);
  return (largest + dynamic * spec_.software.fragmentation) * rounding;
}

namespace {

// One rank while its slots are gone through.
struct Clock {
  double compute = 0, host = never, moving = never;  // seconds since the norm; the last: parameters and gradients
  double gradients = never;                          // of the body run last: when they may leave
  std::size_t next = 0;                              // slot
  std::vector<int> backwards;                        // by chunk: passes that give weight gradients, still to come
  std::vector<bool> started;                         // by chunk
  std::vector<std::vector<double>> gathered;         // by chunk and block: when its parameters are there

  // Runs a body; the time at which it may send.
  double run(const Paths& p, double message) {
    const double c = compute;
    const double h = host;
    const auto of = [&](std::size_t out) {
      return std::max({p.at[out][compute_port] + c, p.at[out][host_port] + h, p.at[out][message_port] + message});
    };
    compute = of(compute_port);
    host = of(host_port);
    gradients = of(second_message_port);
    return of(message_port);
  }
};

bool gives_weights(SlotKind kind) {
  return kind == SlotKind::backward || kind == SlotKind::backward_weight || kind == SlotKind::forward_backward;
}

}  // namespace

// Goes through the slots of all ranks as messages allow.
class CloseBound {
 public:
  CloseBound(const parallelism::Schedule& schedule, const State& state, double bucket)
      : schedule_(schedule), state_(state), bucket_(bucket) {}

  // Given by the family: bodies by rank and piece, and the way between ranks.
  std::vector<std::vector<const PieceOutlines*>> outlines;  // by rank and chunk
  std::vector<const PieceBlocks*> pieces;
  std::vector<Outliner*> outliner_of_rank;
  std::function<const Outline&(int rank, int ahead, int behind)> pair;
  std::function<double(int from, int to)> send;
  std::function<double(int rank, double dense, double experts)> reduce;
  bool waits_for_send = false;

  double run() {
    const auto stages = schedule_.ranks.size();
    const auto m = static_cast<std::size_t>(schedule_.shape.microbatches);
    const auto all = static_cast<std::size_t>(schedule_.virtual_stages) * m;
    activation_.assign(all, unsent);
    gradient_.assign(all, unsent);
    clocks_.resize(stages);
    for (std::size_t r = 0; r < stages; ++r) begin(r);
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t r = 0; r < stages; ++r) {
        while (clocks_[r].next < schedule_.ranks[r].size() && step(static_cast<int>(r))) moved = true;
      }
    }
    return finish();
  }

 private:
  static constexpr double unsent = -1;

  void begin(std::size_t r) {
    Clock& c = clocks_[r];
    const RankState& s = state_.ranks[r];
    const auto chunks = s.pieces.size();
    c.compute = s.update;
    c.moving = state_.gathers_ahead ? s.update : 0;
    c.backwards.assign(chunks, 0);
    c.started.assign(chunks, false);
    for (const Slot& slot : schedule_.ranks[r]) {
      if (gives_weights(slot.kind))
        ++c.backwards[static_cast<std::size_t>(slot.second_chunk >= 0 ? slot.second_chunk : slot.chunk)];
    }
    for (const PieceState& p : s.pieces) {
      std::vector<double> there;
      for (const double g : p.gather) {
        if (state_.gathers_ahead) c.moving += g;
        there.push_back(state_.gathers_ahead ? c.moving : never);
      }
      c.gathered.push_back(std::move(there));
    }
    c.compute += s.quantise;
  }

  [[nodiscard]] std::size_t at(int piece, int microbatch) const {
    return static_cast<std::size_t>(piece) * static_cast<std::size_t>(schedule_.shape.microbatches) +
           static_cast<std::size_t>(microbatch);
  }
  [[nodiscard]] int piece_of(int rank, int chunk) const {
    return schedule_.virtual_stage[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
  }

  // The message that a pass waits for: `never` when it comes from the rank itself or from nowhere; false: not sent.
  bool message(int rank, int piece, int microbatch, bool backward, double& time) const {
    time = never;
    const int from = piece + (backward ? 1 : -1);
    if (from < 0 || from >= schedule_.virtual_stages) return true;
    const int sender = schedule_.owner(from, microbatch).rank;
    if (sender == rank) return true;
    const double sent = backward ? gradient_[at(from, microbatch)] : activation_[at(from, microbatch)];
    if (sent == unsent) return false;
    time = sent + send(sender, rank);
    return true;
  }

  void sent(int rank, int piece, int microbatch, bool backward, double time) {
    (backward ? gradient_ : activation_)[at(piece, microbatch)] = std::max(0.0, time);
    const int to = piece + (backward ? -1 : 1);
    if (!waits_for_send || to < 0 || to >= schedule_.virtual_stages) return;
    const int receiver = schedule_.owner(to, microbatch).rank;
    if (receiver == rank) return;
    Clock& c = clocks_[static_cast<std::size_t>(rank)];
    c.compute = std::max(c.compute, time + send(rank, receiver));
  }

  bool step(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    Clock& c = clocks_[r];
    const Slot& slot = schedule_.ranks[r][c.next];
    const int piece = piece_of(rank, slot.chunk);
    double first = never;
    const bool backward = slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_input;
    if (slot.kind != SlotKind::backward_weight && !message(rank, piece, slot.microbatch, backward, first)) return false;
    switch (slot.kind) {
      case SlotKind::forward:
        sent(rank, piece, slot.microbatch, false, forward(rank, slot.chunk, first));
        break;
      case SlotKind::backward:
      case SlotKind::backward_input:
        sent(rank, piece, slot.microbatch, true,
             gradients(rank, slot.chunk, first,
                       slot.kind == SlotKind::backward ? parallelism::Pass::backward : parallelism::Pass::dgrad));
        break;
      case SlotKind::backward_weight:
        gradients(rank, slot.chunk, never, parallelism::Pass::wgrad);
        break;
      case SlotKind::forward_backward: {
        const int behind = piece_of(rank, slot.second_chunk);
        double second = never;
        if (!message(rank, behind, slot.second_microbatch, true, second)) return false;
        both(rank, slot, piece, behind, first, second);
        break;
      }
    }
    ++c.next;
    return true;
  }

  double forward(int rank, int chunk, double message) {
    const auto r = static_cast<std::size_t>(rank);
    const auto k = static_cast<std::size_t>(chunk);
    Clock& c = clocks_[r];
    const bool first = !c.started[k];
    c.started[k] = true;
    if (state_.every_pass) {
      const PieceState& p = state_.ranks[r].pieces[k];
      c.moving += p.gather_all;
      const double time = c.run(outlines[r][k]->forward.paths, message);
      c.compute = std::max(c.compute, c.moving);
      return time;
    }
    if (!first || !state_.gathers_ahead) return c.run(outlines[r][k]->forward.paths, message);
    double time = never;
    for (const auto& item : pieces[static_cast<std::size_t>(piece_of(rank, chunk))]->items) {
      const double there = c.gathered[k][static_cast<std::size_t>(item.parameters)];
      const Outline& block = outliner_of_rank[r]->block(item.block, parallelism::Pass::forward);
      time = c.run(block.paths, std::max(message, there));
      message = never;
    }
    return time;
  }

  double gradients(int rank, int chunk, double message, parallelism::Pass pass) {
    const auto r = static_cast<std::size_t>(rank);
    const auto k = static_cast<std::size_t>(chunk);
    Clock& c = clocks_[r];
    const PieceState& p = state_.ranks[r].pieces[k];
    const bool last = parallelism::has_wgrad(pass) && --c.backwards[k] == 0;
    if (last && state_.reduces_beside && !state_.every_microbatch) return last_backward(rank, chunk, message, pass);
    const PieceOutlines& o = *outlines[r][k];
    const Paths& paths = pass == parallelism::Pass::backward ? o.backward.paths
                         : pass == parallelism::Pass::dgrad  ? o.dgrad.paths
                                                             : o.wgrad.paths;
    const double begin = c.compute;
    const double time = c.run(paths, message);
    if (state_.every_pass && parallelism::has_dgrad(pass)) {
      c.moving += p.gather_all;
      c.compute = std::max(c.compute, c.moving);
    }
    if (state_.every_microbatch && parallelism::has_wgrad(pass)) {
      // Buckets leave in order, the last one after the last weight gradient.
      c.moving = std::max(std::max(c.moving, begin) + p.reduce_all, c.gradients + p.reduce_last);
    }
    return time;
  }

  // Block by block, since full buckets are reduced beside what follows.
  double last_backward(int rank, int chunk, double message, parallelism::Pass pass) {
    const auto r = static_cast<std::size_t>(rank);
    Clock& c = clocks_[r];
    const PieceBlocks& piece = *pieces[static_cast<std::size_t>(piece_of(rank, chunk))];
    double dense = 0;
    double experts = 0;
    double time = never;
    for (std::size_t i = piece.items.size(); i > 0; --i) {
      const auto& item = piece.items[i - 1];
      time = c.run(outliner_of_rank[r]->block(item.block, pass).paths, message);
      message = never;
      dense += piece.dense[static_cast<std::size_t>(item.parameters)];
      experts += piece.experts[static_cast<std::size_t>(item.parameters)];
      if (i > 1 && dense + experts < bucket_) continue;
      c.moving = std::max(c.moving, c.gradients) + reduce(rank, dense, experts);
      dense = experts = 0;
    }
    return time;
  }

  void both(int rank, const Slot& slot, int ahead, int behind, double first, double second) {
    const auto r = static_cast<std::size_t>(rank);
    Clock& c = clocks_[r];
    c.started[static_cast<std::size_t>(slot.chunk)] = true;
    const auto k = static_cast<std::size_t>(slot.second_chunk);
    const bool last = --c.backwards[k] == 0;
    const Paths& p = pair(rank, ahead, behind).paths;
    const double begin = c.compute;
    const auto of = [&](std::size_t out) {
      return std::max({p.at[out][compute_port] + begin, p.at[out][host_port] + c.host, p.at[out][message_port] + first,
                       p.at[out][second_message_port] + second});
    };
    const double activation = of(message_port);
    const double gradient = of(second_message_port);
    const double compute = of(compute_port);
    c.host = of(host_port);
    c.compute = compute;
    const PieceState& forwards = state_.ranks[r].pieces[static_cast<std::size_t>(slot.chunk)];
    const PieceState& backwards = state_.ranks[r].pieces[k];
    if (state_.every_pass) {
      c.moving += forwards.gather_all + backwards.gather_all;
      c.compute = std::max(c.compute, c.moving);
    }
    if (state_.every_microbatch || (last && state_.reduces_beside))
      c.moving = std::max(c.moving, begin) + backwards.reduce_all;
    sent(rank, ahead, slot.microbatch, false, activation);
    sent(rank, behind, slot.second_microbatch, true, gradient);
  }

  double finish() {
    const auto stages = clocks_.size();
    std::vector<double> done(stages, 0);
    for (std::size_t r = 0; r < stages; ++r) done[r] = std::max(clocks_[r].compute, clocks_[r].moving);
    if (!state_.reduces_beside && !state_.every_microbatch) {
      for (std::size_t r = 0; r < stages; ++r) done[r] += state_.ranks[r].late_reduce;
    }
    if (state_.embedding > 0) {
      const double t = std::max(done.front(), done.back()) + state_.embedding;
      done.front() = done.back() = t;
    }
    return *std::max_element(done.begin(), done.end()) + state_.norm - state_.slack;
  }

  const parallelism::Schedule& schedule_;
  const State& state_;
  double bucket_;
  std::vector<Clock> clocks_;
  std::vector<double> activation_, gradient_;  // by piece and microbatch: when it may leave
};

double Family::close(const Point& point) {
  Evaluated e;
  if (evaluate(point, true, e)) return 0;
  const auto& schedule = e.pipeline->schedule;
  const auto stages = schedule.ranks.size();
  StepSpec spec = spec_;
  apply(base_.space, point, spec);
  const StateRequest request{
      spec, *layout_, *e.groups, e.pipeline->pieces, schedule.virtual_stage, schedule.parameter_copies, base_.speed};
  CloseBound bound(schedule, *e.state, bucket_parameters(spec));
  for (std::size_t r = 0; r < stages; ++r) {
    const int kind = e.groups->kind_of_stage[r];
    auto& of_rank = bound.outlines.emplace_back();
    for (const int piece : schedule.virtual_stage[r]) of_rank.push_back(&e.bodies->piece(*e.pipeline, kind, piece));
    bound.outliner_of_rank.push_back(e.bodies->outliners[static_cast<std::size_t>(kind)]);
  }
  for (const PieceBlocks& p : e.pipeline->pieces) bound.pieces.push_back(&p);
  bound.pair = [&](int rank, int ahead, int behind) -> const Outline& {
    return e.bodies->pair(*e.pipeline, e.groups->kind_of_stage[static_cast<std::size_t>(rank)], ahead, behind);
  };
  bound.send = [&](int from, int to) { return send_seconds(e, from, to); };
  bound.reduce = [&](int rank, double dense, double experts) {
    const auto kind = static_cast<std::size_t>(e.groups->kind_of_stage[static_cast<std::size_t>(rank)]);
    return reduce_seconds(request, e.groups->kinds[kind], dense, experts);
  };
  bound.waits_for_send = !spec.overlap.p2p;
  return std::max(0.0, bound.run() * rounding);
}

}  // namespace stepcast::scenarios::plan
