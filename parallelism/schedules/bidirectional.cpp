#include "parallelism/schedules/bidirectional.h"

#include "parallelism/schedules/schedules.h"

namespace stepcast::parallelism::pipeline {
namespace {

enum Side : std::size_t { near_side = 0, far_side = 1 };

// Writes slots; counts forwards and backwards of each side and remembers weight gradients put off, oldest first.
class Writer {
 public:
  explicit Writer(const TwoSides& sides)
      : chunk_{sides.near_chunk, 1 - sides.near_chunk}, first_{sides.near_first, sides.far_first} {}

  void run_forward(Side side) { slots_.push_back(forward(chunk_[side], next(forward_, side))); }
  void run_backward(Side side) { slots_.push_back(backward(chunk_[side], next(backward_, side))); }
  void run_input(Side side) {
    slots_.push_back(backward_input(chunk_[side], next(backward_, side)));
    put_off_.push_back(slots_.back());
  }
  void run_backward(Side side, bool split) { split ? run_input(side) : run_backward(side); }
  void run_weight() {
    const Slot& slot = put_off_[weights_++];
    slots_.push_back(backward_weight(slot.chunk, slot.microbatch));
  }
  void run_pair(Side forward_side, Side backward_side) {
    const int f = next(forward_, forward_side);
    slots_.push_back(forward_backward(chunk_[forward_side], f, chunk_[backward_side], next(backward_, backward_side)));
  }
  std::vector<Slot> take() {
    STEPCAST_ASSERT(weights_ == put_off_.size());
    return std::move(slots_);
  }

 private:
  int next(int (&counts)[2], Side side) { return first_[side] + counts[side]++; }

  int chunk_[2];
  int first_[2];
  int forward_[2] = {0, 0};
  int backward_[2] = {0, 0};
  std::vector<Slot> put_off_;
  std::size_t weights_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace

std::vector<Slot> two_sided_slots(const TwoSides& sides) {
  Writer w(sides);
  const int behind = sides.half - sides.depth - 1;  // stages between this rank and the turning point
  const int ahead = sides.depth + 1;
  for (int i = 0; i < 2 * behind; ++i) w.run_forward(near_side);
  for (int i = 0; i < ahead; ++i) {
    w.run_forward(near_side);
    w.run_forward(far_side);
  }
  for (int i = 0; i < behind; ++i) {
    w.run_input(far_side);
    w.run_weight();
    w.run_forward(far_side);
  }
  for (int i = 0; i < sides.microbatches - 2 * sides.half + ahead; ++i) {
    if (i == 0 && behind == 0) {
      // At the turning point the two are not co-scheduled: the forward's output is needed next door at once.
      w.run_forward(near_side);
      w.run_backward(far_side);
    } else {
      w.run_pair(near_side, far_side);
    }
    w.run_pair(far_side, near_side);
  }
  for (int i = 0; i < behind; ++i) {
    w.run_backward(far_side);
    w.run_pair(far_side, near_side);
  }
  // Drain. Half-way, weight gradients begin to be put off.
  bool split = false;
  for (int i = 0; i < ahead; ++i) {
    if (i == ahead / 2 && sides.depth % 2 == 1) split = true;
    w.run_backward(far_side, split);
    if (i == ahead / 2 && sides.depth % 2 == 0) split = true;
    w.run_backward(near_side, split);
  }
  for (int i = 0; i < behind; ++i) {
    w.run_weight();
    w.run_input(near_side);
  }
  for (int i = 0; i < ahead; ++i) w.run_weight();
  return w.take();
}

double two_sided_bubble(int half, int microbatches, double f, double b, double w) {
  if (half > 1 && (f != b || w > f)) return -1;
  const double pair = f + b + w;
  return (half - 1) * (pair + (b + w) - 3 * w) / (2.0 * microbatches * (f + b + w));
}

}  // namespace stepcast::parallelism::pipeline
