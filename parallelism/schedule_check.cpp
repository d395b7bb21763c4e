// Soundness of a schedule by running it: slots in order on each rank, a slot once what it needs has been done.
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "parallelism/schedule.h"

namespace stepcast::parallelism {
namespace {

constexpr std::size_t most_faults = 20;

enum Pass : std::uint8_t { pass_forward = 1, pass_input = 2, pass_weight = 4, pass_all = 7 };

// What is done of each (piece, microbatch), and the order in which messages of an edge were sent and must be taken.
class Run {
 public:
  explicit Run(const Schedule& s)
      : schedule_(s),
        done_(static_cast<std::size_t>(s.virtual_stages) * static_cast<std::size_t>(s.shape.microbatches)) {}

  std::vector<std::string> faults() {
    const std::size_t ranks = schedule_.ranks.size();
    std::vector<std::size_t> next(ranks, 0);
    for (bool moved = true; moved && faults_.size() < most_faults;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::vector<Slot>& slots = schedule_.ranks[rank];
        for (; next[rank] < slots.size() && ready(rank, slots[next[rank]]); ++next[rank]) {
          finish(rank, slots[next[rank]]);
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (next[rank] < schedule_.ranks[rank].size()) {
        fault(fmt::format("rank {} waits for ever at slot {} of {}", rank, next[rank], schedule_.ranks[rank].size()));
      }
    }
    check_complete();
    check_message_order();
    return std::move(faults_);
  }

 private:
  struct Half {
    std::uint8_t passes;
    int chunk;
    int microbatch;
  };

  void fault(std::string message) {
    if (faults_.size() < most_faults) faults_.push_back(std::move(message));
  }

  static std::vector<Half> halves(const Slot& slot) {
    switch (slot.kind) {
      case SlotKind::forward:
        return {{pass_forward, slot.chunk, slot.microbatch}};
      case SlotKind::backward:
        return {{pass_input | pass_weight, slot.chunk, slot.microbatch}};
      case SlotKind::backward_input:
        return {{pass_input, slot.chunk, slot.microbatch}};
      case SlotKind::backward_weight:
        return {{pass_weight, slot.chunk, slot.microbatch}};
      case SlotKind::forward_backward:
        return {{pass_forward, slot.chunk, slot.microbatch},
                {pass_input | pass_weight, slot.second_chunk, slot.second_microbatch}};
    }
    return {};
  }

  // -1 when the slot names a chunk or microbatch that is not there.
  [[nodiscard]] int piece_of(std::size_t rank, const Half& half) const {
    const std::vector<int>& pieces = schedule_.virtual_stage[rank];
    if (half.chunk < 0 || static_cast<std::size_t>(half.chunk) >= pieces.size()) return -1;
    if (half.microbatch < 0 || half.microbatch >= schedule_.shape.microbatches) return -1;
    return pieces[static_cast<std::size_t>(half.chunk)];
  }

  std::uint8_t& done(int piece, int microbatch) {
    return done_[static_cast<std::size_t>(piece) * static_cast<std::size_t>(schedule_.shape.microbatches) +
                 static_cast<std::size_t>(microbatch)];
  }

  bool ready(std::size_t rank, const Slot& slot) {
    for (const Half& half : halves(slot)) {
      const int piece = piece_of(rank, half);
      if (piece < 0) continue;
      if ((half.passes & pass_forward) != 0 && piece > 0 && (done(piece - 1, half.microbatch) & pass_forward) == 0) {
        return false;
      }
      if ((half.passes & pass_input) != 0) {
        const bool last = piece == schedule_.virtual_stages - 1;
        if ((done(piece, half.microbatch) & pass_forward) == 0) return false;
        if (!last && (done(piece + 1, half.microbatch) & pass_input) == 0) return false;
      } else if ((half.passes & pass_weight) != 0 && (done(piece, half.microbatch) & pass_input) == 0) {
        return false;
      }
    }
    return true;
  }

  void finish(std::size_t rank, const Slot& slot) {
    for (const Half& half : halves(slot)) {
      const int piece = piece_of(rank, half);
      if (piece < 0) {
        fault(fmt::format("rank {} names chunk {} and microbatch {}", rank, half.chunk, half.microbatch));
        continue;
      }
      const Schedule::Place place = schedule_.owner(piece, half.microbatch);
      if (place.rank != static_cast<int>(rank) || place.chunk != half.chunk) {
        fault(fmt::format("piece {} of microbatch {} belongs to rank {}, not to rank {}", piece, half.microbatch,
                          place.rank, rank));
      }
      std::uint8_t& state = done(piece, half.microbatch);
      if ((state & half.passes) != 0) {
        fault(fmt::format("rank {} runs a pass of piece {}, microbatch {} twice", rank, piece, half.microbatch));
      }
      state = static_cast<std::uint8_t>(state | half.passes);
    }
  }

  void check_complete() {
    for (int piece = 0; piece < schedule_.virtual_stages; ++piece) {
      for (int microbatch = 0; microbatch < schedule_.shape.microbatches; ++microbatch) {
        if (done(piece, microbatch) == pass_all) continue;
        fault(fmt::format("piece {} of microbatch {} lacks a pass", piece, microbatch));
        if (faults_.size() >= most_faults) return;
      }
    }
  }

  // Channels are first in, first out: between two neighbouring pieces, both ends must take the microbatches of one way
  // in the same order, forward and backward. Every chunk's order is compared with the natural one, 0, 1, 2, ...
  void check_message_order() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      std::vector<std::array<int, 2>> last(schedule_.virtual_stage[rank].size(), {-1, -1});
      for (const Slot& slot : schedule_.ranks[rank]) {
        for (const Half& half : halves(slot)) {
          if (half.passes == pass_weight || piece_of(rank, half) < 0) continue;
          int& before = last[static_cast<std::size_t>(half.chunk)][half.passes == pass_forward ? 0 : 1];
          if (half.microbatch < before) {
            fault(fmt::format("rank {} takes microbatch {} of chunk {} after {}: messages would overtake", rank,
                              half.microbatch, half.chunk, before));
          }
          before = half.microbatch;
        }
      }
    }
  }

  const Schedule& schedule_;
  std::vector<std::uint8_t> done_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check(const Schedule& schedule) { return Run(schedule).faults(); }

}  // namespace stepcast::parallelism
