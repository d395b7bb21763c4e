// A schedule run with given times a piece, free communication and buffered sends: the reference for closed forms.
//
// Independent of parallelism/schedule_check.cpp and of the engine.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "parallelism/schedule.h"

namespace stepcast::parallelism::testing {

struct SlotTimes {
  double f = 1, b = 1, w = 1;  // forward, input gradient, weight gradient of one piece
};

struct RankRun {
  double first = 0, last = 0, busy = 0;
  int peak = 0;  // pieces of activations in flight: from a forward's begin to the end of its weight gradient
};

struct Simulated {
  bool finished = false;
  double makespan = 0;
  std::vector<RankRun> ranks;
};

inline Simulated simulate(const Schedule& s, SlotTimes t) {
  const double none = -1;
  const auto m = static_cast<std::size_t>(s.shape.microbatches);
  const auto pieces = static_cast<std::size_t>(s.virtual_stages);
  std::vector<std::vector<double>> forward_end(pieces, std::vector<double>(m, none));
  std::vector<std::vector<double>> backward_end = forward_end;
  std::vector<std::size_t> next(s.ranks.size(), 0);
  std::vector<double> now(s.ranks.size(), 0);
  std::vector<int> held(s.ranks.size(), 0);
  Simulated out;
  out.ranks.resize(s.ranks.size());
  const auto piece = [&s](std::size_t rank, int chunk) {
    return static_cast<std::size_t>(s.virtual_stage[rank][static_cast<std::size_t>(chunk)]);
  };
  // When the inputs of a pass are there; `none` if not yet.
  const auto forward_input = [&](std::size_t p, int i) {
    return p == 0 ? 0.0 : forward_end[p - 1][static_cast<std::size_t>(i)];
  };
  const auto backward_inputs = [&](std::size_t p, int i) {
    const double own = forward_end[p][static_cast<std::size_t>(i)];
    const double gradient = p + 1 == pieces ? own : backward_end[p + 1][static_cast<std::size_t>(i)];
    return own == none || gradient == none ? none : std::max(own, gradient);
  };
  std::size_t left = 0;
  for (const auto& slots : s.ranks) left += slots.size();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < s.ranks.size(); ++r) {
      while (next[r] < s.ranks[r].size()) {
        const Slot& slot = s.ranks[r][next[r]];
        const bool pair = slot.kind == SlotKind::forward_backward;
        const bool is_forward = pair || slot.kind == SlotKind::forward;
        const std::size_t p = piece(r, slot.chunk);
        double input = is_forward ? forward_input(p, slot.microbatch) : backward_inputs(p, slot.microbatch);
        if (slot.kind == SlotKind::backward_weight) input = backward_end[p][static_cast<std::size_t>(slot.microbatch)];
        double second = 0;
        if (pair) second = backward_inputs(piece(r, slot.second_chunk), slot.second_microbatch);
        if (input == none || second == none) break;
        double duration = is_forward ? t.f : 0;
        if (pair || slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_input) duration += t.b;
        if (pair || slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_weight) duration += t.w;
        const double begin = std::max({now[r], input, second});
        RankRun& run = out.ranks[r];
        if (next[r] == 0) run.first = begin;
        now[r] = run.last = begin + duration;
        run.busy += duration;
        if (is_forward) {
          run.peak = std::max(run.peak, ++held[r]);
          forward_end[p][static_cast<std::size_t>(slot.microbatch)] = now[r];
        } else if (slot.kind != SlotKind::backward_weight) {
          backward_end[p][static_cast<std::size_t>(slot.microbatch)] = now[r];
        }
        if (pair) {
          backward_end[piece(r, slot.second_chunk)][static_cast<std::size_t>(slot.second_microbatch)] = now[r];
        }
        if (pair || slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_weight) --held[r];
        out.makespan = std::max(out.makespan, now[r]);
        ++next[r];
        --left;
        moved = true;
      }
    }
  }
  out.finished = left == 0;
  return out;
}

}  // namespace stepcast::parallelism::testing
